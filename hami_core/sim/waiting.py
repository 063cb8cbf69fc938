"""The scheduling queue of active, backing-off and unschedulable pods, with kube-scheduler's times."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hami_core.sim.resources import Object


@dataclass(slots=True)
class Waiting:
    """A pod that wants a node."""

    pod: Object
    since: float
    attempts: int = 0
    ready_at: float = 0.0
    unschedulable: bool = False
    parked_at: float = 0.0


class Queue:
    """Queue of pods, by UID.

    Args:
        initial: First back-off in seconds; doubles with each attempt.
        longest: Longest back-off in seconds.
        unschedulable_for: Seconds after which an unschedulable pod is tried again although nothing has changed.
    """

    def __init__(self, initial: float, longest: float, unschedulable_for: float = 300.0) -> None:
        self._initial = initial
        self._longest = longest
        self._unschedulable_for = unschedulable_for
        self._pods: dict[str, Waiting] = {}
        self._moves = 0
        self._wake = asyncio.Event()

    def put(self, pod: Object, *, changed: bool = True) -> None:
        """Adds a pod, or replaces its object. With ``changed``, an unschedulable pod is tried again."""
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            self._pods[uid].pod = pod
            if changed:
                self._pods[uid].unschedulable = False
        else:
            self._pods[uid] = Waiting(pod, time.monotonic())
        self._wake.set()

    def drop(self, uid: str) -> None:
        """Forgets a pod."""
        self._pods.pop(uid, None)

    def move_all(self) -> None:
        """Marks all pods to be tried again after their back-off, because the cluster has changed."""
        self._moves += 1
        for waiting in self._pods.values():
            waiting.unschedulable = False
        self._wake.set()

    def failed(self, waiting: Waiting, moves: int, *, unschedulable: bool) -> None:
        """Puts a pod back after a failed attempt. ``moves`` is the value of `moves` when the attempt began."""
        uid, now = waiting.pod["metadata"]["uid"], time.monotonic()
        waiting.ready_at = now + min(self._initial * 2 ** (waiting.attempts - 1), self._longest)
        waiting.unschedulable = unschedulable and moves == self._moves
        waiting.parked_at = now
        self._pods[uid] = waiting
        self._wake.set()

    @property
    def moves(self) -> int:
        """Number of calls of `move_all` so far."""
        return self._moves

    async def pop(self) -> Waiting:
        """The next pod: the highest priority first, then the longest wait."""
        while True:
            now = time.monotonic()
            for waiting in self._pods.values():
                if waiting.unschedulable and now - waiting.parked_at > self._unschedulable_for:
                    waiting.unschedulable = False
            open_ = [w for w in self._pods.values() if not w.unschedulable]
            ready = [w for w in open_ if w.ready_at <= now]
            if ready:
                first = min(ready, key=lambda w: (-(w.pod["spec"].get("priority") or 0), w.since))
                del self._pods[first.pod["metadata"]["uid"]]
                first.attempts += 1
                return first
            pause = min((w.ready_at - now for w in open_), default=5.0)
            self._wake.clear()
            try:
                async with asyncio.timeout(min(pause, 5.0)):
                    await self._wake.wait()
            except TimeoutError:
                continue
