"""AMD's compute units, against HAMi's group ``amdFit``."""

from __future__ import annotations

import pytest

from hami_core.model import Device, DeviceUsage, Request, Slice
from hami_core.plugins import load

from .cases import Case, cases

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("vendors/amdFit"))
def test_percent_of_compute_units_match_hami(case: Case) -> None:
    (rules,) = load({}, only=["amd"]).rules()
    device = Device("u", 0, 10, 1000, case["totalcore"], "AMD Instinct MI300X", "AMD")
    request = Request("AMD", 1, memory_percent=100, custom={"cores_percent": case["pct"]})
    assert rules.account is not None
    piece = rules.account(request, DeviceUsage(device), Slice("u", "AMD", 1000, 0, device.type), ())
    assert isinstance(piece, Slice)
    assert (piece.cores, piece.type) == (case["cores"], "AMD Instinct MI300X")
