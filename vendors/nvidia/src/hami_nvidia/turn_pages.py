"""Turn pages: one small file a card, shared by the containers with a core limit on it, which take turns through it.

A container may write anything into its page, cut it short or change its mode; the folder it cannot reach. What is wrong
is therefore put right in place where that can be done: a page that is replaced parts those who have it mounted from
those who come.
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
"""Any user of a container writes its page."""
BOOT: Final = ".boot"
"""Says of which boot the pages are."""
_HEADER_BYTES: Final = 16
"""Bytes that say what the file is; behind them is the containers' own."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,94}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TurnPages:
    """The pages of a node.

    Times in them are since the boot, so pages of another boot, in which no container lives any more, are thrown away.

    Args:
        path: Their folder; made when first needed.
        boot_id: File with the identity of this boot.
    """

    def __init__(self, path: Path, boot_id: Path) -> None:
        self.path = path
        self._boot_id = boot_id
        self._lock = threading.Lock()  # containers may be prepared in parallel

    def ensure(self, uuid: str) -> Path:
        """See that a card has its page: made when missing, put right when damaged, else left as it is.

        Returns:
            Its path on the host.

        Raises:
            DeviceError: It can't be made.
        """
        if not _NAME.fullmatch(uuid):
            raise DeviceError(f"{uuid!r} can't be the name of a turn page")
        try:
            with self._lock:
                self._ensure(uuid)
        except OSError as error:
            raise DeviceError(f"the turn page of card {uuid} can't be put into {self.path}: {error}") from error
        return self.path / uuid

    def ensure_all(self, uuids: Iterable[str]) -> None:
        """`ensure` for each card; one that fails is logged and keeps nothing from the others."""
        for uuid in uuids:
            try:
                self.ensure(uuid)
            except DeviceError as error:
                log.warning("a turn page can't be kept", error=str(error))

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
                # Whoever did that must not keep others from starting.
                log.warning("a turn page can't be put right, it is replaced", page=name, error=str(error))
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
    """Put a file there, whole or not at all."""
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
    """Put size, head, owner and mode of a page right; slots stay, since who has them goes on.

    Raises:
        OSError: It is missing, no regular file, or beyond what we may do.
    """
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError("not a regular file")
    fd = os.open(name, _OPEN, dir_fd=folder)
    try:
        status, content, wrong = os.fstat(fd), turn.initial(), []
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            # Needs a capability that an agent may not have; a page of another owner serves while its mode is right.
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
            log.warning("a turn page was put right", page=name, wrong=wrong)
    finally:
        os.close(fd)
