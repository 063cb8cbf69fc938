"""MIG placement on the cards of the vendor tables."""

from __future__ import annotations

import json

import pytest
from hami_gpusim import _profiles
from hami_nvidia import mig
from hami_nvidia.config import MigAllowance, NvidiaConfig
from hami_nvidia.nvml_mig import Profile

from hami_core.model import Device, DeviceUsage, MigPlacement, MigProfile, Request, Slice
from hami_core.wire.node import decode_devices_json
from hami_core.wire.reasons import MIG_INFEASIBLE

from .cases import Case, cases, value

pytestmark = pytest.mark.vectors


def card() -> Device:
    """A card with the profiles of the table, in the form that a node agent publishes."""
    profiles = json.dumps(value("vendors/mig.a100TestCapability"))
    (found,) = decode_devices_json(
        f'[{{"id":"GPU-a","mode":"mig","migProfiles":{profiles}}}]', key="k", family="NVIDIA"
    )
    return found


PROFILES: dict[str, MigProfile] = {profile.name: profile for profile in card().mig_profiles}


def place_all(names: list[str], occupied: list[MigPlacement]) -> list[MigPlacement | None]:
    """Place instances one after the other, as pods arrive."""
    placed: list[MigPlacement | None] = []
    for name in names:
        placed.append(mig.free_placement(PROFILES[name], [*occupied, *(p for p in placed if p)]))
    return placed


def test_listed_mig_profiles_are_placed_at_the_top() -> None:
    prefixes = tuple(value("vendors/mig.preferHighStartPrefixes"))
    for name, profile in PROFILES.items():
        starts = [place.start for place in profile.placements]
        (first,) = place_all([name], [])
        assert first is not None
        assert first.start == (max(starts) if name.startswith(prefixes) else min(starts))


def test_sequence_of_mig_placements_matches_hami() -> None:
    steps = value("vendors/mig.selectSequence")
    placed = place_all([step["profile"] for step in steps], [])
    assert [place and place.start for place in placed] == [step["start"] for step in steps]


@pytest.mark.parametrize("case", cases("vendors/mig.canPlace"))
def test_mig_profiles_that_still_fit_match_hami(case: Case) -> None:
    occupied = [
        MigPlacement(**row) if isinstance(row, dict) else MigPlacement(*row) for row in case.get("occupied", [])
    ]
    placed = place_all(case.get("want", []), occupied)
    case.verdict("ok", None not in placed, MIG_INFEASIBLE)


@pytest.mark.parametrize("case", cases("vendors/mig.allocate"))
def test_booked_mig_profile_matches_hami(case: Case) -> None:
    count = case.get("occupied2g", 0)
    in_use = PROFILES["2g.10gb"].placements[:count] if count else ()
    assert len(in_use) == count
    asked = Request("NVIDIA", 1, case.get("memory", case.get("mem", 0)), case.get("memPercent"))
    memory = asked.memory_on(case.get("totalmem", 0))
    booked = mig.account(DeviceUsage(card(), mig_in_use=tuple(in_use)), Slice("GPU-a", "NVIDIA", memory, 0))
    why = () if isinstance(booked, Slice) or booked is None else (booked.code, booked.detail, str(booked))
    case.verdict("fit", isinstance(booked, Slice), *why)
    assert "fit" in case or isinstance(booked, Slice)
    if isinstance(booked, Slice):
        assert booked.device_id == "GPU-a"
        assert booked.mig_placement is not None
        found = {
            "profile": booked.mig_profile,
            **dict.fromkeys(("usedmem", "booked_mem"), booked.memory_mib),
            **dict.fromkeys(("usedcores", "booked_cores"), booked.cores),
            "start": booked.mig_placement.start,
            "size": booked.mig_placement.size,
        }
        assert {key: case[key] for key in found if key in case}.items() <= found.items()


def allow_list() -> tuple[MigAllowance, ...]:
    """HAMi's list, as device-config has it."""
    found = NvidiaConfig.model_validate({"migProfileAllowlist": value("vendors/mig.chartAllowlist")})
    return found.mig_profile_allowlist


def driver_profiles() -> list[Profile]:
    """One profile for each of NVML's numbers, at the places of the table."""
    places = value("vendors/mig.nvmlPlacementsByFamily")["A100/H100/H200/B200-class"]
    return [
        Profile(f"{word}.1gb", number, 100 + number, 1, 1, int(word[0]), 1, at)
        for word, number in value("vendors/mig.sliceKeyToGIProfileId").items()
        for at in [tuple(MigPlacement(**row) for row in places.get(word, ()))]
    ]


@pytest.mark.parametrize("entry", value("vendors/mig.chartAllowlist"), ids=lambda entry: entry["models"][0])
def test_entries_of_hamis_allow_list_name_profiles_by_their_slices(entry: dict[str, list[str]]) -> None:
    numbers = value("vendors/mig.sliceKeyToGIProfileId")
    assert numbers == value("vendors/mig.sliceKeyToCIProfileId")
    for model in entry["models"]:
        first = next(known for known in allow_list() if any(part in model for part in known.models))
        found = mig.allowed(f"NVIDIA {model}", allow_list(), driver_profiles())
        assert {name: profile.number for name, profile in found.items()} == {
            name: numbers[name.partition(".")[0]] for name in first.profiles
        }


@pytest.mark.parametrize("case", value("vendors/mig.substringSurprise"), ids=lambda case: case["nvmlName"])
def test_models_match_as_parts_of_a_cards_name(case: dict[str, str | None]) -> None:
    found = mig.allowed(str(case["nvmlName"]), allow_list(), driver_profiles())
    wanted = [entry.profiles for entry in allow_list() if case["matchesModel"] in entry.models]
    assert tuple(found) == (wanted[0] if wanted else ())


@pytest.mark.parametrize("model", ["a100", "h100", "h200", "b200"])
def test_simulated_cards_have_the_places_of_the_table(model: str) -> None:
    rows = _profiles.model(model)["mig_profiles"]
    table = value("vendors/mig.nvmlPlacementsByFamily")["A100/H100/H200/B200-class"]
    plain = {row["name"].partition(".")[0]: row for row in rows if row["profile"] in {0, 1, 2, 3, 4}}
    for word, row in plain.items():
        places = [{"start": start, "size": row["placement_size"]} for start in row["placement_starts"]]
        assert places == table[word]
    assert plain.keys() == {"1g", "2g", "3g", "4g", "7g"}
