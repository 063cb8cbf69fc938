"""Turn pages: one small file for each card, through which the containers with a core limit on it take turns.

A container may write anything into the page, truncate it or change its mode, but it can't reach the folder. A damaged
page is repaired in place if possible. A replaced page would separate the containers that have the old one mounted from
later containers.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose import turn

from hami_core import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

log = structlog.get_logger(__name__)

MODE: Final = 0o666
"""Mode of a page: any user of a container may write it."""
BOOT: Final = ".boot"
"""File with the identity of the boot in which the pages were made."""
_HEADER_BYTES: Final = 16
"""Bytes that identify the file. The bytes after them belong to the containers."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,94}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TurnPages:
    """The turn pages of a node.

    The times in a page count from the boot. So pages of an earlier boot are deleted; no container uses them any more.

    Args:
        path: The folder of the pages; made when first needed.
        boot_id: File with the identity of this boot.
    """

    def __init__(self, path: Path, boot_id: Path) -> None:
        self.path = path
        self._boot_id = boot_id
        self._lock = threading.Lock()  # containers may be prepared in parallel

    def ensure(self, uuid: str) -> Path:
        """Ensure that a card has a valid page. A missing page is made, and a damaged one is repaired.

        Returns:
            The page's path on the host.

        Raises:
            DeviceError: The page can't be made.
        """
        if not _NAME.fullmatch(uuid):
            raise DeviceError(f"{uuid!r} can't be the name of a turn page")
        try:
            with self._lock:
                self._ensure(uuid)
        except OSError as error:
            raise DeviceError(f"can't make the turn page of card {uuid} in {self.path}: {error}") from error
        return self.path / uuid

    def ensure_all(self, uuids: Iterable[str]) -> None:
        """Call `ensure` for each card. A failure is logged and does not affect the other cards."""
        for uuid in uuids:
            try:
                self.ensure(uuid)
            except DeviceError as error:
                log.warning("can't ensure a turn page", error=str(error))

    def _ensure(self, name: str) -> None:
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder = os.open(self.path, _FOLDER)
        try:
            os.fchmod(folder, 0o755)
            self._clear_at_boot(folder)
            try:
                _repair(name, folder)
            except FileNotFoundError:
                _write_whole(name, turn.initial(), MODE, folder)
            except OSError as error:
                # A container that damages its page must not keep other containers from starting.
                log.warning("can't repair a turn page; replacing it", page=name, error=str(error))
                os.unlink(name, dir_fd=folder)
                _write_whole(name, turn.initial(), MODE, folder)
        finally:
            os.close(folder)

    def _clear_at_boot(self, folder: int) -> None:
        boot = self._boot_id.read_bytes()
        try:
            if (self.path / BOOT).read_bytes() == boot:
                return
        except FileNotFoundError:
            pass
        for name in os.listdir(folder):
            os.unlink(name, dir_fd=folder)
        _write_whole(BOOT, boot, 0o644, folder)


def _write_whole(name: str, content: bytes, mode: int, folder: int) -> None:
    """Write a file atomically."""
    temporary = f".new-{name}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    fd = os.open(temporary, _NEW, 0o600, dir_fd=folder)
    try:
        os.pwrite(fd, content, 0)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _repair(name: str, folder: int) -> None:
    """Repair a page's size, header, owner and mode in place. Slots are kept, since their owners are still running.

    Raises:
        OSError: The page is missing, is not a regular file, or we lack the permission.
    """
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError("not a regular file")
    fd = os.open(name, _OPEN, dir_fd=folder)
    try:
        status, content, wrong = os.fstat(fd), turn.initial(), []
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            # This needs a capability that the agent may lack. Another owner does no harm while the mode is right.
            with contextlib.suppress(PermissionError):
                os.fchown(fd, os.geteuid(), os.getegid())
                wrong.append("owner")
        if stat.S_IMODE(status.st_mode) != MODE:
            os.fchmod(fd, MODE)
            wrong.append("mode")
        if status.st_size != turn.SIZE:
            os.ftruncate(fd, turn.SIZE)
            wrong.append("size")
        if os.pread(fd, _HEADER_BYTES, 0) != content[:_HEADER_BYTES]:
            os.pwrite(fd, content[:_HEADER_BYTES], 0)
            wrong.append("header")
        if wrong:
            log.warning("repaired a turn page", page=name, wrong=wrong)
    finally:
        os.close(fd)
