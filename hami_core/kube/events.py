"""Records Kubernetes Events: aggregated, bounded and best effort.

Recording an event never blocks, never fails and never floods the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import structlog

from hami_core import clock as wall
from hami_core.kube.objects import Event, EventSource, KubeObject, ObjectMeta, ObjectReference
from hami_core.kube.patch import merge_patch
from hami_core.kube.port import EVENTS, ApiError, KubeApi
from hami_core.kube.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)

MESSAGE_LIMIT: Final = 1024
"""Longest message that the API server accepts."""
BURST: Final = 25
"""Most events at once about one object; after that, one more every ``REFILL_S``."""
REFILL_S: Final = 30.0
AGGREGATE_S: Final = 600.0
"""Within this time, a repeated event only raises the count of the first one."""
PER_S: Final = 50.0
"""Most events written per second, after a burst of ``AT_ONCE``."""
AT_ONCE: Final = 100
REMEMBERED: Final = 20_480
"""Events that are remembered, so that a repeated one only raises a count: two events of each of 10,000 waiting pods."""
BUCKETS: Final = 10_240
"""Objects whose limit is remembered: those of `REMEMBERED`."""
NORMAL_BURST: Final = 100
"""Most ``Normal`` events at once about all objects together; after that, one more every ``NORMAL_REFILL_S``.

Others are dropped; kube-scheduler itself records that a pod was bound.
"""
NORMAL_REFILL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Note:
    target: ObjectReference
    type: str
    reason: str
    message: str

    @property
    def key(self) -> bytes:
        """A digest of the note, since all messages would take too much memory."""
        target = self.target
        told = (target.kind, target.namespace, target.name, target.uid, self.type, self.reason, self.message)
        return hashlib.blake2b("\0".join(told).encode(errors="surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class _Sent:
    name: str
    namespace: str
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class _Bucket:
    tokens: float
    at: float

    def take(self, burst: int, refill_s: float, now: float) -> tuple[_Bucket, bool]:
        """Take a token. Returns the new bucket, and whether there was a token."""
        tokens = min(burst, self.tokens + (now - self.at) / refill_s)
        return _Bucket(tokens - (tokens >= 1), now), tokens >= 1


def reference(kind: str, item: KubeObject) -> ObjectReference:
    """A reference to an object, for use in events."""
    meta = item.metadata
    return ObjectReference(kind=kind, name=meta.name, namespace=meta.namespace, uid=meta.uid, api_version="v1")


class EventRecorder:
    """Writes events in the background.

    Args:
        api: The API server.
        component: Source component; the scheduler's name, as in HAMi.
        instance: Name of this replica.
        bound: Most events that wait to be written; further ones are dropped and counted.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        component: str,
        *,
        instance: str = "",
        bound: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        self._api = api
        self._component = component
        self._instance = instance
        self._clock = clock
        self._pace = Throttle(PER_S, AT_ONCE)
        self._normal_events = _Bucket(NORMAL_BURST, clock())
        self._waiting: asyncio.Queue[_Note] = asyncio.Queue(bound)
        self._sent: OrderedDict[bytes, _Sent] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str], _Bucket] = OrderedDict()

    def record(
        self,
        target: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API calls it that
        reason: str,
        message: str,
    ) -> None:
        """Queue an event about an object. Returns at once."""
        if len(message) > MESSAGE_LIMIT:
            message = message[: MESSAGE_LIMIT - 1] + "…"
        note = _Note(target, type, reason, message)
        if not self._admit(target) or (type == "Normal" and not self._admit_normal()):
            self.dropped += 1
            return
        try:
            self._waiting.put_nowait(note)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            note = await self._waiting.get()
            try:
                await self._pace.wait()
                await self._write(note)
            finally:
                self._waiting.task_done()

    async def flush(self, timeout_s: float = 2.0) -> None:
        """Wait until all recorded events are written, at most ``timeout_s``. `run` must be running."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._waiting.join()

    async def _write(self, note: _Note) -> None:
        try:
            if not await self._count_up(note):
                await self._create(note)
        except ApiError as error:
            self.dropped += 1
            log.debug("event lost", reason=note.reason, object=note.target.name, error=str(error))

    async def _count_up(self, note: _Note) -> bool:
        sent = self._sent.get(note.key)
        if sent is None or self._clock() - sent.at > AGGREGATE_S:
            return False
        patch = merge_patch({"count": sent.count + 1, "lastTimestamp": _now()})
        try:
            await self._api.patch(EVENTS, sent.name, patch, sent.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        sent.count += 1
        sent.at = self._clock()
        self._sent.move_to_end(note.key)
        return True

    async def _create(self, note: _Note) -> None:
        namespace = note.target.namespace or "default"
        name = f"{note.target.name[:230]}.{secrets.token_hex(8)}"
        now = _now()
        event = Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            involved_object=note.target,
            reason=note.reason,
            message=note.message,
            type=note.type,
            count=1,
            first_timestamp=now,
            last_timestamp=now,
            source=EventSource(component=self._component),
            reporting_component=self._component,
            reporting_instance=self._instance,
        )
        await self._api.create(EVENTS, event, namespace)
        self._sent[note.key] = _Sent(name, namespace, 1, self._clock())
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def _admit(self, target: ObjectReference) -> bool:
        """Take a token of the object's bucket, so that one failing pod can't flood the API server."""
        key, now = (target.kind, target.namespace, target.name), self._clock()
        self._buckets[key], admitted = self._buckets.get(key, _Bucket(BURST, now)).take(BURST, REFILL_S, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > BUCKETS:
            self._buckets.popitem(last=False)
        return admitted

    def _admit_normal(self) -> bool:
        self._normal_events, admitted = self._normal_events.take(NORMAL_BURST, NORMAL_REFILL_S, self._clock())
        return admitted


def _now() -> str:
    return wall.now().strftime("%Y-%m-%dT%H:%M:%SZ")
