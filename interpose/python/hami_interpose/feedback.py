"""Words of a region that its agent reads and writes while the container runs, without reading the rest of it.

HAMi's monitor and a container's processes speak through two words of the v1 layout; a third, in the compute block, says
that there is somebody to speak with.
"""

from __future__ import annotations

import os
import struct
from ctypes import sizeof
from dataclasses import dataclass
from typing import Final

from hami_interpose._region_layout import V1, Compute
from hami_interpose.region import (
    AGENT_BEAT_OFFSET,
    COMPUTE_MAGIC,
    COMPUTE_OFFSET,
    COMPUTE_VERSION,
    REGION_SIZE,
    V1_MAGIC,
    RegionError,
)

_SWITCH_AT: Final = V1.utilization_switch.offset
_RECENT_AT: Final = V1.recent_kernel.offset
_HEADS: Final = (
    (0, struct.Struct("<iI"), (V1_MAGIC, 1)),
    (COMPUTE_OFFSET, struct.Struct("<QII"), (COMPUTE_MAGIC, COMPUTE_VERSION, sizeof(Compute))),
)
_WORDS: Final = struct.Struct("<ii")


@dataclass(frozen=True, slots=True)
class Words:
    """What is said.

    Attributes:
        utilization_switch: 0: the core limit rests under the policy ``default``.
        recent_kernel: launches set it to 2, the monitor counts it down; negative: launches wait.
    """

    utilization_switch: int
    recent_kernel: int


def read(fd: int) -> Words:
    """Reads the words of an open region.

    Raises:
        RegionError: it is truncated or foreign.
        OSError: it cannot be read.
    """
    name, size = f"file descriptor {fd}", os.fstat(fd).st_size
    if size != REGION_SIZE:
        raise RegionError(name, min(size, REGION_SIZE), f"a region has {REGION_SIZE} bytes, this file has {size}")
    for offset, form, expected in _HEADS:
        found = os.pread(fd, form.size, offset)
        if len(found) != form.size or form.unpack(found) != expected:
            raise RegionError(name, offset, "not a region of this version")
    words = os.pread(fd, _WORDS.size, _SWITCH_AT)
    if len(words) != _WORDS.size:
        raise RegionError(name, _SWITCH_AT, "truncated while it was read")
    return Words(*_WORDS.unpack(words))


def agent_beat(now: int) -> tuple[int, bytes]:
    """Where an agent says that it lives, and what (`now` in seconds since 1970). Silent for a minute, it is gone."""
    return AGENT_BEAT_OFFSET, struct.pack("<Q", now)


def utilization_switch(value: int) -> tuple[int, bytes]:
    """Where and how `Words.utilization_switch` is written."""
    return _SWITCH_AT, struct.pack("<i", value)


def recent_kernel(value: int) -> tuple[int, bytes]:
    """Where and how `Words.recent_kernel` is written."""
    return _RECENT_AT, struct.pack("<i", value)
