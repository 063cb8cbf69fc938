"""A region file's content, as much of it as is in use, and whether it is a region at all.

It is read by system calls: whoever maps a file that a container may cut short can be killed by it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from ctypes import sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_interpose import _region_layout as at

if TYPE_CHECKING:
    from _ctypes import _CField
    from collections.abc import Iterable

    _Number = _CField[Any, int, int]

PAGE: Final = 1 << at.PAGE_SHIFT
BLOCK_SIZES: Final = (
    (at.Block.size, sizeof(at.Block)),
    (at.Block.header_size, at.Block.devices.offset),
    (at.Block.device_size, sizeof(at.Device)),
    (at.Block.slot_size, sizeof(at.Slot)),
)
"""Fields of the block by which readers check that they know its layout, and what they say in this version."""
COMPUTE_SIZES: Final = (
    (at.Compute.size, sizeof(at.Compute)),
    (at.Compute.header_size, at.Compute.devices.offset),
    (at.Compute.device_size, sizeof(at.ComputeDevice)),
    (at.Compute.process_size, sizeof(at.ComputeProcess)),
)
"""The same of the compute block."""

_F_OFD_GETLK: Final = 36
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock of x86-64 and aarch64: type, whence, start, length, pid


class RegionError(ValueError):
    """A region file is truncated, foreign or damaged. `offset` is where that shows."""

    def __init__(self, path: str, offset: int, what: str) -> None:
        self.path = path
        self.offset = offset
        self.what = what
        super().__init__(f"{path}: at offset {offset}: {what}")


@dataclass(frozen=True, slots=True)
class Share:
    """Memory that processes of the container hold together.

    Attributes:
        shown: slot of the process that it is shown with, if that holds it.
        device: index.
        pages: its size.
        holders: a bit for each slot, as one number.
    """

    shown: int
    device: int
    pages: int
    holders: int


@dataclass(frozen=True, slots=True)
class Content:
    """Parts of a region, each from its start up to what is in use.

    Attributes:
        v1: HAMi-core's layout, from offset 0.
        block: from BLOCK_OFFSET, without the words.
        owners: owner words, by slot.
        held: words in pages, by counter and slot.
        slots: what else is known of owners.
        shares: those of any size.
        compute: from COMPUTE_OFFSET.
        devices: how many the container has.
        living: slots of processes that live.
        gone: slots whose process is no more; the next process there frees them.
        is_locked_here: whether the calling process holds a record lock of the file, which closing the file would drop.
    """

    v1: bytes
    block: bytes
    owners: tuple[int, ...]
    held: dict[int, tuple[int, ...]]
    slots: tuple[at.Slot, ...]
    shares: tuple[Share, ...]
    compute: bytes
    devices: int
    living: tuple[int, ...]
    gone: tuple[int, ...]
    is_locked_here: bool

    def owner(self, slot: int) -> tuple[int, int]:
        """Pid and start time of a slot's process."""
        return pid_and_start(self.owners[slot])

    def launches(self, slot: int) -> int:
        """What the process in a slot has launched so far."""
        return int(self.slots[slot].launches)

    def suspended(self, slot: int) -> bool:
        """Whether what the process holds is in host memory until it is resumed."""
        return self.owners[slot] >> at.OWNER_STATE_SHIFT == at.SLOT_SUSPENDED

    def summed(self, counter: int) -> list[int]:
        """Slots whose words count: on devices not those of suspended processes."""
        return [slot for slot in self.living if counter >= at.DEVICES or not self.suspended(slot)]

    def used(self, counter: int) -> int:
        """Pages in use of a counter."""
        summed = self.summed(counter)
        bits = sum(1 << slot for slot in summed)
        shared = sum(share.pages for share in self.shares if share.device == counter and share.holders & bits)
        return sum(self.held[counter][slot] for slot in summed) + shared

    def used_by(self, slot: int, counter: int) -> int:
        """Pages that one process holds, the shares that it is shown with among them; whether they count or not."""
        shown = (share for share in self.shares if share.shown == slot and share.holders >> slot & 1)
        return self.held[counter][slot] + sum(share.pages for share in shown if share.device == counter)

    def used_by_others(self, slot: int, device: int) -> int:
        """Of that, what stays on the device while the process is suspended."""
        bits = sum(1 << other for other in self.summed(device) if other != slot)
        shown = (share for share in self.shares if share.shown == slot and share.holders >> slot & 1)
        return sum(share.pages for share in shown if share.device == device and share.holders & bits)

    def orphaned(self, device: int) -> int:
        """Pages of shares that count and that their process has let go of, or has ended."""
        summed = self.summed(device)
        bits = sum(1 << slot for slot in summed)
        return sum(
            share.pages
            for share in self.shares
            if share.device == device and share.holders & bits and not (share.holders & bits) >> share.shown & 1
        )

    def device(self, counter: int) -> at.Device:
        """What goes with a counter: a device, or host memory in its place."""
        return at.Device.from_buffer_copy(self.block, at.Block.devices.offset + counter * sizeof(at.Device))

    def account(self, device: int) -> at.ComputeDevice:
        """The account of a device's time."""
        place = at.Compute.devices.offset + device * sizeof(at.ComputeDevice)
        return at.ComputeDevice.from_buffer_copy(self.compute, place)

    def uuid(self, device: int) -> bytes:
        """As the v1 layout has it, padded."""
        start = at.V1.uuids.offset + device * at.UUID_BYTES
        return self.v1[start : start + at.UUID_BYTES]

    def columns(self, slot: int, device: int) -> tuple[int, int]:
        """What a process has taken for contexts and modules, in bytes; negative if it gave back what others took."""
        process = at.V1.processes.offset + slot * sizeof(at.V1Process)
        place = process + at.V1Process.used.offset + device * sizeof(at.V1Memory)
        memory = at.V1Memory.from_buffer_copy(self.v1, place)
        return _signed(memory.context), _signed(memory.module)


def number(content: bytes, field: _Number) -> int:
    """Reads an unsigned field of a structure whose first bytes are `content`."""
    return int.from_bytes(content[field.offset : field.offset + field.size], "little")


def _signed(word: int) -> int:
    return word - (word >> 63 << 64)


def pid_and_start(owner: int) -> tuple[int, int]:
    """What an owner word says: pid, and start time in clock ticks since the boot, the lower 40 bits."""
    pid = owner & (1 << at.OWNER_PID_BITS) - 1
    return pid, owner >> at.OWNER_PID_BITS & (1 << at.OWNER_START_BITS) - 1


def load(name: str, fd: int) -> Content:
    """Reads an open region.

    Args:
        name: Of the file, for errors.
        fd: The file.

    Raises:
        RegionError: it is truncated, foreign or damaged.
        OSError: it cannot be read.
    """
    size = os.fstat(fd).st_size
    if size != at.REGION_SIZE:
        found = f"{size} bytes" if size < at.REGION_SIZE else f"more than {at.REGION_SIZE} bytes"
        place = min(size, at.REGION_SIZE)
        raise RegionError(name, place, f"a region has {at.REGION_SIZE} bytes, this file has {found}")
    slots = _slots_in_use(_part(name, fd, at.V1.process_num.offset, 4))
    v1 = _part(name, fd, 0, at.V1.processes.offset + slots * sizeof(at.V1Process))
    block = _part(name, fd, at.BLOCK_OFFSET, at.Block.owners.offset)
    compute = _part(name, fd, at.COMPUTE_OFFSET, at.Compute.processes.offset)
    devices = _validate(name, v1, block, compute)
    owners = _words(name, fd, at.Block.owners.offset, slots)
    held = {counter: _held(name, fd, counter, slots) for i in range(devices) for counter in (i, at.DEVICES + i)}
    rest = _part(name, fd, at.BLOCK_OFFSET + at.Block.slots.offset, slots * sizeof(at.Slot))
    known = tuple((at.Slot * slots).from_buffer_copy(rest))
    shares = _shares(name, fd, block)  # after the words: memory moves from them to the shares
    living, gone, locked_here = _owned(fd, owners, known)
    return Content(v1, block, owners, held, known, shares, compute, devices, living, gone, locked_here)


def _part(name: str, fd: int, offset: int, size: int) -> bytes:
    found = os.pread(fd, size, offset)
    if len(found) != size:
        raise RegionError(name, offset + len(found), "truncated while it was read")
    return found


def _words(name: str, fd: int, offset: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", _part(name, fd, at.BLOCK_OFFSET + offset, count * 8))


def _held(name: str, fd: int, counter: int, slots: int) -> tuple[int, ...]:
    """As libvgpu.so reads them: a word that says more than there can be counts as the most."""
    words = _words(name, fd, at.Block.held.offset + counter * at.PROCESSES * 8, slots)
    return tuple(min(word, at.PAGES_MAX) for word in words)


def _shares(name: str, fd: int, block: bytes) -> tuple[Share, ...]:
    used = min(number(block, at.Block.shares_used), at.SHARES)
    table = _part(name, fd, at.BLOCK_OFFSET + at.Block.shares.offset, used * sizeof(at.ShareEntry))
    return tuple(
        Share(
            entry.word >> at.SHARE_SLOT_SHIFT & at.PROCESSES - 1,
            entry.word >> at.SHARE_DEVICE_SHIFT & at.DEVICES - 1,
            entry.word & at.PAGES_MAX,
            int.from_bytes(bytes(entry.holders), "little"),
        )
        for entry in (at.ShareEntry * used).from_buffer_copy(table)
        if entry.word & at.PAGES_MAX
    )


def _slots_in_use(word: bytes) -> int:
    """As libvgpu.so counts them: no slot beyond is ever taken, swept or shown."""
    number = int.from_bytes(word, "little", signed=True)
    return number if 0 <= number <= at.PROCESSES else at.PROCESSES


def _validate(name: str, v1: bytes, block: bytes, compute: bytes) -> int:
    """Returns the number of devices."""
    if (magic := number(v1, at.V1.initialized)) != at.V1_MAGIC:
        raise RegionError(name, 0, f"not a region: starts with {magic}, not {at.V1_MAGIC}")
    if (major := number(v1, at.V1.major)) != 1:
        raise RegionError(name, 4, f"layout {major}.{number(v1, at.V1.minor)} instead of 1.2")
    if number(block, at.Block.magic) != at.BLOCK_MAGIC:
        raise RegionError(name, at.BLOCK_OFFSET, "no block of libvgpu.so behind the v1 layout")
    if (version := number(block, at.Block.version)) != at.BLOCK_VERSION:
        what = f"block version {version}, this package reads {at.BLOCK_VERSION}: its container keeps the library"
        raise RegionError(name, at.BLOCK_OFFSET + 8, f"{what} that it started with; restart the pod to change both")
    _check_sizes(name, "the block", at.BLOCK_OFFSET, block, BLOCK_SIZES)
    found = number(compute, at.Compute.magic), number(compute, at.Compute.version)
    if found != (at.COMPUTE_MAGIC, at.COMPUTE_VERSION):
        raise RegionError(name, at.COMPUTE_OFFSET, "no compute block of this version behind the block")
    _check_sizes(name, "the compute block", at.COMPUTE_OFFSET, compute, COMPUTE_SIZES)
    devices = number(block, at.Block.device_count)
    if devices > at.DEVICES:
        raise RegionError(name, at.BLOCK_OFFSET + 28, f"{devices} devices, more than {at.DEVICES}")
    return devices


def _check_sizes(name: str, what: str, offset: int, content: bytes, sizes: Iterable[tuple[_Number, int]]) -> None:
    for field, expected in sizes:
        if (found := number(content, field)) != expected:
            place = offset + field.offset
            raise RegionError(name, place, f"{what} says {found} bytes for a size that is {expected} in this version")


def _owned(
    fd: int, owners: tuple[int, ...], slots: tuple[at.Slot, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Slots whose process lives, those whose process is gone, and whether the caller's is among the living.

    The kernel has dropped the lock of a process that is gone. A slot that is only claimed is no process's yet.
    """
    living: list[int] = []
    gone: list[int] = []
    here = False
    for slot, (owner, known) in enumerate(zip(owners, slots, strict=True)):
        if owner >> at.OWNER_STATE_SHIFT != at.SLOT_CLAIMED:
            holder = lock_holder(fd, slot) if known.locked else 0
            (gone if holder is None else living).append(slot)
            here = here or holder == os.getpid()
    return tuple(living), tuple(gone), here


def lock_holder(fd: int, slot: int) -> int | None:
    """Who holds the lock of a slot: the pid as seen from here, or 0 or -1 where it has none here; None: nobody."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at.LOCK_BASE + slot, 1, 0)
    try:
        answer = fcntl.fcntl(fd, _F_OFD_GETLK, asked)  # unlike F_GETLK it tells of our own process's locks as well
    except OSError:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else int(pid)
