"""The counters of a container with a soft split: the file that HAMi's ``libvnpu.so`` writes in the container.

The container can write anything into the file. So the file is read as bytes of at most the known size, and every number
is checked against what the chip has.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "vnpu_local_shmem"
DEVICES: Final = 8
"""Number of NPUs for which a process has counters."""
_PROCESSES_AT: Final = 1080
_PROCESSES: Final = 64
_PROCESS: Final = struct.Struct("<I4x8QI4x")
"""Process id, bytes of memory on each of 8 NPUs, and whether the process is active: 80 bytes."""
SMALLEST: Final = _PROCESSES_AT + _PROCESS.size
"""Least size of a complete file, in bytes."""
LARGEST: Final = _PROCESSES_AT + _PROCESSES * _PROCESS.size


class DamagedError(Exception):
    """The file is not what ``libvnpu.so`` writes."""


def memory_used(path: Path, most_bytes: int) -> tuple[int, ...] | None:
    """Bytes that a container holds on each of its NPUs, in its own order.

    Args:
        path: The file.
        most_bytes: Memory of an NPU; nobody can hold more.

    Returns:
        Eight numbers. None: there is no file yet.

    Raises:
        DamagedError: It is no file, is too short, or has numbers beyond an NPU's memory.
    """
    content = _content(path)
    if content is None:
        return None
    used = [0] * DEVICES
    whole = len(content) - (len(content) - _PROCESSES_AT) % _PROCESS.size
    for _, *counters, active in _PROCESS.iter_unpack(content[_PROCESSES_AT:whole]):
        if active:
            used = [a + b for a, b in zip(used, counters, strict=True)]
    if max(used) > most_bytes:
        raise DamagedError(f"says {max(used)} bytes of an NPU's {most_bytes}")
    return tuple(used)


def _content(path: Path) -> bytes | None:
    # A link could lead anywhere, and opening a pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(str(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise DamagedError("is no regular file")
        content = os.pread(fd, LARGEST, 0)
    finally:
        os.close(fd)
    if len(content) < SMALLEST:
        raise DamagedError(f"has {len(content)} bytes, at least {SMALLEST} are expected")
    return content
