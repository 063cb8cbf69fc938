"""Watching a folder: a wake-up on every change, and one now and then whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
from watchfiles import awatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = structlog.get_logger(__name__)

POLL_S: Final = 0.5
"""Changes are looked for this often even if the system's notification is lost or not to be had."""


async def watch_folder(path: Path, changed: Callable[[], None], *, poll_s: float = POLL_S) -> None:
    """Call ``changed`` on each change in a folder, and every ``poll_s`` seconds, until cancelled."""
    stop = asyncio.Event()

    async def notified() -> None:
        while not stop.is_set():
            try:
                async for _ in awatch(path, stop_event=stop, debounce=20, step=5, rust_timeout=1000, recursive=False):
                    changed()
            except (OSError, RuntimeError) as error:
                # No folder yet, or no inotify watches left: polling goes on meanwhile.
                log.warning("folder can't be watched, polling only", folder=str(path), error=str(error))
                await asyncio.sleep(30)

    watching = asyncio.ensure_future(notified())
    try:
        while True:
            changed()
            await asyncio.sleep(poll_s)
    finally:
        stop.set()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
