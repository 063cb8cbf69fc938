"""The conformance kit on NVIDIA: on nodes as HAMi's device plugin leaves them, and on two simulated cards."""

from __future__ import annotations

import pytest
from hami_nvidia import Nvidia

from hami_core.testing import VendorSuite


class TestNvidia(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Nvidia:
        return Nvidia()

    @pytest.fixture
    def seconds(self):
        """Time of the node side's clock, which only `set_health` moves."""
        return [0.0]

    @pytest.fixture
    def new_node_side(self, node, seconds):
        return lambda: node(clocks=(lambda: seconds[0],), xid_recovery_s=60.0)

    @pytest.fixture
    def node_side(self, new_node_side):
        return new_node_side()

    @pytest.fixture
    def set_health(self, node_side, state, seconds):
        """Make a card fall off the bus, or bring it back and wait until its critical error is forgiven."""
        ids = [device.id for device in node_side.discover()]

        def set_health(device_id: str, healthy: bool) -> None:
            (state.restore if healthy else state.lose)(ids.index(device_id))
            seconds[0] += node_side.settings.xid_recovery_s

        return set_health
