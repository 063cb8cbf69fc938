"""What the host calls the processes of a container: where a region has it, and how it is learnt.

A process holds a record lock on a byte of its slot's own, beyond the region's end, and the kernel tells whoever has the
file open which process that is, by its pid in the asker's pid namespace. So one call a slot finds it, and nobody has to
look through all processes of the host.
"""

from __future__ import annotations

import os
import struct
from ctypes import sizeof
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_interpose import _region_layout as at
from hami_interpose._region_content import lock_holder, pid_and_start

_SLOT_SIZE: Final = sizeof(at.V1Process)
_PIDS: Final = struct.Struct(f"<ii{_SLOT_SIZE - 8}x")  # of a v1 slot: in the container, on the host
_OWNER: Final = struct.Struct("<Q")
_NUMBER: Final = struct.Struct("<i")
_AT_ONCE: Final = 64


class Shown(NamedTuple):
    """What the v1 layout says of a slot in use; `host_pid` is 0 as long as nobody has written it."""

    slot: int
    pid: int
    host_pid: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Who has a slot, in the container's own words.

    Attributes:
        slot: index.
        pid: in the container's pid namespace.
        start_time: clock ticks since the boot, the lower 40 bits.
    """

    slot: int
    pid: int
    start_time: int


def shown(fd: int) -> list[Shown]:
    """The slots in use of an open region.

    Raises:
        OSError: it cannot be read.
    """
    found: list[Shown] = []  # tuples, since a region may have a thousand slots, and is looked at all the time
    in_use = _slots_in_use(fd)
    for first in range(0, in_use, _AT_ONCE):
        size = min(_AT_ONCE, in_use - first) * _SLOT_SIZE
        content = os.pread(fd, size, at.V1.processes.offset + first * _SLOT_SIZE)
        whole = len(content) // _SLOT_SIZE * _SLOT_SIZE  # less than asked for of a file that was cut short
        rows = enumerate(_PIDS.iter_unpack(memoryview(content)[:whole]), first)
        found += [Shown(slot, pid, host_pid) for slot, (pid, host_pid) in rows if pid > 0]
    return found


def _slots_in_use(fd: int) -> int:
    word = os.pread(fd, _NUMBER.size, at.V1.process_num.offset)
    number: int = _NUMBER.unpack(word)[0] if len(word) == _NUMBER.size else 0
    return number if 0 <= number <= at.PROCESSES else at.PROCESSES


def claim(fd: int, slot: int) -> Claim | None:
    """Who has a slot; None: nobody, or it is just being taken or given up.

    Raises:
        OSError: it cannot be read.
    """
    pid = os.pread(fd, _NUMBER.size, at.V1.processes.offset + slot * _SLOT_SIZE)
    owner = os.pread(fd, _OWNER.size, at.BLOCK_OFFSET + at.Block.owners.offset + slot * _OWNER.size)
    if len(pid) != _NUMBER.size or len(owner) != _OWNER.size:
        return None
    found = Claim(slot, *pid_and_start(_OWNER.unpack(owner)[0]))
    return found if found.pid and found.pid == _NUMBER.unpack(pid)[0] else None


def holder(fd: int, slot: int) -> int | None:
    """Pid, in the caller's pid namespace, of the process that holds a slot's lock.

    It has, or had when it took the lock, this very file open. None: nobody holds it, or none that can be named from
    here.

    Raises:
        OSError: the file system has no locks.
    """
    pid = lock_holder(fd, slot)
    return pid if pid is not None and pid > 0 else None


def host_pid(slot: int, pid: int) -> tuple[int, bytes]:
    """Where and how a slot's pid on the host is written; 0 takes it back."""
    return at.V1.processes.offset + slot * _SLOT_SIZE + _NUMBER.size, _NUMBER.pack(pid)
