"""The conformance kit on this vendor, on nodes as its real device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_ascend import Ascend

from hami_core.testing import VendorSuite


class TestAscend(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Ascend:
        return Ascend()
