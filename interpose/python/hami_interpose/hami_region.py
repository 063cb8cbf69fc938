"""Regions of containers that run HAMi's own library: layout v1, and v0 of old libraries, as HAMi's monitor reads them.

The offsets below are HAMi's own and come from HAMi v2.10, package ``pkg/monitor/nvidia``. They are written by hand:
they describe a foreign format, which must not change with our headers. A container can write its region, so what it
says is only shown, and its counts are bounded.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_interpose._region_content import RegionError
from hami_interpose.region import V1_MAGIC, V1_SIZE, MemoryParts

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER_SIZE: Final = 12
_DEVICES: Final = 16
_PROCESSES: Final = 1024
_UUID_SIZE: Final = 96
_SHOWN_UUID: Final = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets and sizes of one version of the region, in bytes.

    Attributes:
        version: HAMi's name of the layout, 0 or 1.
        size: Least size of the file.
        num: Offset of the number of devices (u64).
        uuids: Offset of the devices' UUIDs.
        limits: Offset of the memory limits (u64 bytes).
        slots: Offset of the processes' slots.
        slot_size: Size of a slot.
        process_num: Offset of the number of slots in use (i32).
        memory_size: Size of a slot's memory of one device: context, module, buffer, offset, total (u64 each).
        utilization: Offset of the utilization in a slot.
        utilization_size: Size of a slot's utilization of one device: decoder, encoder, SM (u64 each).
        status: Offset of a slot's status (i32), 0 if it is free.
    """

    version: int
    size: int
    num: int
    uuids: int
    limits: int
    slots: int
    slot_size: int
    process_num: int
    memory_size: int
    utilization: int
    utilization_size: int
    status: int


V0: Final = Layout(0, 1197896, 48, 56, 1592, 1848, 1168, 1197880, 40, 776, 24, 1160)
V1: Final = Layout(1, V1_SIZE, 56, 64, 1600, 1856, 1960, 2008896, 64, 1160, 48, 1928)
_MEMORY_IN_SLOT: Final = 8


@dataclass(frozen=True, slots=True)
class HamiDevice:
    """One device of a container.

    Attributes:
        uuid: Its UUID, at most 40 characters.
        limit_bytes: The container's memory limit.
        used_bytes: What the library says that the container's processes use.
        parts: What `used_bytes` consists of, as far as the library says.
        percent: Sum of the processes' shares of the device's time. It may exceed 100.
    """

    uuid: str
    limit_bytes: int
    used_bytes: int
    parts: MemoryParts
    percent: int


def layout(path: str, header: bytes, size: int) -> Layout:
    """The layout of a region.

    Args:
        path: Name of the file, for messages.
        header: Its first `HEADER_SIZE` bytes.
        size: Its size.

    Raises:
        RegionError: It is not a region, or of an unknown version.
    """
    if len(header) < HEADER_SIZE:
        raise RegionError(path, len(header), "too small for a region")
    magic, major = struct.unpack_from("<ii", header)
    if magic != V1_MAGIC:
        raise RegionError(path, 0, f"magic number {magic}, not {V1_MAGIC}")
    if V0.size <= size < V1.size:
        return V0  # HAMi does not ask for the version then
    if size >= V1.size and major == V1.version:
        return V1
    raise RegionError(path, 4, f"version {major} with {size} bytes is unknown")


def read(path: str, fd: int) -> list[HamiDevice]:
    """Read the devices of a region. Devices without a UUID, or with one that is not ASCII text, are left out.

    Args:
        path: Name of the file, for messages.
        fd: The opened file.

    Raises:
        RegionError: It is truncated, or no region.
        OSError: It can't be read.
    """
    at = layout(path, os.pread(fd, HEADER_SIZE, 0), os.fstat(fd).st_size)
    head = _exactly(path, fd, at.slots, 0)
    (processes,) = struct.unpack("<i", _exactly(path, fd, 4, at.process_num))
    slots = _exactly(path, fd, min(max(processes, 0), _PROCESSES) * at.slot_size, at.slots)
    return list(_devices(at, head, slots))


def _exactly(path: str, fd: int, size: int, offset: int) -> bytes:
    found = os.pread(fd, size, offset)
    if len(found) != size:
        raise RegionError(path, offset + len(found), "truncated")
    return found


def _devices(at: Layout, head: bytes, slots: bytes) -> Iterator[HamiDevice]:
    (number,) = struct.unpack_from("<Q", head, at.num)
    places = range(0, len(slots), at.slot_size)
    living = [place for place in places if struct.unpack_from("<i", slots, place + at.status)[0]]
    for index in range(min(number, _DEVICES)):
        uuid = head[at.uuids + index * _UUID_SIZE :][:_SHOWN_UUID].split(b"\0", 1)[0]
        if not uuid or not uuid.isascii():
            continue
        (limit,) = struct.unpack_from("<Q", head, at.limits + index * 8)
        memory, busy = _MEMORY_IN_SLOT + index * at.memory_size, at.utilization + index * at.utilization_size
        figures = [struct.unpack_from("<5Q", slots, place + memory) for place in living]
        context, module, buffers, _, total = (sum(one[column] for one in figures) for column in range(5))
        percent = sum(struct.unpack_from("<3Q", slots, place + busy)[2] for place in living)
        yield HamiDevice(uuid.decode(), limit, total, MemoryParts(context, module, buffers), percent)
