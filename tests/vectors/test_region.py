"""A fresh region at the offsets of HAMi-core's layout, against the vectors."""

from __future__ import annotations

import pytest
from hami_interpose import region
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, Mode

from .cases import value

pytestmark = pytest.mark.vectors

LIMITS = Limits(
    generation=1,
    mode=Mode.ENFORCE,
    core_policy=CorePolicy.DEFAULT,
    priority=3,
    devices=(
        DeviceLimit("GPU-a", 1 << 30, 1 << 30, 30),
        DeviceLimit("GPU-b", 5 << 30, 5 << 30, 0),
    ),
)
FIELDS = value("vendors/sharedRegion.v1.region.fields")


def number(content: bytes, field: str, index: int = 0, size: int = 0) -> int:
    """A little-endian number of a field, or of one element of it."""
    offset, length = FIELDS[field]
    return int.from_bytes(content[offset + index * size :][: size or length], "little")


def test_fresh_region_has_its_values_at_hamis_offsets() -> None:
    content = region.initial(LIMITS)
    assert number(content, "initializedFlag") == value("vendors/sharedRegion.magic")
    overlay = value("vendors/sharedRegion.hamiCoreV1Minor2Overlay")
    assert [number(content, "majorVersion"), number(content, "minorVersion")] == [overlay["major"], overlay["minor"]]
    assert number(content, "num") == 2
    assert number(content, "procnum") == 0
    assert number(content, "priority") == 3
    at, length = FIELDS["uuids"]
    size = value("vendors/sharedRegion.uuidBytes")
    assert length == size * value("vendors/sharedRegion.maxDevices")
    assert [content[at + i * size :][:size].rstrip(b"\0") for i in range(3)] == [b"GPU-a", b"GPU-b", b""]
    assert [number(content, "limit", i, 8) for i in range(3)] == [1 << 30, 5 << 30, 0]
    assert [number(content, "smLimit", i, 8) for i in range(2)] == [30, 100]


def test_our_own_block_is_behind_hamis_layout() -> None:
    size = value("vendors/sharedRegion.v1.region.size")
    content = region.initial(LIMITS)
    assert content.index(region.BLOCK_MAGIC.to_bytes(8, "little")) == region.BLOCK_OFFSET >= size
    assert max(offset + length for offset, length in FIELDS.values()) <= size
