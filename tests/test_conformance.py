"""``hami conformance NAME`` passes for every installed vendor, without a device and without fixtures."""

from __future__ import annotations

import pytest

from hami_core.plugins.discovery import VENDORS, installed
from hami_core.testing.run import run


@pytest.mark.parametrize("name", sorted(source.name for source, _ in installed(VENDORS)))
def test_installed_vendor_passes_without_devices(name):
    report = run(name, timeout_s=150)  # for a busy machine; budgets of hooks are counted in calls
    assert report.passed, str(report)
