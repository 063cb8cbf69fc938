"""The conformance kit on this vendor, on nodes as Iluvatar's gpu-manager leaves them."""

from __future__ import annotations

import pytest
from hami_iluvatar import Iluvatar

from hami_core.testing import VendorSuite


class TestIluvatar(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Iluvatar:
        return Iluvatar()
