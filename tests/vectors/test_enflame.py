"""Enflame's choice of profiles against HAMi's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hami_enflame import Enflame, EnflameConfig
from hami_enflame.drs import read_profiles

from hami_core.model import Device, DeviceUsage, Reason, Request, Slice

from .cases import Case, cases, value

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.vectors


def booked(profiles: Mapping[str, str], memory_mib: int, mode: str, **asked: Any) -> tuple[Slice | Reason, str]:
    """Book a slice on an idle GCU. Returns the slice and the id of its profile.

    The kubelet of the GCU's node offers memory and cores, which a request by amounts (spec mode) needs.
    """
    custom = {key: amount for key, amount in asked.items() if amount}
    assert mode == ("direct" if "size" in custom else "spec")
    vendor = Enflame()
    _, family = vendor.families(EnflameConfig())
    offered = family.resources.memory, family.resources.cores
    about = {"minor": "0", "profiles": read_profiles(profiles), "offered": offered}
    device = Device("d", 0, 6, memory_mib, 102, "Enflame", "Enflame", custom=about)
    piece = Slice("d", "Enflame", 0, 0, index=0)
    found = vendor.account(Request("Enflame", 1, custom=custom), DeviceUsage(device), piece)
    assert found is not None
    return found, found.mode.split("/")[1] if isinstance(found, Slice) else ""


@pytest.mark.parametrize("case", cases("enflame_profile"))
def test_profiles_match_hami(case: Case) -> None:
    profiles = case.get("only_profiles", case.head["profiles"])
    asked = {"size": case.get("size", 0), "memory": case.get("mem_req", 0), "cores": case.get("core_req", 0)}
    found, number = booked(profiles, case.head["device_memory"], case["mode"], **asked)
    case.verdict("fit", isinstance(found, Slice), *([found.code] if isinstance(found, Reason) else []))
    if isinstance(found, Slice):
        made = {"profile": found.mode.split("/")[0], "id": number, "mem": found.memory_mib, "core": found.cores}
        assert made == {key: case.get(key, amount) for key, amount in made.items()}


@pytest.mark.parametrize("case", cases("vendors/enflame.fit"))
def test_slices_match_hami(case: Case) -> None:
    """In direct mode, ``mem`` and ``core`` are what is booked; by specification they are what is asked for."""
    asked = {"memory": case["mem"], "cores": case["core"]} if case["mode"] == "spec" else {"size": case["size"]}
    found, _ = booked(value("vendors/enflame.profiles"), 40960, case["mode"], **asked)
    assert isinstance(found, Slice)
    assert found.mode.startswith(f"{case['profile']}/")
    assert (found.memory_mib, found.cores) == (case.get("outMem", case["mem"]), case.get("outCore", case["core"]))
