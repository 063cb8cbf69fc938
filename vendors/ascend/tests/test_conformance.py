"""The conformance kit on this vendor: nodes as HAMi's device plugin leaves them, and a node side on simulated NPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hami_ascend import Ascend, sim
from hami_ascend.node import AscendNode

from hami_core.testing import VendorSuite
from hami_core.testing.suites.allocate import AllocateSuite
from hami_core.testing.suites.lifecycle import LifecycleSuite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Machine:
    """Fixtures of a machine with eight NPUs."""

    creator = "agent"
    """The program that makes vNPUs: `runtime` or `agent`."""

    @pytest.fixture
    def vendor(self) -> Ascend:
        return Ascend()

    @pytest.fixture
    def npus(self, tmp_path) -> Path:
        return tmp_path / "npus"

    @pytest.fixture
    def node_side(self, npus, monkeypatch) -> AscendNode:
        for name, value in sim.create(npus, cards=8).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HAMI_ASCEND_VNPU_CREATOR", self.creator)
        return AscendNode()

    @pytest.fixture
    def set_health(self, npus) -> Callable[[str, bool], None]:
        """Let the driver report a critical fault of an NPU, or none."""

        def set_health(die_id: str, healthy: bool) -> None:
            (chip,) = [path.parent for path in npus.glob("card*/device*/die_id") if path.read_text().strip() == die_id]
            sim.write(chip, {"health": "0" if healthy else "3"})

        return set_health


class TestAscend(Machine, VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def leftovers(self, npus, node_context) -> Callable[[], list[str]]:
        """Ids of vNPUs, and of the agent's intents to make them."""
        intents = node_context.state_dir / "ascend" / "vnpus"
        return lambda: [
            *(f"vNPU {path.name}" for path in npus.glob("card*/device*/vnpu/*")),
            *(f"intent {path.stem}" for path in intents.glob("*.json")),
        ]


class TestVnpusOfTheRuntime(Machine, AllocateSuite, LifecycleSuite):
    """Ascend's container runtime makes the vNPUs, so `allocate` makes nothing and `leftovers` is not defined."""

    creator = "runtime"
