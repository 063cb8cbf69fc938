"""Which devices and cores one container may have together. Pure.

Rules of AWS: the page "Neuron Scheduler Extension" of the Neuron documentation. Devices of Inf instances form a ring,
so a container gets neighbours. Devices of Trn instances form a torus, so a container gets 1, 4, 8 or 16, which start at
a multiple of their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CORES: Final = 2
"""Most cores of a device that are given out. HAMi v2.10 uses no more, also where a device has more."""
TORUS_COUNTS: Final = (1, 4, 8, 16)
MAX_DEVICES: Final = 2**31 - 1
"""Most devices of a request, as in HAMi."""


def split_cores(cores: int, per_device: int = MAX_CORES) -> tuple[int, int]:
    """How many devices, and how many cores of each, make up so many cores.

    Args:
        cores: Number of cores, at least 1.
        per_device: Cores of each device; 0: unknown.

    Raises:
        ValueError: They can't be split evenly, or over more devices than can be counted.
    """
    each = min(per_device or MAX_CORES, MAX_CORES)
    if cores <= each:
        return 1, cores
    if cores % each:
        raise ValueError(f"must be 1 or a multiple of {each}, got {cores}")
    if cores // each > MAX_DEVICES:
        raise ValueError(f"needs {cores // each} devices, which exceeds the maximum of {MAX_DEVICES}")
    return cores // each, each


def is_ring(instance_type: str) -> bool:
    """Whether the devices of an instance type form a ring."""
    return "inf" in instance_type.lower()


def together(idle: Iterable[int], count: int, instance_type: str) -> tuple[int, ...] | None:
    """The first ``count`` idle devices that may be given together, by index; None: there are none.

    Args:
        idle: Indexes of the idle devices, in any order.
        count: Number of devices.
        instance_type: The node's instance type.
    """
    have = set(idle)
    if not is_ring(instance_type) and count not in TORUS_COUNTS:
        return None
    for start in sorted(have):
        run = range(start, start + count)
        if have.issuperset(run) and (is_ring(instance_type) or start % count == 0):
            return tuple(run)
    return None


def pick_cores(free: int, count: int) -> int | None:
    """The mask of the lowest ``count`` cores of a mask of free cores; None: there are too few."""
    mask = 0
    for _ in range(count):
        lowest = free & -free
        if not lowest:
            return None
        mask, free = mask | lowest, free ^ lowest
    return mask


def bits(mask: int) -> tuple[int, ...]:
    """Numbers of the cores in a mask."""
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)
