"""The conformance kit on this vendor, on nodes as its real device plugin leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hami_cambricon import Cambricon, sim
from hami_cambricon.node import CambriconNode

from hami_core.testing import VendorSuite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class TestCambricon(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Cambricon:
        return Cambricon()

    @pytest.fixture
    def mlus(self, tmp_path) -> Path:
        return tmp_path / "mlu"

    @pytest.fixture
    def node_side(self, mlus, monkeypatch) -> CambriconNode:
        """Make a node side on a machine with two simulated cards."""
        for name, value in sim.create(mlus).items():
            monkeypatch.setenv(name, value)
        return CambriconNode()

    @pytest.fixture
    def set_health(self, mlus) -> Callable[[str, bool], None]:
        """Let the driver report a card as faulty, or as healthy."""

        def set_health(device_id: str, healthy: bool) -> None:
            (card,) = [path.parent for path in mlus.glob("card*/uuid") if device_id.endswith(path.read_text().strip())]
            (card / "health").write_text("1" if healthy else "0")

        return set_health

    @pytest.fixture
    def leftovers(self, mlus) -> Callable[[], list[str]]:
        """Names of sMLU instances. Profiles are left out, because containers share them."""
        return lambda: [path.read_text().split()[3] for path in mlus.glob("card*/instances/*")]
