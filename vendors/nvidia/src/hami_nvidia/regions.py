"""Opens a container's region safely, since the container may have put anything in its place."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from typing import TYPE_CHECKING, Final

from hami_interpose.region import RegionError

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION_FILE: Final = "vgpu.cache"
_HAMI_SUFFIX: Final = ".cache"
_MAX_ENTRIES: Final = 100
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def region_file(folder: str, *, write: bool = False) -> Iterator[int]:
    """Open the region in a host folder, without following links or blocking.

    Opening a device node or a pipe has side effects. So the file is first opened with O_PATH and checked, and then that
    same file is opened for reading or writing.

    Args:
        folder: The host folder.
        write: Open for writing too.

    Raises:
        RegionError: The file is not a regular file, or is on another file system than its folder.
        OSError: The file is missing or can't be opened.
    """
    with _file(folder, REGION_FILE, write=write) as fd:
        yield fd


@contextlib.contextmanager
def hami_region_file(folder: str) -> Iterator[tuple[str, int] | None]:
    """Open the region of a container that HAMi's own plugin served, as `region_file` does.

    Its name is random and ends in ``.cache``. A container that has not started CUDA has none, so None is yielded.

    Raises:
        RegionError: The file is not a regular file, or is on another file system than its folder.
        OSError: The file can't be opened.
    """
    with os.scandir(folder) as entries:
        found = sorted(e.name for e in itertools.islice(entries, _MAX_ENTRIES) if e.name.endswith(_HAMI_SUFFIX))
    names = [name for name in found if "libvgpu.so" not in name]
    if not names:
        yield None
        return
    with _file(folder, names[0]) as fd:
        yield f"{folder}/{names[0]}", fd


@contextlib.contextmanager
def _file(folder: str, file: str, *, write: bool = False) -> Iterator[int]:
    inside = os.open(folder, _FOLDER)
    try:
        name = os.open(file, _NAME, dir_fd=inside)
        try:
            _check_region(f"{folder}/{file}", os.fstat(name), os.fstat(inside))
            fd = os.open(f"/proc/self/fd/{name}", _OPEN | (os.O_RDWR if write else os.O_RDONLY))
        finally:
            os.close(name)
    finally:
        os.close(inside)
    try:
        yield fd
    finally:
        os.close(fd)


def _check_region(path: str, file: os.stat_result, inside: os.stat_result) -> None:
    if not stat.S_ISREG(file.st_mode):
        raise RegionError(path, 0, "not a regular file")
    if file.st_dev != inside.st_dev:
        raise RegionError(path, 0, "on another file system than its folder")
