"""Lets long work on the event loop stop again and again, so that requests are answered in between."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_S: Final = 0.001


class Pace:
    """Lets other tasks run each time that a piece of time is used up.

    Args:
        piece_s: How long to work before other tasks run.
        clock: Monotonic seconds.
    """

    def __init__(self, piece_s: float = PIECE_S, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._piece_s = piece_s
        self._clock = clock
        self._began = clock()
        self._worked_s = 0.0

    @property
    def worked_s(self) -> float:
        """Seconds of work so far, without those of other tasks."""
        return self._worked_s + self._clock() - self._began

    async def pause(self) -> None:
        """Let other tasks run if the piece is used up."""
        worked = self._clock() - self._began
        if worked >= self._piece_s:
            self._worked_s += worked
            await asyncio.sleep(0)
            self._began = self._clock()
