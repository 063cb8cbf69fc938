"""When passes run, and how those that wait for one hear of its end.

A pass looks at everything and starts what is missing. It runs again whenever something changed, so a crash anywhere is
answered by passing again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = structlog.get_logger(__name__)

MAX_PAUSE_S: Final = 0.02
"""Longest pause after a pass."""
_RETRY_S: Final = 0.2
"""Pause after a pass that failed."""


class Passes:
    """Runs passes one after the other.

    Args:
        work: One pass.
        clock: Monotonic seconds.

    Attributes:
        begun: Number of the latest pass that began.
        done: Number of the latest pass that ended well.
        progress: Set at the next progress: a pass ended, or a container's files were written. Made anew each time.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], clock: Callable[[], float]) -> None:
        self.begun = 0
        self.done = 0
        self.progress = asyncio.Event()
        self._work = work
        self._clock = clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something changed: pass again."""
        self._wake.set()

    def advance(self) -> None:
        """Tell those that wait for progress."""
        progress, self.progress = self.progress, asyncio.Event()
        progress.set()

    async def once(self) -> None:
        """One pass."""
        self.begun += 1
        began = self.begun
        await self._work()
        self.done = began
        self.advance()

    async def run(self) -> None:
        """Pass whenever woken, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = self._clock()
            try:
                await self.once()
                # The kubelet's calls come first: a pass takes half of the time at most, and many wishes are one.
                await asyncio.sleep(min(self._clock() - began, MAX_PAUSE_S))
            except Exception:
                log.exception("a pass failed, it will be repeated")
                await asyncio.sleep(_RETRY_S)
                self._wake.set()
