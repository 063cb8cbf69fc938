"""The conformance kit on this vendor, on nodes as both device plugins leave them."""

from __future__ import annotations

import pytest
from hami_kunlun import Kunlun

from hami_core.testing import VendorSuite


class TestKunlun(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Kunlun:
        return Kunlun()
