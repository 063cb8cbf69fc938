"""A node with simulated cards, and the containers and slices of its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hami_cambricon.node import CambriconNode

from hami_core import ContainerKind, ContainerRef, NodeContext, Slice

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Machine:
    """A node with simulated cards.

    Attributes:
        folder: The cards' state.
        state_dir: The agent's folder.
    """

    folder: Path
    state_dir: Path

    def agent(self, **options: Any) -> CambriconNode:
        """A node side as a new agent has it: loaded, with the cards discovered."""
        node = CambriconNode(**options)
        node.families(None, NodeContext("mlu-1", self.state_dir))
        node.discover()
        return node

    def write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(f"{value}\n")

    def uuid(self, card: int = 0) -> str:
        return "MLU-" + (self.folder / f"card{card}" / "uuid").read_text()

    def profiles(self, card: int = 0) -> dict[str, str]:
        return _contents(self.folder / f"card{card}" / "profiles")

    def instances(self, card: int = 0) -> dict[str, str]:
        return _contents(self.folder / f"card{card}" / "instances")


def _contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in sorted(folder.iterdir())}


def container(name: str = "main", uid: str = "3f1c1b5e-0000-4000-8000-000000000001", **more: object) -> ContainerRef:
    return ContainerRef(uid, "default", "pod", name, ContainerKind.APP, **more)


def part(uuid: str, memory_mib: int = 4096, cores: int = 25) -> Slice:
    return Slice(uuid, "MLU", memory_mib, cores)
