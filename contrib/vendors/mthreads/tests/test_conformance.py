"""The conformance kit on this vendor, on nodes as Moore Threads' device plugin leaves them."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hami_mthreads import Mthreads

from hami_core.testing import VendorSuite


class TestS4000(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Mthreads:
        return Mthreads()


class TestS5000(TestS4000):
    config: ClassVar = {"mthreads": {"memoryPerCard": [160]}}
    node_fixtures = "data/s5000/*.yaml"


class TestBothModels(TestS5000):
    config: ClassVar = {"mthreads": {"memoryPerCard": [96, 160]}}
