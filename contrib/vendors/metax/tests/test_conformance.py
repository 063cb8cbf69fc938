"""The conformance kit on this vendor, on nodes as MetaX's device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_metax import Metax

from hami_core.testing import VendorSuite


class TestMetax(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Metax:
        return Metax()
