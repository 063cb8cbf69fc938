"""Runs the conformance kit on this vendor. Put tests of your own rules beside it."""

from __future__ import annotations

import pytest
from hami_acme import Acme

from hami_core.testing import VendorSuite


class TestAcme(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Acme:
        return Acme()

    # template if node_side
    @pytest.fixture
    def node_side(self, tmp_path, monkeypatch):
        """Make a node side on a machine with two simulated devices."""
        from hami_acme.node import AcmeNode
        from hami_acme.simulated import devices

        for name, value in devices(tmp_path).items():
            monkeypatch.setenv(name, value)
        return AcmeNode()

    @pytest.fixture
    def set_health(self, tmp_path):
        """Break or mend a device as the driver shows it: the folder of a broken device is gone."""

        def set_health(device_id: str, healthy: bool) -> None:
            folder, away = tmp_path / f"sys/acme{int(device_id[-4:])}", tmp_path / f"away-{device_id}"
            (away.rename(folder) if healthy else folder.rename(away))

        return set_health

    # template endif
