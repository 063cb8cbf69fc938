"""NVIDIA's table has the metrics of HAMi's monitor, with HAMi's labels."""

from __future__ import annotations

import pytest
from hami_nvidia.metrics import HAMI, HAMI_LEGACY

from .cases import value

pytestmark = pytest.mark.vectors

NOT_SERVED = {
    "hami_container_last_kernel_elapsed_seconds",
    "Device_last_kernel_of_container",
    "MigInfo",
}
"""Metrics that we do not serve. docs/reference/compatibility.md lists them."""


def test_hamis_metrics_have_its_labels():
    theirs = {
        **value("vendors/metrics.host"),
        **value("vendors/metrics.container"),
        **value("vendors/metrics.mig"),
        **value("vendors/metrics.legacy"),
    }
    ours = {spec.name: set(spec.labels) for spec in (*HAMI, *HAMI_LEGACY)}
    assert ours == {name: set(labels) for name, labels in theirs.items() if name not in NOT_SERVED}
    assert theirs.keys() >= NOT_SERVED


def test_hamis_metrics_have_its_constant_label():
    assert value("vendors/metrics.constLabel") == {"zone": "vGPU"}
    assert all(spec.zoned for spec in (*HAMI, *HAMI_LEGACY))
