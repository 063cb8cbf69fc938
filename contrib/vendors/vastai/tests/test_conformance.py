"""The conformance kit on this vendor, on nodes as HAMi's Vastai device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_vastai import Vastai

from hami_core.testing import VendorSuite


class TestVastai(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Vastai:
        return Vastai()
