"""The conformance kit on NVIDIA's scheduler side, on nodes as HAMi's device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_nvidia import Nvidia

from hami_core.testing import VendorSuite


class TestNvidia(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Nvidia:
        return Nvidia()
