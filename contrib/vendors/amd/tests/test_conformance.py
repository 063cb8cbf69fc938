"""The conformance kit on this vendor, on nodes as HAMi's AMD device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_amd import Amd

from hami_core.testing import VendorSuite


class TestAmd(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Amd:
        return Amd()
