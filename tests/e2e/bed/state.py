"""What a bed knows of itself, kept in ``state.json`` of its work folder, so that any later command finds it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tests.e2e.bed.errors import BedError
from tests.e2e.bed.processes import Process  # noqa: TC001 - msgspec reads the annotations below

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Node:
    """A node to be.

    Attributes:
        name: Its host and object name.
        gpus: Profile of simulated GPUs, such as ``a100x2``; "" = none.
    """

    name: str
    gpus: str = ""


@dataclass
class Placed:
    """A node that was made: its number decides its addresses."""

    node: Node
    number: int

    @property
    def address(self) -> str:
        """On the network all machines share."""
        return f"10.200.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """Subnet of its pods."""
        return f"10.244.{self.number}.0/24"


@dataclass
class Held:
    """A machine that runs: pid 1 in its namespaces, and the process that made them and waits outside."""

    holder: Process
    launcher: Process


@dataclass
class Component:
    """A program of the bed: how it is started, and as what it runs (None = not now)."""

    machine: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    process: Process | None = None
    launcher: Process | None = None


@dataclass
class Options:
    """What a bed was asked to be."""

    images: list[str] = field(default_factory=list)
    audit: bool = True
    cdi: bool = True
    kubelet: dict[str, Any] = field(default_factory=dict)
    apiserver: list[str] = field(default_factory=list)


@dataclass
class State:
    """All of it."""

    tools: dict[str, str]
    options: Options
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    nodes: dict[str, Placed] = field(default_factory=dict)
    machines: dict[str, Held] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)

    @classmethod
    def load(cls, work: Path) -> Self:
        """Read it back.

        Raises:
            BedError: There is no bed in that folder.
        """
        file = work / "state.json"
        if not file.exists():
            raise BedError(f"no bed in {work} (no state.json there); start one: python -m tests.e2e.bed up")
        return msgspec.json.decode(file.read_bytes(), type=cls)

    def save(self, work: Path) -> None:
        """Write it, whole or not at all."""
        new = work / "state.json.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        new.replace(work / "state.json")

    def placed(self, name: str) -> Placed:
        """The node of that name.

        Raises:
            BedError: There is none.
        """
        if name not in self.nodes:
            raise BedError(f"no node {name}; there are {', '.join(self.nodes)}")
        return self.nodes[name]
