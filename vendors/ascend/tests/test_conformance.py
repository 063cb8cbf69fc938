"""The conformance kit on this vendor: nodes as HAMi's device plugin leaves them, and a node side on simulated NPUs."""

from __future__ import annotations

import pytest
from hami_ascend import Ascend, sim
from hami_ascend.node import AscendNode

from hami_core.testing import VendorSuite


class TestAscend(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Ascend:
        return Ascend()

    @pytest.fixture
    def node_side(self, tmp_path, monkeypatch) -> AscendNode:
        for name, value in sim.create(tmp_path / "npus", cards=8).items():
            monkeypatch.setenv(name, value)
        return AscendNode()
