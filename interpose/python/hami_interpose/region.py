"""The shared region of a container, seen from outside: made by the agent, read by it, by `dump` and by tests.

The file starts with HAMi-core's layout v1.2 (HAMi's monitor reads that part); `libvgpu.so` works on the block
behind it.
"""

from __future__ import annotations

import os
from ctypes import sizeof
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hami_interpose import _region_layout as at
from hami_interpose._region_content import BLOCK_SIZES, COMPUTE_SIZES, PAGE, Content, RegionError, load, number
from hami_interpose._region_layout import (
    BLOCK_MAGIC,
    BLOCK_OFFSET,
    BLOCK_VERSION,
    COMPUTE_MAGIC,
    COMPUTE_OFFSET,
    COMPUTE_VERSION,
    DEVICES,
    PROCESSES,
    REGION_SIZE,
    V1_MAGIC,
    V1_SIZE,
)
from hami_interpose.limits import Limits, check

if TYPE_CHECKING:
    from _ctypes import _CField
    from collections.abc import Iterator

__all__ = [
    "AGENT_BEAT_OFFSET",
    "BLOCK_MAGIC",
    "BLOCK_OFFSET",
    "BLOCK_VERSION",
    "COMPUTE_MAGIC",
    "COMPUTE_OFFSET",
    "COMPUTE_VERSION",
    "DEVICES",
    "PROCESSES",
    "REASONS",
    "REGION_SIZE",
    "V1_MAGIC",
    "V1_SIZE",
    "ComputeUse",
    "DeviceUse",
    "MemoryParts",
    "OversubscriptionUse",
    "ProcessUse",
    "Region",
    "RegionError",
    "initial",
    "read",
]

AGENT_BEAT_OFFSET: Final = COMPUTE_OFFSET + at.Compute.agent_beat.offset
"""Where the agent writes when it last looked (u64, seconds since 1970)."""
_ZEROS: Final = bytes(1 << 16)

REASONS: Final = (
    "",
    "the request and what is in use exceed the limit",
    "the limits folder has no readable file",
    "the limits file, or a variable that sets a limit, is not of the format",
    "the limits file does not name the device",
    "the region is missing, of another size, or foreign",
    "more live processes than slots",
)


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
class MemoryParts:
    """What the memory in use consists of. The three add up to it.

    Attributes:
        contexts_bytes: reserves of contexts.
        modules_bytes: code that was loaded.
        buffers_bytes: all else, that in the host included.
    """

    contexts_bytes: int
    modules_bytes: int
    buffers_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of the container.

    Attributes:
        uuid: as NVML prints it; empty when limits come from the environment.
        limit_bytes: the limit in force, host memory that may stand in included; 0 = none.
        cores: percent; 0 = no limit.
        used_bytes: in use by all processes of the container, context reserve and `oversubscription` included.
        parts: what `used_bytes` consists of.
        peak_bytes: the most ever in use of the device itself.
        denied: refused allocations.
        context_bytes: what one process's context takes here, as measured; 0 = not yet.
        orphaned_bytes: of `used_bytes`, what processes share whose taker has let go of it or ended.
        compute: device time, as charged.
        oversubscription: the part that lies in host memory.
    """

    uuid: str
    limit_bytes: int
    cores: int
    used_bytes: int
    parts: MemoryParts
    peak_bytes: int
    denied: int
    context_bytes: int
    orphaned_bytes: int
    compute: ComputeUse
    oversubscription: OversubscriptionUse


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process, by its pid inside the container.

    Attributes:
        used_bytes: by device, in the container's order.
        launches: kernels and graphs that it gave to devices; each thread adds its own every 64 and before it waits
            for work, so that a few may be missing.
        suspended: it is checkpointed: what it holds is not on the devices and not counted.
        away_bytes: by device, what it takes there again when it is resumed.
    """

    pid: int
    start_time: int
    used_bytes: tuple[int, ...]
    launches: int = 0
    suspended: bool = False
    away_bytes: tuple[int, ...] = ()


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
        launches: as of a process; of all that ever were here.
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
    launches: int


def initial(limits: Limits) -> bytes:
    """Returns the content of a fresh region for a container with these limits (REGION_SIZE bytes).

    Raises:
        LimitsError: the limits could not be written to a limits file either.
    """
    check(limits)
    return _spread(*sorted([*_v1(limits), *_block(limits), *_compute()]))


def _v1(limits: Limits) -> Iterator[tuple[int, bytes]]:
    """What a fresh region says in HAMi-core's layout: offset and content of each part."""
    values = (
        (at.V1.initialized, V1_MAGIC),
        (at.V1.major, 1),
        (at.V1.minor, 2),
        (at.V1.sem, 1),  # free
        (at.V1.device_num, len(limits.devices)),
        (at.V1.utilization_switch, 1),
        (at.V1.recent_kernel, 2),
        (at.V1.priority, limits.priority),
        (at.V1.sem_postinit, 1),  # free
    )
    yield from (_value(0, field, value) for field, value in values)
    for i, device in enumerate(limits.devices):
        yield at.V1.uuids.offset + i * at.UUID_BYTES, device.uuid.encode("ascii")
        yield at.V1.limit.offset + i * 8, device.memory_bytes.to_bytes(8, "little")
        yield at.V1.sm_limit.offset + i * 8, (device.cores or 100).to_bytes(8, "little")


def _block(limits: Limits) -> Iterator[tuple[int, bytes]]:
    """What a fresh region says in our block."""
    values = (
        (at.Block.magic, BLOCK_MAGIC),
        (at.Block.version, BLOCK_VERSION),
        *BLOCK_SIZES,
        (at.Block.device_count, len(limits.devices)),
        (at.Block.generation, limits.generation),
    )
    yield from (_value(BLOCK_OFFSET, field, value) for field, value in values)
    for i, device in enumerate(limits.devices):
        place = BLOCK_OFFSET + at.Block.devices.offset + i * sizeof(at.Device)
        yield place, bytes(at.Device(limit_bytes=device.memory_bytes, cores=device.cores))
        scaled = 0 < device.physical_bytes < device.memory_bytes
        host = device.memory_bytes - device.physical_bytes if scaled else 0
        yield place + DEVICES * sizeof(at.Device), bytes(at.Device(limit_bytes=host))


def _compute() -> Iterator[tuple[int, bytes]]:
    """What a fresh region says in the compute block."""
    values = ((at.Compute.magic, COMPUTE_MAGIC), (at.Compute.version, COMPUTE_VERSION), *COMPUTE_SIZES)
    yield from (_value(COMPUTE_OFFSET, field, value) for field, value in values)


def _value(start: int, field: _CField[Any, int, int], value: int) -> tuple[int, bytes]:
    """Offset and content of a field of the structure that begins at `start`."""
    return start + field.offset, value.to_bytes(field.size, "little")


def _spread(*parts: tuple[int, bytes]) -> bytes:
    """The parts at their offsets, zeros between them; in one buffer, since each takes an agent milliseconds."""
    pieces: list[bytes] = []
    end = 0
    for offset, part in (*parts, (REGION_SIZE, b"")):
        whole, rest = divmod(offset - end, len(_ZEROS))
        pieces += [*[_ZEROS] * whole, _ZEROS[:rest], part]
        end = offset + len(part)
    return b"".join(pieces)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("ascii", "replace")


def _oversubscription(content: Content, index: int) -> OversubscriptionUse:
    host, used = content.device(DEVICES + index), content.used(DEVICES + index)
    return OversubscriptionUse(host.limit_bytes, used * PAGE, host.peak * PAGE, host.placed, host.placed_bytes)


def _parts(content: Content, index: int, used: int) -> MemoryParts:
    """Columns of the v1 layout, which each process keeps for itself: bounded by what is in use."""
    columns = [content.columns(slot, index) for slot in content.summed(index)]
    contexts = min(max(sum(column[0] for column in columns), 0), used)
    modules = min(max(sum(column[1] for column in columns), 0), used - contexts)
    return MemoryParts(contexts, modules, used - contexts - modules)


def _device(content: Content, index: int) -> DeviceUse:
    device, account = content.device(index), content.account(index)
    host = _oversubscription(content, index)
    used = content.used(index) * PAGE + host.used_bytes
    return DeviceUse(
        uuid=_text(content.uuid(index)),
        limit_bytes=device.limit_bytes,
        cores=device.cores,
        used_bytes=used,
        parts=_parts(content, index, used),
        peak_bytes=device.peak * PAGE,
        denied=device.denied,
        context_bytes=device.context_pages * PAGE,
        orphaned_bytes=content.orphaned(index) * PAGE,
        compute=ComputeUse(**{figure.name: getattr(account, figure.name) for figure in fields(ComputeUse)}),
        oversubscription=host,
    )


def _process(content: Content, slot: int) -> ProcessUse:
    pid, start_time = content.owner(slot)
    devices, suspended = range(content.devices), content.suspended(slot)
    held = [content.used_by(slot, i) for i in devices]
    stays = [content.used_by_others(slot, i) if suspended else held[i] for i in devices]
    return ProcessUse(
        pid,
        start_time,
        used_bytes=tuple((stays[i] + content.used_by(slot, DEVICES + i)) * PAGE for i in devices),
        launches=content.launches(slot),
        suspended=suspended,
        away_bytes=tuple((held[i] - stays[i]) * PAGE for i in devices),
    )


_kept: dict[tuple[int, int], int] = {}
"""Descriptors of regions, by device and inode, that this process must not close."""


def read(source: str | os.PathLike[str] | int) -> Region:
    """Reads a region file, given by path or open descriptor, as much of it as is in use.

    What processes held that have died or become another program is not counted, though their words stay in the file
    until the next process of the container looks at them. They are known by locks on the file itself, from any pid
    namespace; a copy of the file shows no locks. A process that reads the region of its own container by path keeps
    it open from then on: closing it would drop the lock by which others see that the process lives.

    Raises:
        RegionError: it is truncated, foreign or damaged.
        OSError: it cannot be read.
    """
    if isinstance(source, int):
        return _region(load(f"file descriptor {source}", source))
    found = Path(source).stat()
    key = (found.st_dev, found.st_ino)
    if key in _kept:
        return _region(load(os.fspath(source), _kept[key]))
    fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = load(os.fspath(source), fd)
        if content.is_locked_here:
            _kept[key], fd = fd, -1
        return _region(content)
    finally:
        if fd >= 0:
            os.close(fd)


def _region(content: Content) -> Region:
    block = content.block
    reason, device = number(block, at.Block.reason), number(block, at.Block.reason_device)
    build = block[at.Block.build.offset : at.Block.build.offset + at.BUILD_BYTES]
    ended = number(block, at.Block.launches)
    return Region(
        devices=tuple(_device(content, index) for index in range(content.devices)),
        processes=tuple(_process(content, slot) for slot in content.living),
        generation=number(block, at.Block.generation),
        heartbeat=number(block, at.Block.heartbeat),
        reason=REASONS[reason] if reason < len(REASONS) else f"reason {reason}",
        reason_device=device if reason and device < DEVICES else -1,
        reason_bytes=number(block, at.Block.reason_bytes),
        reason_time=number(block, at.Block.reason_time),
        build=_text(build),
        launches=ended + sum(content.launches(slot) for slot in (*content.living, *content.gone)),
    )
