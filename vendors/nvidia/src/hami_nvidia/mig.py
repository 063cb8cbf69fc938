"""MIG, the pure part: what a card offers, and a request's profile and place on it, by HAMi v2.10's rules.

A card in MIG mode is partitioned as pods arrive. The smallest allowed profile that is large enough and has a free place
serves the request. The booking is for the profile's memory and compute.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hami_core import MigProfile, Reason
from hami_core.vendorkit import MIG_INFEASIBLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core import DeviceUsage, MigPlacement, Slice
    from hami_nvidia.config import MigAllowance
    from hami_nvidia.nvml_mig import Profile

MODE: Final = "mig"
"""Mode of a partitioned device."""

_FROM_THE_TOP: Final = ("1g.", "3g.")
"""Profiles that go to the highest free start; all others go to the lowest. This leaves the most room for later ones."""

PROFILE_OF_SLICES: Final = {"1g": 0, "2g": 1, "3g": 2, "4g": 3, "7g": 4, "8g": 5, "6g": 6}
"""NVML's number of the plain profile with so many slices. HAMi resolves an allowed name by its first part only."""


def allowed(name: str, allowances: Sequence[MigAllowance], profiles: Sequence[Profile]) -> dict[str, Profile]:
    """The profiles that a card may offer, by the names that pods' annotations use.

    As in HAMi, the first entry of which a model is part of the card's name counts. An allowed name is one of the card's
    own, or else its first part (``1g`` of ``1g.79gb``) names the plain profile with so many slices. Without any entry,
    all plain profiles are allowed.

    Args:
        name: The card's name as NVML tells it.
        allowances: ``migProfileAllowlist``.
        profiles: What the card can do.
    """
    plain = {number: next((p for p in profiles if p.number == number), None) for number in PROFILE_OF_SLICES.values()}
    if not allowances:
        return {found.name: found for found in plain.values() if found is not None}
    wanted = next((entry.profiles for entry in allowances if any(model in name for model in entry.models)), ())
    own = {profile.name: profile for profile in profiles}
    chosen = {one: own.get(one) or plain.get(PROFILE_OF_SLICES.get(one.partition(".")[0], -1)) for one in wanted}
    return {one: found for one, found in chosen.items() if found is not None}


def offers(profiles: Mapping[str, Profile], foreign: Sequence[MigPlacement]) -> tuple[MigProfile, ...]:
    """What a card registers: its allowed profiles, without places where an instance lies that is not the agent's.

    Args:
        profiles: The card's allowed profiles.
        foreign: Places of instances that an administrator made.
    """
    most = max((profile.sms for profile in profiles.values()), default=1)
    return tuple(
        MigProfile(
            name,
            profile.memory_mib,
            -(-profile.sms * 100 // most),
            profile.slices,
            tuple(place for place in profile.placements if not any(overlap(place, other) for other in foreign)),
        )
        for name, profile in profiles.items()
    )


def free_placement(profile: MigProfile, occupied: Iterable[MigPlacement]) -> MigPlacement | None:
    """Where the next instance of a profile goes on a card; None if there is no free place."""
    taken = tuple(occupied)
    free = [p for p in profile.placements if not any(overlap(p, other) for other in taken)]
    if not free:
        return None
    pick = max if profile.name.startswith(_FROM_THE_TOP) else min
    return pick(free, key=_start)


def smallest_instance(
    profiles: Sequence[MigProfile], occupied: Iterable[MigPlacement], memory_mib: int
) -> tuple[MigProfile, MigPlacement] | None:
    """The smallest profile with enough memory and a free place, and that place; None if there is none."""
    taken = tuple(occupied)
    for profile in sorted(profiles, key=_size):
        if profile.memory_mib >= memory_mib:
            place = free_placement(profile, taken)
            if place is not None:
                return profile, place
    return None


def account(device: DeviceUsage, piece: Slice) -> Slice | Reason | None:
    """Turn a plain slice of a card in MIG mode into an instance; None if the card is not in MIG mode."""
    if device.device.mode != MODE:
        return None
    found = smallest_instance(device.device.mig_profiles, device.mig_in_use, piece.memory_mib)
    if found is None:
        largest = max((p.memory_mib for p in device.device.mig_profiles), default=0)
        return Reason(
            MIG_INFEASIBLE, device.device.id, piece.memory_mib, largest, "no free MIG instance is large enough"
        )
    profile, place = found
    return replace(
        piece, memory_mib=profile.memory_mib, cores=profile.cores, mig_profile=profile.name, mig_placement=place
    )


def overlap(one: MigPlacement, other: MigPlacement) -> bool:
    """Whether two places on a card have a slice in common."""
    return one.start < other.start + other.size and other.start < one.start + one.size


def _start(placement: MigPlacement) -> int:
    return placement.start


def _size(profile: MigProfile) -> tuple[int, int]:
    return profile.memory_mib, profile.slice_count
