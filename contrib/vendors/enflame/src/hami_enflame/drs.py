"""DRS, Enflame's division of a GCU in hardware: the node's annotation, profiles, and the choice of a profile."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core import Device, WireError
from hami_core.vendorkit import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable

CAPACITY_KEY: Final = "enflame.com/gcu-drs-capacity"
"""Node annotation in which Enflame's plugin lists the GCUs in DRS mode, their slices, and the profiles."""
WORD: Final = "Enflame"
MIB_PER_GB: Final = 1024
SIZES: Final = (*range(1, 11), 12)
"""Numbers of slices that a GCU may have. With these, percents that are rounded up never add up to a slice too many.

With 11 slices, for example, two slices of 6 would book 55 + 55 percent of 11 x 10 = 110.
"""
MAX_DEVICES: Final = 1024
_PROFILE: Final = re.compile(r"([1-9]\d?)g\.([1-9]\d{0,3})gb", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,4}", re.ASCII)
_WORD: Final = re.compile(r"[\w.-]{1,32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Profile:
    """A size of slice that a GCU offers, such as ``3g.20gb``: 3 slices with 20 GiB together.

    Attributes:
        name: Enflame's name.
        id: Enflame's id of the profile on this node.
        size: Number of slices.
        memory_gb: Memory in GiB.
        cores: Percent of the GCU's cores, rounded up.
    """

    name: str
    id: str
    size: int
    memory_gb: int
    cores: int

    @property
    def memory_mib(self) -> int:
        """Memory in MiB."""
        return self.memory_gb * MIB_PER_GB

    def instance(self, index: int, minor: str) -> str:
        """An instance of this profile on a GCU, as `Slice.mode` names it: all that Enflame's plugin must be told."""
        return f"{self.name}/{self.id}/{index}/{minor}"


INSTANCE: Final = re.compile(r"((\d+)g\.\d+gb)/([\w.-]+)/(\d+)/(\d+)", re.ASCII)
"""`Profile.instance`: profile, its size, its id, and the GCU's index and minor number."""


def read_devices(node: str, text: str) -> list[Device]:
    """The GCUs in DRS mode of a node, out of its annotation, sorted by index. Enflame's plugin does not sort them.

    A GCU counts cores for as many slices as its plugin offers. The plugin offers fewer if some are out of order.

    Raises:
        WireError: The annotation is malformed.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("is not JSON") from None
    rows = told.get("devices") if isinstance(told, dict) else None
    if not isinstance(rows, list) or len(rows) > MAX_DEVICES:
        raise _bad(f"devices: must be a list of at most {MAX_DEVICES}")
    profiles = read_profiles(told.get("profiles"))
    whole = max(profile.size for profile in profiles)
    found: dict[int, Device] = {}
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            raise _bad("a device must be an object", position)
        index, slots = _number(row, "index", position), _number(row, "capacity", position)
        minor = str(row.get("minor") or index).strip()
        if index in found or slots < 1 or not _NUMBER.fullmatch(minor):
            raise _bad(f"index {index}, capacity {slots}, minor {minor[:40]!r}: each index once, at least 1", position)
        found[index] = Device(
            id=f"{node}-enflame-drs-{index}",
            index=index,
            slots=slots,
            memory_mib=max(profile.memory_mib for profile in profiles),
            cores=min(slots, whole) * ceil_div(100, whole),
            type=WORD,
            family=WORD,
            mode=profiles[-1].instance(index, minor),
            custom={"minor": minor, "profiles": profiles},
        )
    return [device for _, device in sorted(found.items())]


def read_profiles(told: object) -> tuple[Profile, ...]:
    """The profiles in an annotation, name → id, sorted by size and memory. Names of another form are left out.

    Raises:
        WireError: There is no profile, or one is beyond what we can count.
    """
    named = told.items() if isinstance(told, dict) else ()
    sizes = [(name, number, found) for name, number in named if (found := _PROFILE.fullmatch(name))]
    whole = max((int(found[1]) for _, _, found in sizes), default=0)
    if whole not in SIZES or not all(_is_id(number) for _, number, _ in sizes):
        legal = ", ".join(map(str, SIZES))
        raise _bad(
            f"no valid drs profiles found: names like 3g.20gb, the largest with {legal} slices, and ids are needed"
        )
    made = [
        Profile(name, str(number), int(found[1]), int(found[2]), ceil_div(int(found[1]) * 100, whole))
        for name, number, found in sizes
    ]
    return tuple(sorted(made, key=lambda profile: (profile.size, profile.memory_gb, profile.name)))


def profile_of_size(profiles: Iterable[Profile], size: int) -> Profile | None:
    """The profile with exactly so many slices; None: there is none."""
    return next((profile for profile in profiles if profile.size == size), None)


def profile_with(profiles: tuple[Profile, ...], memory: int, cores: int) -> Profile | None:
    """The smallest profile with so much memory and percent of cores; None: there is none.

    HAMi's rule for the unit: amounts up to twice the largest profile's GiB are GiB, larger ones are MiB.
    """
    if memory > 2 * max(profile.memory_gb for profile in profiles):
        memory = ceil_div(memory, MIB_PER_GB)
    return next((p for p in profiles if p.memory_gb >= memory and p.cores >= cores), None)


def _is_id(told: object) -> bool:
    return isinstance(told, str | int) and not isinstance(told, bool) and _WORD.fullmatch(str(told)) is not None


def _number(row: dict[str, Any], field: str, position: int) -> int:
    """A whole number, as Enflame's plugin writes it: a number, or digits in a text."""
    told = row.get(field)
    text = str(told) if isinstance(told, int | str) and not isinstance(told, bool) else ""
    if not _NUMBER.fullmatch(text):
        raise _bad(f"{field}: {str(told)[:40]!r} is not a whole number from 0 to 9999", position)
    return int(text)


def _bad(problem: str, position: int = -1) -> WireError:
    return WireError(CAPACITY_KEY, position, problem)
