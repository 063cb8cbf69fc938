"""A region file's content, as much of it as is in use, and whether it is a region at all.

It is read by system calls: whoever maps a file that a container may cut short can be killed by it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from typing import Final

from hami_interpose import _region_layout as at

_F_OFD_GETLK: Final = 36


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
    slots: tuple[tuple[int, int, int, int], ...]
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
        return self.slots[slot][3]

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

    def device(self, counter: int) -> tuple[int, ...]:
        """Of a device, or of host memory in its place: as `at.DEVICE` says."""
        return at.DEVICE.unpack_from(self.block, at.DEVICES_AT + counter * at.DEVICE_SIZE)

    def figures(self, device: int) -> tuple[int, ...]:
        """The account of a device's time: as `ComputeUse` says."""
        return at.FIGURES.unpack_from(self.compute, at.HEADER_SIZE + device * at.COMPUTE_DEVICE_SIZE + at.FIGURES_AT)

    def uuid(self, device: int) -> bytes:
        """As the v1 layout has it, padded."""
        start = at.V1_UUIDS_AT + device * at.V1_UUID_SIZE
        return self.v1[start : start + at.V1_UUID_SIZE]

    def columns(self, slot: int, device: int) -> tuple[int, int, int]:
        """What a process has taken for contexts, modules and buffers, in bytes."""
        start = at.V1_SLOTS_AT + slot * at.V1_SLOT_SIZE + at.V1_COLUMNS_AT
        found: tuple[int, int, int] = at.V1_COLUMNS.unpack_from(self.v1, start + device * at.V1_COLUMNS_STEP)
        return found


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
    slots = _slots_in_use(_part(name, fd, at.V1_PROCESS_NUM_AT, 4))
    v1 = _part(name, fd, 0, at.V1_SLOTS_AT + slots * at.V1_SLOT_SIZE)
    block = _part(name, fd, at.BLOCK_OFFSET, at.OWNERS_AT)
    compute = _part(name, fd, at.COMPUTE_OFFSET, at.COMPUTE_SLOTS_AT)
    devices = _validate(name, v1, block, compute)
    owners = _words(name, fd, at.OWNERS_AT, slots)
    held = {counter: _held(name, fd, counter, slots) for i in range(devices) for counter in (i, at.DEVICES + i)}
    rest = _part(name, fd, at.BLOCK_OFFSET + at.SLOTS_AT, slots * at.SLOT.size)
    known = tuple(at.SLOT.iter_unpack(rest))
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
    words = _words(name, fd, at.HELD_AT + counter * at.PROCESSES * 8, slots)
    return tuple(min(word, at.PAGES_MAX) for word in words)


def _shares(name: str, fd: int, block: bytes) -> tuple[Share, ...]:
    used = int.from_bytes(block[at.SHARES_USED_AT : at.SHARES_USED_AT + 4], "little")
    table = _part(name, fd, at.BLOCK_OFFSET + at.SHARES_AT, min(used, at.SHARES) * at.SHARE.size)
    return tuple(
        Share(
            word >> at.SHARE_SLOT_SHIFT & at.PROCESSES - 1,
            word >> at.SHARE_DEVICE_SHIFT & at.DEVICES - 1,
            word & at.PAGES_MAX,
            int.from_bytes(holders, "little"),
        )
        for word, _, holders in at.SHARE.iter_unpack(table)
        if word & at.PAGES_MAX
    )


def _slots_in_use(word: bytes) -> int:
    """As libvgpu.so counts them: no slot beyond is ever taken, swept or shown."""
    number = int.from_bytes(word, "little", signed=True)
    return number if 0 <= number <= at.PROCESSES else at.PROCESSES


def _validate(name: str, v1: bytes, block: bytes, compute: bytes) -> int:
    """Returns the number of devices."""
    magic, major, minor = at.V1_HEAD.unpack_from(v1)
    if magic != at.V1_MAGIC:
        raise RegionError(name, 0, f"not a region: starts with {magic}, not {at.V1_MAGIC}")
    if major != 1:
        raise RegionError(name, 4, f"layout {major}.{minor} instead of 1.2")
    found = at.HEADER.unpack_from(block)
    if found[0] != at.BLOCK_MAGIC:
        raise RegionError(name, at.BLOCK_OFFSET, "no block of libvgpu.so behind the v1 layout")
    if found[1] != at.BLOCK_VERSION:
        what = f"block version {found[1]}, this package reads {at.BLOCK_VERSION}: its container keeps the library"
        raise RegionError(name, at.BLOCK_OFFSET + 8, f"{what} that it started with; restart the pod to change both")
    expected = (at.BLOCK_SIZE, at.HEADER_SIZE, at.DEVICE_SIZE, at.SLOT.size)
    if found[2:6] != expected:
        raise RegionError(name, at.BLOCK_OFFSET + 12, f"sizes in the block are {found[2:6]}, expected {expected}")
    header = at.COMPUTE_HEADER.unpack_from(compute)
    if header[:3] != (at.COMPUTE_MAGIC, at.COMPUTE_VERSION, at.COMPUTE_SIZE):
        raise RegionError(name, at.COMPUTE_OFFSET, "no compute block of this version behind the block")
    sizes = (at.HEADER_SIZE, at.COMPUTE_DEVICE_SIZE, at.COMPUTE_PROCESS_SIZE)
    if header[3:] != sizes:
        raise RegionError(name, at.COMPUTE_OFFSET + 16, f"sizes in the compute block are {header[3:]}, not {sizes}")
    devices = int(found[6])
    if devices > at.DEVICES:
        raise RegionError(name, at.BLOCK_OFFSET + 28, f"{devices} devices, more than {at.DEVICES}")
    return devices


def _owned(
    fd: int, owners: tuple[int, ...], slots: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Slots whose process lives, those whose process is gone, and whether the caller's is among the living.

    The kernel has dropped the lock of a process that is gone. A slot that is only claimed is no process's yet.
    """
    living: list[int] = []
    gone: list[int] = []
    here = False
    for slot, (owner, (_, _, locked, _)) in enumerate(zip(owners, slots, strict=True)):
        if owner >> at.OWNER_STATE_SHIFT != at.SLOT_CLAIMED:
            holder = lock_holder(fd, slot) if locked else 0
            (gone if holder is None else living).append(slot)
            here = here or holder == os.getpid()
    return tuple(living), tuple(gone), here


def lock_holder(fd: int, slot: int) -> int | None:
    """Who holds the lock of a slot: the pid as seen from here, or 0 or -1 where it has none here; None: nobody."""
    asked = at.FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at.LOCK_BASE + slot, 1, 0)
    try:
        answer = fcntl.fcntl(fd, _F_OFD_GETLK, asked)  # unlike F_GETLK it tells of our own process's locks as well
    except OSError:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
    kind, _, _, _, pid = at.FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else int(pid)
