"""Slot ids and older MIG ids against the vectors."""

from __future__ import annotations

import pytest

from hami_core.errors import WireError
from hami_core.wire.ids import device_of_slot, parse_legacy_mig, parse_mig_device, slot_id

from .cases import Case, cases, rows, value

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("row", rows("vendors/codec.physicalDeviceId"))
def test_devices_of_slots_match_hami(row: list[str]) -> None:
    text, device = row
    assert device_of_slot(text) == device
    assert device_of_slot(slot_id(device, 3)) == device


@pytest.mark.parametrize("case", cases("vendors/codec.legacyMigUuid"))
def test_legacy_mig_ids_match_hami(case: Case) -> None:
    device, template, slot = case.ask(lambda: parse_legacy_mig(case["in"]))
    assert device == case["in"].partition("[")[0]
    assert (template, slot) == (case.get("template", template), case.get("slot", slot))


def test_mig_ids_of_older_drivers_match_hami() -> None:
    told = value("vendors/nvidia.legacyMigDeviceUuid")
    assert parse_mig_device(told["in"]) == (told["parent"], told["gi"], told["ci"])
    for broken in ("", told["in"][4:], told["in"] + "/1", told["in"].rpartition("/")[0], told["in"][:-1] + "x"):
        with pytest.raises(WireError):
            parse_mig_device(broken)
