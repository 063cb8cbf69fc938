"""Decides when passes run, and wakes tasks that wait for the end of one.

A pass looks at everything and starts what is missing. It runs again after every change, so it also repairs what a crash
left unfinished.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = structlog.get_logger(__name__)

MAX_PAUSE_S: Final = 0.02
"""Upper bound of the pause after a pass."""
CALM_S: Final = 0.02
"""A pass that no container waits for begins when the kubelet has not asked for devices for this long."""
MAX_DELAY_S: Final = 0.1
"""Upper bound of the delay of such a pass."""
_RETRY_S: Final = 0.2
"""Pause after a pass that failed."""


class Passes:
    """Runs passes one after the other.

    Args:
        work: One pass.
        clock: Monotonic seconds.

    Attributes:
        begun: Number of the latest pass that began.
        done: Number of the latest pass that succeeded.
        progress: An event that is set when a pass ends or a container's files are written. `advance` then puts a new
            event in its place.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], clock: Callable[[], float]) -> None:
        self.begun = 0
        self.done = 0
        self.progress = asyncio.Event()
        self._work = work
        self._clock = clock
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._calm_at = float("-inf")

    def wake(self, *, urgent: bool = False) -> None:
        """Request another pass, because something changed.

        Args:
            urgent: A container waits for it.
        """
        self._wake.set()
        if urgent:
            self._urgent.set()

    def delay(self) -> None:
        """Delay the next pass for `CALM_S`, because the kubelet asks for devices. It may ask for more at once."""
        self._calm_at = self._clock() + CALM_S

    def advance(self) -> None:
        """Wake every task that waits for progress."""
        progress, self.progress = self.progress, asyncio.Event()
        progress.set()

    async def once(self) -> None:
        """Run one pass."""
        self.begun += 1
        began = self.begun
        await self._work()
        self.done = began
        self.advance()

    async def run(self) -> None:
        """Run a pass after each `wake`, until cancelled."""
        while True:
            await self._wake.wait()
            await self._calm()
            self._wake.clear()
            self._urgent.clear()
            began = self._clock()
            try:
                await self.once()
                # Passes take at most half of the time, so that the kubelet's calls are answered quickly. Requests
                # that arrive during the pause are served by one pass.
                await asyncio.sleep(min(self._clock() - began, MAX_PAUSE_S))
            except Exception:
                log.exception("a pass failed; retrying")
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _calm(self) -> None:
        """Wait as long as the pass is delayed and not urgent."""
        latest = self._clock() + MAX_DELAY_S
        while not self._urgent.is_set() and (left := min(self._calm_at, latest) - self._clock()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), left)
