"""The conformance kit on this vendor, on nodes as Enflame's plugins leave them."""

from __future__ import annotations

import pytest
from hami_enflame import Enflame

from hami_core.testing import VendorSuite


class TestEnflame(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Enflame:
        return Enflame()
