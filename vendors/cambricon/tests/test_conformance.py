"""The conformance kit on this vendor, on nodes as its real device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_cambricon import Cambricon, sim
from hami_cambricon.node import CambriconNode

from hami_core.testing import VendorSuite


class TestCambricon(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Cambricon:
        return Cambricon()

    @pytest.fixture
    def node_side(self, tmp_path, monkeypatch) -> CambriconNode:
        """Make a node side on a machine with two simulated cards."""
        for name, value in sim.create(tmp_path / "mlu").items():
            monkeypatch.setenv(name, value)
        return CambriconNode()
