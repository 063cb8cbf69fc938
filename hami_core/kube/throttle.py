"""Limits the rate of requests."""

from __future__ import annotations

import asyncio


class Throttle:
    """A token bucket: ``burst`` requests at once, then ``qps`` per second, first come, first served."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._slack = self._interval * max(burst - 1, 0)
        self._next = float("-inf")

    async def wait(self) -> None:
        """Wait until the caller may send a request."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._slack) + self._interval
        delay = self._next - self._interval - now
        if delay > 0:
            await asyncio.sleep(delay)
