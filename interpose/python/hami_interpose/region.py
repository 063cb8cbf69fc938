"""The shared region of a container, seen from outside: made by the agent, read by it, by `dump` and by tests.

The file starts with HAMi-core's layout v1.2 (HAMi's monitor reads that part); `libvgpu.so` works on the block
behind it. The layout is that of `interpose/include/hami/abi.h`.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose.limits import Limits, check

if TYPE_CHECKING:
    from collections.abc import Iterator

V1_MAGIC: Final = 19920718
V1_SIZE: Final = 2008952
BLOCK_OFFSET: Final = 2011136
BLOCK_MAGIC: Final = 0x55504756494D4148  # "HAMIVGPU"
BLOCK_VERSION: Final = 2
DEVICES: Final = 16
COUNTERS: Final = 2 * DEVICES  # of memory: on devices, then in the host on their behalf
PROCESSES: Final = 1024
CELLS: Final = 4
PAGE: Final = 4096

_V1_SLOTS = 1856
_V1_SLOT_SIZE = 1960
_V1_UUID_SIZE = 96
_HEADER_SIZE = 4096
_DEVICE_SIZE = 256
_SLOT_SIZE = 64 + COUNTERS * CELLS * 32
_BLOCK_SIZE = _HEADER_SIZE + COUNTERS * _DEVICE_SIZE + PROCESSES * _SLOT_SIZE
_DEVICES_AT = BLOCK_OFFSET + _HEADER_SIZE
_SLOTS_AT = _DEVICES_AT + COUNTERS * _DEVICE_SIZE
_HEADER = struct.Struct("<QIIIIII")  # magic, version, sizes of block, header, device, slot, count of devices
_STATUS = struct.Struct("<QQIIQQ48s")  # generation, heartbeat, reason, its device, bytes, time, build
_DEVICE = struct.Struct(
    "<QQQQQI4xQQ"
)  # counter, peak, denied, context pages, limit, cores, put into the host: how often, bytes
_CELL = struct.Struct("<Qqqq")  # state, amount, totals
_COUNTER_TAG_BITS = 28
_CELL_PENDING, _CELL_APPLIED, _CELL_PHASE, _CELL_SIDE = 1, 2, 3, 4
_TAG_SLOT_SHIFT, _TAG_CELL_SHIFT, _STATE_SEQUENCE_SHIFT = 18, 16, 16
_PID_MASK = (1 << 22) - 1
_LOCK_BASE = 1 << 40
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of x86-64 and aarch64: type, whence, start, length, pid
_SLOT = struct.Struct("<QQQQQ")  # owner, sweeper, launches, image, locked

COMPUTE_OFFSET: Final = -(-(BLOCK_OFFSET + _BLOCK_SIZE) // 4096) * 4096
AGENT_BEAT_OFFSET: Final = COMPUTE_OFFSET + 32
"""Where the agent writes when it last looked (u64, seconds since 1970)."""
COMPUTE_MAGIC: Final = 0x31504D4F43494D48  # "HMICOMP1"
COMPUTE_VERSION: Final = 1
_COMPUTE_HEADER = struct.Struct("<QIIIII")  # magic, version, sizes of block, header, device, process
_COMPUTE_DEVICE_SIZE = 256
_COMPUTE_PROCESS_SIZE = 64
_COMPUTE_SIZE = _HEADER_SIZE + DEVICES * _COMPUTE_DEVICE_SIZE + PROCESSES * DEVICES * _COMPUTE_PROCESS_SIZE
_FIGURES = struct.Struct("<8Q")
_FIGURES_AT = 64

REGION_SIZE: Final = COMPUTE_OFFSET + _COMPUTE_SIZE

REASONS: Final = (
    "",
    "the request and what is in use exceed the limit",
    "the limits folder has no readable file",
    "the limits file is not of the format",
    "the limits file does not name the device",
    "the region is missing, of another size, or foreign",
    "more live processes than slots",
)


class RegionError(ValueError):
    """A region file is truncated, foreign or damaged. `offset` is where that shows."""

    def __init__(self, path: str, offset: int, what: str) -> None:
        self.path = path
        self.offset = offset
        self.what = what
        super().__init__(f"{path}: at offset {offset}: {what}")


@dataclass(frozen=True, slots=True)
class ComputeUse:
    """The account of a container on one device. Times are ns.

    Attributes:
        charged: device time.
        waited: by launches, summed.
        longest_wait: of one launch.
        grants: reservations; one covers several short launches.
        timeouts: waits that ended after 100 ms without a completion.
        turns: taken on the device.
        turn_timeouts: launches that went without their turn.
        estimated: device time that was charged by estimate.
    """

    charged: int
    waited: int
    longest_wait: int
    grants: int
    timeouts: int
    turns: int
    turn_timeouts: int
    estimated: int


@dataclass(frozen=True, slots=True)
class OversubscriptionUse:
    """Host memory in place of one device's, where the administrator scales memory.

    Attributes:
        limit_bytes: what may lie there: the limit less the device's own share; 0 = memory is not scaled.
        used_bytes: what lies there now.
        peak_bytes: the most that ever did.
        allocations: how many were ever put there.
        allocated_bytes: their sizes, summed.
    """

    limit_bytes: int
    used_bytes: int
    peak_bytes: int
    allocations: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of the container.

    Attributes:
        uuid: as NVML prints it; empty when limits come from the environment.
        limit_bytes: the limit in force, host memory that may stand in included; 0 = none.
        cores: percent; 0 = no limit.
        used_bytes: in use by all processes of the container, context reserve and `oversubscription` included.
        peak_bytes: the most ever in use of the device itself.
        denied: refused allocations.
        context_bytes: what one process's context takes here, as measured; 0 = not yet.
        compute: device time, as charged.
        oversubscription: the part that lies in host memory.
    """

    uuid: str
    limit_bytes: int
    cores: int
    used_bytes: int
    peak_bytes: int
    denied: int
    context_bytes: int
    compute: ComputeUse
    oversubscription: OversubscriptionUse


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process, by its pid inside the container; `used_bytes` by device, in the container's order."""

    pid: int
    start_time: int
    used_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A snapshot. Counters of a running container move while they are read, each by itself.

    Attributes:
        generation: of the limits file last read by a process.
        heartbeat: when a process here last asked for memory or about it, seconds since 1970; 0 = never.
        reason: why something was last refused; empty = nothing was.
        reason_device: index of its device, or -1.
        reason_bytes: what had been asked for.
        reason_time: seconds since 1970.
        build: build of the library that last started here.
    """

    devices: tuple[DeviceUse, ...]
    processes: tuple[ProcessUse, ...]
    generation: int
    heartbeat: int
    reason: str
    reason_device: int
    reason_bytes: int
    reason_time: int
    build: str


def initial(limits: Limits) -> bytes:
    """Returns the content of a fresh region for a container with these limits (REGION_SIZE bytes).

    Raises:
        LimitsError: the limits could not be written to a limits file either.
    """
    check(limits)
    content = bytearray(REGION_SIZE)
    struct.pack_into("<iII", content, 0, V1_MAGIC, 1, 2)
    content[24] = content[2008920] = 1  # semaphores of HAMi-core, free
    struct.pack_into("<Q", content, 56, len(limits.devices))
    for i, device in enumerate(limits.devices):
        struct.pack_into(f"<{_V1_UUID_SIZE}s", content, 64 + i * _V1_UUID_SIZE, device.uuid.encode("ascii"))
        struct.pack_into("<Q", content, 1600 + i * 8, device.memory_bytes)
        struct.pack_into("<Q", content, 1728 + i * 8, device.cores or 100)
        at = _DEVICES_AT + i * _DEVICE_SIZE
        _DEVICE.pack_into(content, at, 0, 0, 0, 0, device.memory_bytes, device.cores, 0, 0)
        scaled = 0 < device.physical_bytes < device.memory_bytes
        host = device.memory_bytes - device.physical_bytes if scaled else 0
        _DEVICE.pack_into(content, at + DEVICES * _DEVICE_SIZE, 0, 0, 0, 0, host, 0, 0, 0)
    struct.pack_into("<iiii", content, 2008896, 0, 1, 2, limits.priority)
    sizes = (_BLOCK_SIZE, _HEADER_SIZE, _DEVICE_SIZE, _SLOT_SIZE, len(limits.devices))
    _HEADER.pack_into(content, BLOCK_OFFSET, BLOCK_MAGIC, BLOCK_VERSION, *sizes)
    struct.pack_into("<Q", content, BLOCK_OFFSET + _HEADER.size, limits.generation)
    compute = (_COMPUTE_SIZE, _HEADER_SIZE, _COMPUTE_DEVICE_SIZE, _COMPUTE_PROCESS_SIZE)
    _COMPUTE_HEADER.pack_into(content, COMPUTE_OFFSET, COMPUTE_MAGIC, COMPUTE_VERSION, *compute)
    return bytes(content)


def _content(fd: int) -> bytes:
    return os.pread(fd, min(os.fstat(fd).st_size, REGION_SIZE + 1), 0)


def _gone(fd: int, content: bytes) -> frozenset[int]:
    """Slots whose process is no more: the kernel has dropped its lock. The next process there tidies them up."""
    found = set()
    for index in range(PROCESSES):
        owner, _, _, _, locked = _SLOT.unpack_from(content, _SLOTS_AT + index * _SLOT_SIZE)
        if owner and locked:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _LOCK_BASE + index, 1, 0)
            answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
            if _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK:
                found.add(index)
    return frozenset(found)


def _validate(name: str, content: bytes) -> int:
    """Returns the number of devices."""
    if len(content) != REGION_SIZE:
        found = f"{len(content)} bytes" if len(content) < REGION_SIZE else f"more than {REGION_SIZE} bytes"
        place = min(len(content), REGION_SIZE)
        raise RegionError(name, place, f"a region has {REGION_SIZE} bytes, this file has {found}")
    magic, major, minor = struct.unpack_from("<iII", content, 0)
    if magic != V1_MAGIC:
        raise RegionError(name, 0, f"not a region: starts with {magic}, not {V1_MAGIC}")
    if major != 1:
        raise RegionError(name, 4, f"layout {major}.{minor} instead of 1.2")
    block = _HEADER.unpack_from(content, BLOCK_OFFSET)
    if block[0] != BLOCK_MAGIC:
        raise RegionError(name, BLOCK_OFFSET, "no block of libvgpu.so behind the v1 layout")
    expected = (BLOCK_VERSION, _BLOCK_SIZE, _HEADER_SIZE, _DEVICE_SIZE, _SLOT_SIZE)
    if block[1:6] != expected:
        raise RegionError(name, BLOCK_OFFSET + 8, f"block version and sizes are {block[1:6]}, expected {expected}")
    compute = _COMPUTE_HEADER.unpack_from(content, COMPUTE_OFFSET)
    if compute[:3] != (COMPUTE_MAGIC, COMPUTE_VERSION, _COMPUTE_SIZE):
        raise RegionError(name, COMPUTE_OFFSET, "no compute block of this version behind the block")
    expected = (_HEADER_SIZE, _COMPUTE_DEVICE_SIZE, _COMPUTE_PROCESS_SIZE)
    if compute[3:] != expected:
        raise RegionError(name, COMPUTE_OFFSET + 16, f"sizes in the compute block are {compute[3:]}, not {expected}")
    if not 0 <= block[6] <= DEVICES:
        raise RegionError(name, BLOCK_OFFSET + 28, f"{block[6]} devices, more than {DEVICES}")
    return int(block[6])


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("ascii", "replace")


def _used(content: bytes, counter: int, gone: frozenset[int]) -> int:
    """Bytes of a counter, less what the dead held."""
    word = int(struct.unpack_from("<Q", content, _DEVICES_AT + counter * _DEVICE_SIZE)[0])
    held = sum(_held(content, slot, counter, word) for slot in gone)
    return max((word >> _COUNTER_TAG_BITS) - held, 0) * PAGE


def _oversubscription(content: bytes, index: int, gone: frozenset[int]) -> OversubscriptionUse:
    counter = DEVICES + index
    _, peak, _, _, limit, _, often, size = _DEVICE.unpack_from(content, _DEVICES_AT + counter * _DEVICE_SIZE)
    return OversubscriptionUse(limit, _used(content, counter, gone), peak * PAGE, often, size)


def _device(content: bytes, index: int, gone: frozenset[int]) -> DeviceUse:
    _, peak, denied, context, limit, cores, _, _ = _DEVICE.unpack_from(content, _DEVICES_AT + index * _DEVICE_SIZE)
    uuid = content[64 + index * _V1_UUID_SIZE :][:_V1_UUID_SIZE]
    host = _oversubscription(content, index, gone)
    used = _used(content, index, gone) + host.used_bytes
    figures = _FIGURES.unpack_from(content, COMPUTE_OFFSET + _HEADER_SIZE + index * _COMPUTE_DEVICE_SIZE + _FIGURES_AT)
    compute = ComputeUse(*figures)
    return DeviceUse(_text(uuid), limit, cores, used, peak * PAGE, denied, context * PAGE, compute, host)


def _cells(content: bytes, slot: int, counter: int) -> Iterator[tuple[int, int, int]]:
    """State, amount and valid total, in pages, of each cell of a slot and counter."""
    for cell in range(CELLS):
        at = _SLOTS_AT + slot * _SLOT_SIZE + 64 + (counter * CELLS + cell) * 32
        state, amount, first, second = _CELL.unpack_from(content, at)
        yield state, amount, second if state & _CELL_SIDE else first


def _held(content: bytes, slot: int, counter: int, word: int) -> int:
    """Pages of the counter that a process accounts for, with what it died over: see libvgpu.so's abi.h."""
    sum_ = 0
    for cell, (state, amount, total) in enumerate(_cells(content, slot, counter)):
        tag = slot << _TAG_SLOT_SHIFT | cell << _TAG_CELL_SHIFT | state >> _STATE_SEQUENCE_SHIFT & 0xFFFF
        named = word & ((1 << _COUNTER_TAG_BITS) - 1) == tag
        phase = state & _CELL_PHASE
        sum_ += total + (amount if phase == _CELL_APPLIED or (phase == _CELL_PENDING and named) else 0)
    return sum_


def _processes(content: bytes, devices: int, gone: frozenset[int]) -> tuple[ProcessUse, ...]:
    found = []
    for index in range(PROCESSES):
        (owner,) = struct.unpack_from("<Q", content, _SLOTS_AT + index * _SLOT_SIZE)
        if owner and index not in gone:
            used = tuple(
                sum(
                    max(sum(total for _, _, total in _cells(content, index, counter)), 0) * PAGE
                    for counter in (device, DEVICES + device)
                )
                for device in range(devices)
            )
            found.append(ProcessUse(owner & _PID_MASK, owner >> 22, used))
    return tuple(found)


def read(source: str | os.PathLike[str] | int) -> Region:
    """Reads a region file, given by path or open descriptor.

    What processes held that have died or become another program is not counted, though the counters in the file go
    down only when the next process of the container looks at them. They are known by locks on the file itself, from
    any pid namespace; a copy of the file shows no locks.

    Raises:
        RegionError: it is truncated, foreign or damaged.
        OSError: it cannot be read.
    """
    if not isinstance(source, int):
        with Path(source).open("rb") as file:
            return _read(os.fspath(source), file.fileno())
    return _read(f"file descriptor {source}", source)


def _read(name: str, fd: int) -> Region:
    content = _content(fd)
    count = _validate(name, content)
    gone = _gone(fd, content)
    generation, heartbeat, reason, device, size, when, build = _STATUS.unpack_from(content, BLOCK_OFFSET + _HEADER.size)
    return Region(
        devices=tuple(_device(content, index, gone) for index in range(count)),
        processes=_processes(content, count, gone),
        generation=generation,
        heartbeat=heartbeat,
        reason=REASONS[reason] if reason < len(REASONS) else f"reason {reason}",
        reason_device=device if reason and device < DEVICES else -1,
        reason_bytes=size,
        reason_time=when,
        build=_text(build),
    )
