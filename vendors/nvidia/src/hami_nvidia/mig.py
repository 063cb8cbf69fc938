"""MIG on the scheduler side: chooses a request's profile and its place on the card, by HAMi v2.10's rules.

A card in MIG mode is partitioned as pods arrive. The smallest allowed profile that is large enough and has a free place
serves the request. The booking is for the profile's memory and compute.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hami_core import Reason
from hami_core.vendorkit import MIG_INFEASIBLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core import DeviceUsage, MigPlacement, MigProfile, Slice

MODE: Final = "mig"
"""Mode of a partitioned device."""

_FROM_THE_TOP: Final = ("1g.", "3g.")
"""Profiles that go to the highest free start; all others go to the lowest. This leaves the most room for later ones."""


def free_placement(profile: MigProfile, occupied: Iterable[MigPlacement]) -> MigPlacement | None:
    """Where the next instance of a profile goes on a card; None if there is no free place."""
    taken = tuple(occupied)
    free = [p for p in profile.placements if not any(_overlap(p, other) for other in taken)]
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


def _overlap(one: MigPlacement, other: MigPlacement) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size


def _start(placement: MigPlacement) -> int:
    return placement.start


def _size(profile: MigProfile) -> tuple[int, int]:
    return profile.memory_mib, profile.slice_count
