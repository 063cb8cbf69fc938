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

    @pytest.mark.xfail(reason="the size of a slice says how much memory it has; a pod does not write both")
    def test_all_memory_of_a_device_can_be_asked_for(self, loaded, devices) -> None:
        super().test_all_memory_of_a_device_can_be_asked_for(loaded, devices)

    @pytest.mark.xfail(reason="the count is the size of one slice, so a request for 3 is a request for one device")
    def test_request_is_never_less_than_the_limit(self, loaded) -> None:
        super().test_request_is_never_less_than_the_limit(loaded)
