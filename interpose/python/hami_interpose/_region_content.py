"""A region file's content, as much of it as is in use, and whether it is a region at all.

It is read by system calls: whoever maps a file that a container may cut short can be killed by it.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_interpose import _region_layout as at

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRESH: Final = bytes(at.CELLS_SIZE)


class RegionError(ValueError):
    """A region file is truncated, foreign or damaged. `offset` is where that shows."""

    def __init__(self, path: str, offset: int, what: str) -> None:
        self.path = path
        self.offset = offset
        self.what = what
        super().__init__(f"{path}: at offset {offset}: {what}")


@dataclass(frozen=True, slots=True)
class Content:
    """Parts of a region, each from its start up to what is in use.

    Attributes:
        v1: HAMi-core's layout, from offset 0.
        block: from BLOCK_OFFSET.
        shares: the block's table of them.
        compute: from COMPUTE_OFFSET.
        devices: how many the container has.
        living: slots of processes that live.
        gone: slots whose process is no more; the next process there tidies them up.
    """

    v1: bytes
    block: bytes
    shares: bytes
    compute: bytes
    devices: int
    living: tuple[int, ...]
    gone: tuple[int, ...]

    def owner(self, slot: int) -> tuple[int, int]:
        """Pid and start time of a slot's process."""
        owner = at.SLOT.unpack_from(self.block, at.SLOTS_AT + slot * at.SLOT_SIZE)[0]
        return owner & (1 << at.PID_BITS) - 1, owner >> at.PID_BITS

    def launches(self, slot: int) -> int:
        """What the process in a slot has launched so far."""
        return int(at.SLOT.unpack_from(self.block, at.SLOTS_AT + slot * at.SLOT_SIZE)[2])

    def settled(self, slot: int) -> bool:
        """Whether what a dead process held is off the counters already, whatever its cells say."""
        owner, _, _, _, _, settled, _, _ = at.SLOT.unpack_from(self.block, at.SLOTS_AT + slot * at.SLOT_SIZE)
        return bool(owner == settled)

    def suspended(self, slot: int) -> bool:
        """Whether what the process held is in host memory until it is resumed."""
        return bool(at.SLOT.unpack_from(self.block, at.SLOTS_AT + slot * at.SLOT_SIZE)[6] == at.SUSPENSION_AWAY)

    def device(self, counter: int) -> tuple[int, ...]:
        """Of a device, or of host memory in its place: as `at.DEVICE` says."""
        return at.DEVICE.unpack_from(self.block, at.DEVICES_AT + counter * at.DEVICE_SIZE)

    def named(self, counter: int) -> set[int]:
        """Tags of changes that a counter has seen and may not be recorded: its own, and those noted beside it."""
        place = at.DEVICES_AT + counter * at.DEVICE_SIZE
        noted = at.SEEN.unpack_from(self.block, place + at.SEEN_AT)
        return {self.device(counter)[0] & at.TAG_MASK, *(tag ^ at.SEEN_MARK for tag in noted)}

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

    def orphaned(self, device: int) -> int:
        """Pages that living processes hold, of which the owner has let go or is gone."""
        living = sum(1 << slot for slot in self.living)
        pages = 0
        for word, _, holders in at.SHARE.iter_unpack(self.shares):
            state = word >> at.SHARE_STATE_SHIFT
            owner = word >> at.SHARE_SLOT_SHIFT & at.PROCESSES - 1
            let_go = state in {at.SHARE_ORPHANED, at.SHARE_LEAVING}
            orphaned = let_go or (state == at.SHARE_OWNED and owner in self.gone)
            if orphaned and word >> at.SHARE_DEVICE_SHIFT & at.DEVICES - 1 == device:
                pages += word & at.PAGES_MAX if int.from_bytes(holders, "little") & living else 0
        return min(pages, at.PAGES_MAX)

    def cells(self, slot: int, counter: int) -> Iterator[tuple[int, int, int]]:
        """State, amount and valid total, in pages, of each cell of a slot and counter; nothing where all are fresh."""
        start = at.SLOTS_AT + slot * at.SLOT_SIZE + at.CELLS_AT + counter * at.CELLS_SIZE
        cells = self.block[start : start + at.CELLS_SIZE]
        if cells != _FRESH:
            for state, amount, first, second in at.CELL.iter_unpack(cells):
                yield state, amount, second if state & at.CELL_SIDE else first


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
    block = _part(name, fd, at.BLOCK_OFFSET, at.SLOTS_AT + slots * at.SLOT_SIZE)
    used = int.from_bytes(block[at.SHARES_USED_AT : at.SHARES_USED_AT + 4], "little")
    shares = _part(name, fd, at.BLOCK_OFFSET + at.SHARES_AT, min(used, at.SHARES) * at.SHARE.size)
    compute = _part(name, fd, at.COMPUTE_OFFSET, at.COMPUTE_SLOTS_AT)
    devices = _validate(name, v1, block, compute)
    living, gone = _owned(fd, block)
    return Content(v1, block, shares, compute, devices, living, gone)


def _part(name: str, fd: int, offset: int, size: int) -> bytes:
    found = os.pread(fd, size, offset)
    if len(found) != size:
        raise RegionError(name, offset + len(found), "truncated while it was read")
    return found


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
    expected = (at.BLOCK_VERSION, at.BLOCK_SIZE, at.HEADER_SIZE, at.DEVICE_SIZE, at.SLOT_SIZE)
    if found[1:6] != expected:
        raise RegionError(name, at.BLOCK_OFFSET + 8, f"block version and sizes are {found[1:6]}, expected {expected}")
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


def _owned(fd: int, block: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Slots that have an owner: whose process lives, and whose is gone, since the kernel has dropped its lock."""
    living: list[int] = []
    gone: list[int] = []
    for slot, (owner, _, _, _, locked, _, _, _) in enumerate(at.SLOT.iter_unpack(memoryview(block)[at.SLOTS_AT :])):
        if owner:
            (gone if locked and lock_holder(fd, slot) is None else living).append(slot)
    return tuple(living), tuple(gone)


def lock_holder(fd: int, slot: int) -> int | None:
    """Who holds the lock of a slot: the pid as seen from here, or 0 or -1 where it has none here; None: nobody."""
    asked = at.FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at.LOCK_BASE + slot, 1, 0)
    kind, _, _, _, pid = at.FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)
