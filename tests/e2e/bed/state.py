"""The state of a bed. It is kept in ``state.json`` of the work folder, so that later commands find the bed."""

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
    """The description of a node.

    Attributes:
        name: Name of the host and of the node object.
        gpus: Profile of simulated GPUs, such as ``a100x2``; "" = none.
    """

    name: str
    gpus: str = ""


@dataclass
class Placed:
    """A node of the bed. Its number decides its addresses."""

    node: Node
    number: int

    @property
    def address(self) -> str:
        """The node's address on the network of all machines."""
        return f"10.200.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """Subnet of the node's pods."""
        return f"10.244.{self.number}.0/24"


@dataclass
class Held:
    """A running machine: pid 1 in its namespaces, and the process outside that made them and waits."""

    holder: Process
    launcher: Process


@dataclass
class Component:
    """A program of the bed: its command line, and its process (None if it does not run)."""

    machine: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    process: Process | None = None
    launcher: Process | None = None


@dataclass
class Options:
    """The options with which a bed was made."""

    images: list[str] = field(default_factory=list)
    audit: bool = True
    cdi: bool = True
    kubelet: dict[str, Any] = field(default_factory=dict)
    apiserver: list[str] = field(default_factory=list)


@dataclass
class State:
    """The whole state of a bed."""

    tools: dict[str, str]
    options: Options
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    nodes: dict[str, Placed] = field(default_factory=dict)
    machines: dict[str, Held] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)

    @classmethod
    def load(cls, work: Path) -> Self:
        """Read the state of the bed in a folder.

        Raises:
            BedError: There is no bed in that folder.
        """
        file = work / "state.json"
        if not file.exists():
            raise BedError(f"no bed in {work} (no state.json there); start one: python -m tests.e2e.bed up")
        return msgspec.json.decode(file.read_bytes(), type=cls)

    def save(self, work: Path) -> None:
        """Write the state. The file is replaced at once, so it is always complete."""
        new = work / "state.json.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        new.replace(work / "state.json")

    def placed(self, name: str) -> Placed:
        """The node of this name.

        Raises:
            BedError: There is no node of this name.
        """
        if name not in self.nodes:
            raise BedError(f"no node {name}; there are {', '.join(self.nodes)}")
        return self.nodes[name]
