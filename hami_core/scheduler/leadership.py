"""Who binds. A Bind needs a permit: this replica leads, has seen every earlier booking, and has time left to write."""

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
"""A Bind's API calls end within this; none starts later than this before the lease runs out."""
CATCH_UP_S: Final = 15.0
"""How long a Bind waits for a fresh leader to have seen its predecessor's bookings."""


class Leadership(Protocol):
    """`hami_core.kube.lease.LeaseFollower`, `LeaseElector` or `Always`."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now."""
        ...

    @property
    def is_fresh(self) -> bool:
        """Whether what is known is young enough to act on."""
        ...

    @property
    def others_until(self) -> float:
        """Monotonic time until which another replica may have taken itself for the leader."""
        ...

    @property
    def epoch(self) -> int:
        """Grows with every change of leader."""
        ...

    @property
    def expires_at(self) -> float:
        """Monotonic time until which it leads unless renewed."""
        ...

    async def confirm(self) -> bool:
        """Ask the API server now."""
        ...

    async def run(self) -> None:
        """Follow or campaign until cancelled."""
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
    """No permit now; the message says why. kube-scheduler tries the pod again."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to bind.

    Attributes:
        epoch: What the allocation is signed with.
        write_by: Monotonic time after which no API call may start.
    """

    epoch: int
    write_by: float


class BindGate:
    """Gives permits.

    Args:
        leadership: Who leads.
        catch_up: Makes sure that every pod bound so far is known (a consistent list), and returns the highest epoch
            found on them, -1 when none. Called once each time this replica becomes leader.
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
        """Leadership began or ended: what was known of the other leader's bookings is stale."""
        self._forget()
        if leads:
            self._begin()

    async def permit(self) -> Permit:
        """Leave to bind now.

        Raises:
            NotLeaderError: This replica doesn't lead, or isn't ready to.
        """
        known = self._leadership.is_leader and self._leadership.is_fresh
        if not known and not await self._leadership.confirm():
            raise NotLeaderError("this replica does not hold the scheduler's lease")
        self._epoch = await self._caught_up(self._begin())
        now = self._clock()
        write_by = self._leadership.expires_at - WRITE_S
        if not self._leadership.is_leader or now >= write_by:
            raise NotLeaderError("the scheduler's lease is about to run out")
        return Permit(self._epoch, min(write_by, now + WRITE_S))

    async def close(self) -> None:
        """Stop what is under way."""
        task = self._catching_up
        self._forget()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _caught_up(self, task: asyncio.Task[int]) -> int:
        """The term's epoch, once everything before it is known."""
        done, _ = await asyncio.wait({task}, timeout=CATCH_UP_S)
        if not done:
            raise NotLeaderError("just became leader and is still reading the bookings made before")
        if task.cancelled():
            raise NotLeaderError("leadership was lost while the bookings made before were read")
        error = task.exception()
        if error is not None:
            if task is self._catching_up:
                self._forget()  # the next Bind tries again
            raise NotLeaderError(f"the bookings made before can't be read: {error}") from error
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
        # What another replica began to write while it took itself for the leader has landed by then.
        await asyncio.sleep(max(0.0, self._leadership.others_until + WRITE_S - started))
        highest = await self._catch_up()
        epoch = max(term, highest + 1)
        log.info("ready to bind", epoch=epoch, seconds=round(self._clock() - started, 3))
        return epoch
