"""Watches a folder: calls back on every change, and at a fixed interval besides.

It uses inotify on the event loop. The package watchfiles polls every few milliseconds, which would be most of the cost
of an idle agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = structlog.get_logger(__name__)

POLL_S: Final = 0.5
"""``changed`` is called at this interval even without a notification."""
COALESCE_S: Final = 0.005
"""One change causes several events. Those within this time are reported once."""
_CHANGES: Final = 0x4 | 0x8 | 0xC0 | 0x100 | 0x200 | 0xC00  # attributes, written, moved, created, deleted, folder gone
_FOLDERS_ONLY: Final = 0x01000000
_WATCH_ENDED: Final = 0x8000  # the kernel has ended the watch
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


async def watch_folder(path: Path, changed: Callable[[], None], *, poll_s: float = POLL_S) -> None:
    """Call ``changed`` on each change in a folder, and every ``poll_s`` seconds, until cancelled.

    The folder need not exist yet, and may be replaced.
    """
    with contextlib.closing(_Watch(path, changed)) as watch:
        while True:
            watch.renew()
            changed()
            await asyncio.sleep(poll_s)


class _Watch:
    """An inotify watch of one folder. Without inotify it reports nothing."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        self._path = path
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._due: asyncio.TimerHandle | None = None
        self._folder: tuple[int, int] | None = None
        self._failed = False
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            self._fail()
        else:
            self._loop.add_reader(self._fd, self._on_events)

    def _fail(self) -> None:
        if not self._failed:
            reason = os.strerror(ctypes.get_errno())
            log.warning("can't watch the folder; polling only", folder=str(self._path), error=reason)
        self._failed = True

    def renew(self) -> None:
        """Watch the folder now at the path, if it is not the one already watched."""
        try:
            status = self._path.stat()
        except OSError:
            return
        folder = status.st_dev, status.st_ino
        if self._fd < 0 or folder == self._folder:
            return
        if self._libc.inotify_add_watch(self._fd, os.fsencode(self._path), _CHANGES | _FOLDERS_ONLY) < 0:
            self._fail()
        else:
            self._folder, self._failed = folder, False

    def _on_events(self) -> None:
        try:
            events = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        at = 0
        while at < len(events):
            _, what, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if what & _WATCH_ENDED:
                self._folder = None  # a new folder may have the same inode number
        if self._due is None:
            self._due = self._loop.call_later(COALESCE_S, self._report)

    def _report(self) -> None:
        self._due = None
        self._changed()

    def close(self) -> None:
        """End the watch."""
        if self._due is not None:
            self._due.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
