"""The conformance kit on this vendor, on nodes as HAMi's Biren device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_biren import Biren

from hami_core.testing import VendorSuite


class TestBiren(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Biren:
        return Biren()
