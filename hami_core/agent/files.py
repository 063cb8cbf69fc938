"""Atomic file operations that survive a crash at any line, in folders that a container may have changed.

A write makes a temporary file in the same folder and renames it, so a file is whole or absent. With ``durable``, file
and folder are also synced, so that they survive a loss of power. Files that are written again after each boot need no
sync. Folders are opened one component at a time without following links, so a container that can write into one of them
can't redirect us. Modes are set on the open file, independently of the umask.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_BLOCK: Final = 64 << 10
_ZEROS: Final = bytes(_BLOCK)
PREFIX: Final = ".new-"
"""Prefix of temporary names. They keep no suffix, so that programs that watch the folder ignore them."""


@contextlib.contextmanager
def folder(path: Path | str, *, inside: int | None = None) -> Iterator[int]:
    """Open a folder. A link as the last component is refused with ``OSError``."""
    fd = os.open(path, _FOLDER, dir_fd=inside)
    try:
        yield fd
    finally:
        os.close(fd)


def make_folder(name: str, mode: int, *, inside: int, durable: bool = True) -> bool:
    """Make a folder with exactly this mode. Returns False if it already exists."""
    made = True
    try:
        os.mkdir(name, mode, dir_fd=inside)
    except FileExistsError:
        made = False
    with folder(name, inside=inside) as fd:
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)
    if made and durable:
        os.fsync(inside)
    return made


def write(name: str, data: bytes, mode: int, *, inside: int, durable: bool = True) -> None:
    """Write a file atomically. An existing file or link of this name is replaced; links are never followed.

    All blocks are reserved, so that a full disk can't kill a program that has the file mapped. Blocks of zeros are not
    written.
    """
    temporary = PREFIX + name.replace(".", "-")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=inside)
    fd = os.open(temporary, _NEW, 0o600, dir_fd=inside)
    try:
        if data:
            os.posix_fallocate(fd, 0, len(data))
        for start in range(0, len(data), _BLOCK):
            block = data[start : start + _BLOCK]
            if block != _ZEROS[: len(block)]:
                _write_all(fd, block, start)
        os.fchmod(fd, mode)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=inside, dst_dir_fd=inside)
    if durable:
        os.fsync(inside)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


def read(name: str, *, inside: int | None = None, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes.

    Raises:
        OSError: The file is missing, a link, not a regular file, or too large.
    """
    fd = os.open(name, _READ, dir_fd=inside)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{name}: not a regular file")
        if status.st_size > limit:
            raise OSError(f"{name}: {status.st_size} bytes, more than {limit}")
        parts: list[bytes] = []
        left = limit + 1
        while left and (part := os.read(fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(fd)
    return b"".join(parts)


def names(*, inside: int) -> list[str]:
    """The names in an open folder, sorted."""
    return sorted(os.listdir(inside))


def is_regular(name: str, size: int, *, inside: int) -> bool:
    """Whether a name is a regular file of this size. Links are not followed."""
    try:
        status = os.stat(name, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def remove(name: str, *, inside: int) -> None:
    """Remove a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=inside)
        os.fsync(inside)


def remove_tree(name: str, *, inside: int) -> None:
    """Remove a folder and its contents, if it exists. Links are not followed."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=inside)
        os.fsync(inside)
