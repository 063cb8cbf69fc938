"""Permits for Bind. A replica gets one if it leads, has seen every earlier booking, and has time left to write."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = structlog.get_logger(__name__)

WRITE_S: Final = 3.0
"""The longest time that a Bind's API calls take. So none starts later than this before the lease expires."""
CATCH_UP_S: Final = 15.0
"""How long a Bind on a new leader waits until that has read its predecessor's bookings."""


class Leadership(Protocol):
    """`hami_core.kube.lease.LeaseFollower`, `LeaseElector` or `Always`."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now."""
        ...

    @property
    def is_fresh(self) -> bool:
        """Whether the known state of the lease is recent enough to act on."""
        ...

    @property
    def others_until(self) -> float:
        """Monotonic time until which another replica may have believed that it leads."""
        ...

    @property
    def epoch(self) -> int:
        """A number that grows with every change of leader."""
        ...

    @property
    def expires_at(self) -> float:
        """Monotonic time at which leadership ends unless it is renewed."""
        ...

    async def confirm(self) -> bool:
        """Ask the API server now whether this replica leads."""
        ...

    async def run(self) -> None:
        """Watch the lease, or compete for it, until cancelled."""
        ...


class Always:
    """Leadership of a single replica (``leaderElect: false``)."""

    is_leader: Final = True
    is_fresh: Final = True
    others_until: Final = float("-inf")
    epoch: Final = 0
    expires_at: Final = float("inf")

    async def confirm(self) -> bool:
        """True."""
        return True

    async def run(self) -> None:
        """Nothing to follow."""
        await asyncio.Event().wait()


class NotLeaderError(Exception):
    """This replica may not bind now; the message says why. kube-scheduler retries the pod."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to bind one pod.

    Attributes:
        epoch: The epoch to sign the allocation with.
        write_by: Monotonic time after which no API call may start.
    """

    epoch: int
    write_by: float


class BindGate:
    """Gives permits.

    Args:
        leadership: Knows whether this replica leads.
        catch_up: Reads every pod bound so far by a consistent list. Returns the highest epoch of their signatures; -1:
            none. Called once each time this replica becomes leader.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        leadership: Leadership,
        catch_up: Callable[[], Awaitable[int]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leadership = leadership
        self._catch_up = catch_up
        self._clock = clock
        self._catching_up: asyncio.Task[int] | None = None
        self._term = -1
        self._epoch = 0

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now."""
        return self._leadership.is_leader

    @property
    def epoch(self) -> int:
        """The epoch of the current or last term; 0 before the first."""
        return self._epoch

    def changed(self, leads: bool) -> None:
        """Leadership began or ended, so bookings have to be read again before the next permit."""
        self._forget()
        if leads:
            self._begin()

    async def permit(self) -> Permit:
        """Permission to bind one pod now.

        Raises:
            NotLeaderError: This replica doesn't lead, or isn't ready to bind.
        """
        known = self._leadership.is_leader and self._leadership.is_fresh
        if not known and not await self._leadership.confirm():
            raise NotLeaderError("this replica does not hold the scheduler's lease")
        self._epoch = await self._caught_up(self._begin())
        now = self._clock()
        write_by = self._leadership.expires_at - WRITE_S
        if not self._leadership.is_leader or now >= write_by:
            raise NotLeaderError("the scheduler's lease is about to expire")
        return Permit(self._epoch, min(write_by, now + WRITE_S))

    async def close(self) -> None:
        """Stop catching up."""
        task = self._catching_up
        self._forget()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _caught_up(self, task: asyncio.Task[int]) -> int:
        """Wait until every earlier booking is known. Returns the term's epoch."""
        done, _ = await asyncio.wait({task}, timeout=CATCH_UP_S)
        if not done:
            raise NotLeaderError("this replica just became leader and is still reading earlier bookings")
        if task.cancelled():
            raise NotLeaderError("leadership was lost while earlier bookings were read")
        error = task.exception()
        if error is not None:
            if task is self._catching_up:
                self._forget()  # the next Bind tries again
            raise NotLeaderError(f"earlier bookings can't be read: {error}") from error
        return task.result()

    def _begin(self) -> asyncio.Task[int]:
        if self._catching_up is None or self._term != self._leadership.epoch:
            self._forget()
            self._term = self._leadership.epoch
            self._catching_up = asyncio.create_task(self._learn(self._term), name="catch-up")
        return self._catching_up

    def _forget(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
        self._catching_up = None

    async def _learn(self, term: int) -> int:
        started = self._clock()
        # After this time, every write that another replica began while it believed to lead has landed.
        await asyncio.sleep(max(0.0, self._leadership.others_until + WRITE_S - started))
        highest = await self._catch_up()
        epoch = max(term, highest + 1)
        log.info("ready to bind", epoch=epoch, seconds=round(self._clock() - started, 3))
        return epoch
