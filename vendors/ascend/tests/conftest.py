"""A node side on simulated NPUs, loaded as the agent loads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hami_ascend import Ascend, sim
from hami_ascend.dcmi import Dcmi
from hami_ascend.node import AscendNode

from hami_core import HamiError
from hami_core.model import ContainerKind, ContainerRef, NodeContext, Slice
from hami_core.plugins.discovery import Source
from hami_core.plugins.manager import build_vendor
from hami_core.plugins.problem import Reporter

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Npus:
    """A node with simulated NPUs. The tests change files; every process that is told `env` sees the change."""

    folder: Path
    state: Path
    env: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    config: dict = field(default_factory=dict)
    now: float = 1000.0

    def chip(self, card: int = 0, device: int = 0) -> Path:
        return self.folder / f"card{card}" / f"device{device}"

    def die(self, card: int = 0, device: int = 0) -> str:
        return (self.chip(card, device) / "die_id").read_text().strip()

    def set(self, card: int = 0, **facts: object) -> None:
        sim.write(self.chip(card), {name: str(value) for name, value in facts.items()})

    def vnpus(self, card: int = 0) -> dict[int, tuple[str, bool]]:
        """Id → template, and whether a container uses it."""
        found = {}
        for path in (self.chip(card) / "vnpu").iterdir():
            template, used = path.read_text().split()
            found[int(path.name)] = (template, used == "1")
        return found

    def use(self, vdev_id: int, card: int = 0, used: bool = True) -> None:
        path = self.chip(card) / "vnpu" / str(vdev_id)
        path.write_text(f"{path.read_text().split()[0]}\n{int(used)}\n")

    def driver(self) -> Dcmi:
        """The library, for a test that acts as the Ascend runtime or as an operator."""
        return Dcmi(lambda: [self.env["HAMI_ASCEND_DCMI_LIBRARY"]])

    def clock(self) -> float:
        """Monotonic seconds, of which each call takes one."""
        self.now += 1
        return self.now

    def agent(self, node_config: Path | None = None, **settings: str):
        """Load both sides in a fresh object, as after a restart of the agent."""
        for name, value in settings.items():
            self.monkeypatch.setenv(f"HAMI_ASCEND_{name.upper()}", value)
        node = AscendNode(clock=self.clock)
        reporter = Raising()
        both = [
            (Ascend(), Source("ascend", "hami.vendors", "hami_ascend:Ascend")),
            (node, Source("ascend", "hami.node", "hami_ascend.node:AscendNode")),
        ]
        context = NodeContext("npu-1", self.state, config_file=node_config)
        return build_vendor(both, [], self.config, reporter, node=context)

    def slice(self, mib: int, card: int = 0, word: str = "Ascend910B3", cores: int = 0) -> Slice:
        return Slice(self.die(card), word, mib, cores)


class Raising(Reporter):
    """Fails the test if a hook fails with something other than the errors that hooks raise on purpose."""

    def failed(self, problem, kind, cause):
        if not isinstance(cause, HamiError):
            pytest.fail(f"{problem.hook}: {problem.text}")


def container(name: str = "main", uid: str = "uid-1", **annotations: str) -> ContainerRef:
    return ContainerRef(uid, "default", "pod", name, ContainerKind.APP, {}, annotations)


@pytest.fixture
def npus(tmp_path, monkeypatch):
    def make(cards: int = 2, model: str = "910B3", devices_in_card: int = 1) -> Npus:
        env = sim.create(tmp_path / "npus", cards, model, devices_in_card)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return Npus(tmp_path / "npus", tmp_path / "state", env, monkeypatch)

    return make
