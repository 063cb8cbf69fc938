"""Opening what a container may have put in place of its region: without following links, waiting or mapping."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose.region import RegionError

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION_FILE: Final = "vgpu.cache"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def region_file(folder: str, *, write: bool = False) -> Iterator[int]:
    """The open region in a host folder.

    The name is looked at before anything is opened for reading or writing, and what was looked at is opened: opening
    a device node or a pipe has effects of its own.

    Raises:
        RegionError: It is no regular file, or lies on another file system than its folder.
        OSError: It is missing or can't be opened.
    """
    path = str(Path(folder) / REGION_FILE)
    with contextlib.ExitStack() as stack:
        inside = os.open(folder, _FOLDER)
        stack.callback(os.close, inside)
        name = os.open(REGION_FILE, _NAME, dir_fd=inside)
        stack.callback(os.close, name)
        status = os.fstat(name)
        if not stat.S_ISREG(status.st_mode):
            raise RegionError(path, 0, "not a regular file")
        if status.st_dev != os.fstat(inside).st_dev:
            raise RegionError(path, 0, "on another file system than its folder")
        fd = os.open(f"/proc/self/fd/{name}", _OPEN | (os.O_RDWR if write else os.O_RDONLY))
        stack.callback(os.close, fd)
        yield fd
