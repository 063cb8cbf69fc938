"""Runs the conformance kit on this vendor. Put tests of your own rules beside it."""

from __future__ import annotations

import pytest
from hami_acme import Acme
from hami_acme.node import AcmeNode

from hami_core.testing import VendorSuite


class TestAcme(VendorSuite):
    node_fixtures = "data/nodes/*.yaml"

    @pytest.fixture
    def vendor(self) -> Acme:
        return Acme()

    @pytest.fixture
    def node_side(self, tmp_path, monkeypatch) -> AcmeNode:
        """Make a node side on a machine with two devices."""
        for index in range(2):
            folder = tmp_path / f"acme{index}"
            folder.mkdir()
            facts = {"uuid": f"ACME-000{index}", "memory_mib": "32768", "model": "Acme-X1", "numa_node": "0"}
            for name, value in facts.items():
                (folder / name).write_text(value + "\n")
        monkeypatch.setenv("HAMI_ACME_SYSFS", str(tmp_path))
        return AcmeNode()

    @pytest.fixture
    def set_health(self, tmp_path):
        """Break or mend a device as the driver shows it: the folder of a broken device is gone."""

        def set_health(device_id: str, healthy: bool) -> None:
            folder, away = tmp_path / f"acme{int(device_id[-4:])}", tmp_path / f"away-{device_id}"
            (away.rename(folder) if healthy else folder.rename(away))

        return set_health
