"""The conformance kit on this vendor, on nodes as its real device plugins leave them."""

from __future__ import annotations

import pytest
from hami_hygon import Hygon

from hami_core.testing import VendorSuite


class TestHygon(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Hygon:
        return Hygon()
