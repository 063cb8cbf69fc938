"""The conformance kit on this vendor, on nodes as AWS's Neuron device plugin leaves them."""

from __future__ import annotations

import pytest
from hami_awsneuron import AwsNeuron

from hami_core.testing import VendorSuite


class TestAwsNeuron(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> AwsNeuron:
        return AwsNeuron()
