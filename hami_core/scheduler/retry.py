"""Makes kube-scheduler retry a refused pod that fits by now.

kube-scheduler retries a pod that an extender refused when an event may have made room: a pod ended or a node changed.
Without such an event it retries after five minutes. So a pod waits in vain in three cases:

- The event reached kube-scheduler before it reached us. It asked at once, and we refused again from older knowledge.
- kube-scheduler has no event for the change: a hold, a quota, or an init container that ended.
- kube-scheduler is older than 1.32, and a node changed. It then compares the pod's requests with what the kubelet
  offers, and some of these are amounts that no kubelet offers, such as ``nvidia.com/gpumem``.

Every version retries a pod when the pod itself changes. So this module changes an annotation of each refused pod that
fits on some node now.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import HamiError, KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS
from hami_core.scheduler.pace import Pace
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hami_core.kube.informer import Informer
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import PodRequest

log = structlog.get_logger(__name__)

NODE_EVENTS_RETRY_SINCE: Final = (1, 32)
"""Kubernetes version from which kube-scheduler retries pods with devices after a node changed."""
INFORMER_LAG_S: Final = 10.0
"""The longest time by which kube-scheduler may see an event before our informers do."""
COALESCE_S: Final = 0.5
"""Changes within this time cause one search."""
SEARCH_PAUSE_RATIO: Final = 9
"""A pause follows each search, so many times as long as the search took: requests are served in between."""
BATCH_PAUSE_S: Final = 5.0
"""Pause after each batch of retried pods."""
BATCH_PODS: Final = 256
"""Pods retried at once, oldest refusal first. The next batch has the other pods that still fit."""

_NO_REFUSALS: Final = float("inf")
_ALL_REFUSALS: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod's last refusal.

    Attributes:
        at: Its time in monotonic seconds.
        request: What the pod asks for.
        shape: A digest of the request without the pod's identity. Pods of one shape fit on the same nodes.
    """

    at: float
    request: PodRequest
    shape: bytes

    @classmethod
    def of(cls, request: PodRequest, at: float) -> Refusal:
        """A refusal of this request."""
        shape = repr(replace(request, uid="", name="")).encode(errors="surrogatepass")
        return cls(at, request, hashlib.blake2b(shape, digest_size=16).digest())


class RefusedPodRetry:
    """Remembers refused pods, and retries them after a change if they fit.

    Args:
        api: The Kubernetes API.
        pods: All pods.
        asks: Whether a pod asks for devices.
        request: A pod's request; raises HamiError if the request is invalid.
        fits: Whether the pod fits on any node now.
        clock: Monotonic seconds.
        unix: Unix seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        pods: Informer[Pod],
        asks: Callable[[Pod], bool],
        *,
        request: Callable[[Pod], PodRequest],
        fits: Callable[[PodRequest], bool],
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = wall.unix,
    ) -> None:
        self.node_events_retry = True
        """Whether kube-scheduler itself retries pods after a node changed; depends on its version."""
        self._api = api
        self._asks = asks
        self._request = request
        self._fits = fits
        self._clock = clock
        self._unix = unix
        self._waiting: dict[str, Pod] = {}
        self._refused: dict[str, Refusal] = {}  # by Filter, oldest first
        self._since = _NO_REFUSALS  # pods refused later than this are due
        self._searched_s = 0.0  # of the last search
        self._rest_until = float("-inf")  # the pause after it
        self._event = asyncio.Event()
        pods.on_change(self._see)

    def refused(self, request: PodRequest) -> None:
        """Filter found no node for a pod."""
        self._refused.pop(request.uid, None)
        self._refused[request.uid] = Refusal.of(request, self._clock())

    def placed(self, uid: str) -> None:
        """Filter found a node for the pod."""
        self._refused.pop(uid, None)

    def pod_ended(self) -> None:
        """A pod ended. kube-scheduler sees this too, but may have retried a pod before we saw it."""
        self._retry_since(self._clock() - INFORMER_LAG_S)

    def node_changed(self) -> None:
        """A node may fit a pod that it did not fit before."""
        self._retry_since(self._clock() - INFORMER_LAG_S if self.node_events_retry else _ALL_REFUSALS)

    def retry_refused(self) -> None:
        """There may be room that kube-scheduler does not see: retry every refused pod that fits."""
        self._retry_since(_ALL_REFUSALS)

    @property
    def is_busy(self) -> bool:
        """Whether some refused pods have not been checked yet since the last change."""
        return self._event.is_set()

    async def run(self) -> None:
        """Retry pods until cancelled."""
        while True:
            await self._event.wait()
            await asyncio.sleep(max(COALESCE_S, self._rest_until - self._clock()))
            self._searched_s = 0.0
            since, self._since = self._since, _NO_REFUSALS
            retried = await self._retry_due(since)
            self._rest_until = self._clock() + SEARCH_PAUSE_RATIO * self._searched_s
            if self._since == _NO_REFUSALS:
                self._event.clear()
            if retried:
                await asyncio.sleep(BATCH_PAUSE_S)

    def _retry_since(self, since: float) -> None:
        self._since = min(self._since, since)
        self._event.set()

    async def _retry_due(self, since: float) -> bool:
        """Retry the pods that fit now. Returns whether there was one. Each shape that does not fit is tried once.

        Other tasks run each millisecond: 10,000 pods that wait take seconds to go through.
        """
        hopeless: set[bytes] = set()
        retried = 0
        pace = Pace(clock=self._clock)
        for refusal in self._due(since):
            await pace.pause()
            if refusal is None or refusal.request.uid not in self._waiting or refusal.shape in hopeless:
                continue
            if not self._fits(refusal.request):
                hopeless.add(refusal.shape)
                continue
            self._searched_s += pace.worked_s
            await self._retry(self._waiting[refusal.request.uid])
            retried += 1
            if retried % BATCH_PODS == 0:
                await asyncio.sleep(BATCH_PAUSE_S)
                hopeless.clear()
            pace = Pace(clock=self._clock)
        self._searched_s += pace.worked_s
        return retried > 0

    def _due(self, since: float) -> Iterator[Refusal | None]:
        """Refusals since that time; for `_ALL_REFUSALS` also those by kube-scheduler itself.

        The caller may let other tasks run between two of them. None: a refusal that is not due.
        """
        refused, waiting = list(self._refused), list(self._waiting)
        now = self._clock()
        for uid in refused:
            refusal = self._refused.get(uid)
            if refusal is None:
                yield None  # placed, or gone
            elif uid not in self._waiting and now - refusal.at > INFORMER_LAG_S:
                del self._refused[uid]  # the pod was deleted before the informer showed it
                yield None
            elif refusal.at >= since:
                if uid not in self._waiting:
                    self._retry_since(since)  # the informer has not shown the pod yet
                yield refusal
            else:
                yield None
        if since == _ALL_REFUSALS:
            known = set(refused)
            for uid in waiting:
                yield self._refusal_of_kube_scheduler(uid) if uid not in known else None

    def _refusal_of_kube_scheduler(self, uid: str) -> Refusal | None:
        """The refusal of a pod that Filter has not refused; None: it was not refused, or the request is invalid."""
        pod = self._waiting.get(uid)
        if pod is None or uid in self._refused or not _was_refused(pod):
            return None
        with suppress(HamiError):  # Filter reports it
            return Refusal.of(self._request(pod), self._clock())
        return None

    def _see(self, old: Pod | None, pod: Pod | None) -> None:
        if old is not None and (pod is None or pod.uid != old.uid):
            self._forget(old.uid)
        if pod is None:
            return
        if pod.spec.node_name or pod.is_terminal or pod.is_deleting or not self._asks(pod):
            self._forget(pod.uid)
        else:
            self._waiting[pod.uid] = pod

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)

    async def _retry(self, pod: Pod) -> None:
        patch = metadata_patch(annotations={keys.SCHEDULING_RETRY: f"{self._unix():.3f}"}, uid=pod.uid)
        try:
            await self._api.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)
        except KubeError as error:
            log.warning(
                "a refused pod could not be retried now, kube-scheduler retries it later", pod=pod.key, error=str(error)
            )


def _was_refused(pod: Pod) -> bool:
    """Whether kube-scheduler has tried the pod and found no node."""
    seen = pod.condition("PodScheduled")
    return seen is not None and seen.status == "False"
