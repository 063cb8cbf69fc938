"""Makes kube-scheduler look again at a pod that waits for devices, where nothing that kube-scheduler sees would.

kube-scheduler keeps a pod that an extender refused until an event may have made room: a pod that ended, a node that
changed. Otherwise it looks again after five minutes. So a pod waits in vain where

- the event reached kube-scheduler before it reached us: it asked at once, and we refused once more from what we knew;
- it has no event for what made room: a place that was held for another pod, a quota, an init container that ended;
- it is older than 1.32, and a node changed. Before such an event wakes a pod there, the pod's requests are held against
  what the kubelet offers, and among them are amounts (``nvidia.com/gpumem``) that no kubelet does.

A change of the pod itself wakes it in every version, so an annotation of it is changed, if something fits it now.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import HamiError, KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.kube.informer import Informer
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import PodRequest

log = structlog.get_logger(__name__)

NODE_EVENTS_RETRY_SINCE: Final = (1, 32)
"""Kubernetes version from which changes of nodes wake pods."""
INFORMER_LAG_S: Final = 10.0
"""How much earlier than we kube-scheduler may see an event."""
COALESCE_S: Final = 0.5
"""Changes that come together are one."""
SEARCH_PAUSE_RATIO: Final = 9
"""After looking for places it does not look again for so many times as long: requests are served meanwhile."""
BATCH_PAUSE_S: Final = 5.0
"""Between pods woken and the next."""
BATCH_PODS: Final = 256
"""Pods woken in one go: those refused first. Others have their turn in the next, if something fits them still."""

_NO_REFUSALS: Final = float("inf")
_ALL_REFUSALS: Final = float("-inf")


@dataclass(frozen=True)
class Refusal:
    """When a pod was refused last (monotonic seconds), and what it asks for."""

    at: float
    request: PodRequest

    @cached_property
    def shape(self) -> str:
        """The same for all pods that fit on the same nodes."""
        return repr(replace(self.request, uid="", name=""))


class RefusedPodRetry:
    """See the module's text.

    Args:
        api: The Kubernetes API.
        pods: All pods.
        asks: Whether a pod asks for devices.
        request: What a pod asks for; raises HamiError where that can't be read.
        fits: Whether something in the cluster fits it now.
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
        """Whether kube-scheduler hears of nodes; known with the cluster's version."""
        self._api = api
        self._asks = asks
        self._request = request
        self._fits = fits
        self._clock = clock
        self._unix = unix
        self._waiting: dict[str, Pod] = {}
        self._refused: dict[str, Refusal] = {}  # by us; oldest first
        self._since = _NO_REFUSALS  # pods refused later than this are due
        self._searched_s = 0.0  # of late
        self._event = asyncio.Event()
        pods.on_change(self._see)

    def refused(self, request: PodRequest) -> None:
        """Filter found no node for a pod."""
        self._refused.pop(request.uid, None)
        self._refused[request.uid] = Refusal(self._clock(), request)

    def placed(self, uid: str) -> None:
        """Filter found one."""
        self._refused.pop(uid, None)

    def pod_ended(self) -> None:
        """A pod ended: kube-scheduler hears of it too, but may have asked before we did."""
        self._retry_since(self._clock() - INFORMER_LAG_S)

    def node_changed(self) -> None:
        """A node may fit a pod that it did not fit before."""
        self._retry_since(self._clock() - INFORMER_LAG_S if self.node_events_retry else _ALL_REFUSALS)

    def retry_refused(self) -> None:
        """There may be room of which kube-scheduler does not hear."""
        self._retry_since(_ALL_REFUSALS)

    @property
    def is_busy(self) -> bool:
        """Whether pods are still to be looked at for something that was told."""
        return self._event.is_set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        while True:
            await self._event.wait()
            await asyncio.sleep(max(COALESCE_S, SEARCH_PAUSE_RATIO * self._searched_s))
            self._searched_s = 0.0
            since, self._since = self._since, _NO_REFUSALS
            woken = await self._retry_due(since)
            if self._since == _NO_REFUSALS:
                self._event.clear()
            if woken:
                await asyncio.sleep(BATCH_PAUSE_S)

    def _retry_since(self, since: float) -> None:
        self._since = min(self._since, since)
        self._event.set()

    async def _retry_due(self, since: float) -> bool:
        """Wake those that something fits; False: there are none. Nothing fits a shape twice."""
        hopeless: set[str] = set()
        woken = 0
        for refusal in self._due(since):
            pod = self._waiting.get(refusal.request.uid)
            if pod is None or refusal.shape in hopeless:
                continue
            if not self._has_place(refusal.request):
                hopeless.add(refusal.shape)
                await asyncio.sleep(0)
                continue
            await self._retry(pod)
            woken += 1
            if woken % BATCH_PODS == 0:
                await asyncio.sleep(BATCH_PAUSE_S)
                hopeless.clear()
        return woken > 0

    def _has_place(self, request: PodRequest) -> bool:
        began = self._clock()
        found = self._fits(request)
        self._searched_s += self._clock() - began
        return found

    def _due(self, since: float) -> list[Refusal]:
        """Refusals since then, by kube-scheduler itself too where that is for ever."""
        due = []
        now = self._clock()
        for uid, refusal in list(self._refused.items()):
            if uid not in self._waiting and now - refusal.at > INFORMER_LAG_S:
                del self._refused[uid]  # gone before it was seen
            elif refusal.at >= since:
                due.append(refusal)
                if uid not in self._waiting:
                    self._retry_since(since)  # not seen yet
        if since == _ALL_REFUSALS:
            for uid, pod in self._waiting.items():
                if uid not in self._refused and _was_refused(pod):
                    with suppress(HamiError):  # told by Filter
                        due.append(Refusal(now, self._request(pod)))
        return due

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
                "a pod that waits was not woken, kube-scheduler looks again later", pod=pod.key, error=str(error)
            )


def _was_refused(pod: Pod) -> bool:
    """Whether kube-scheduler has looked at the pod and found no node for it."""
    seen = pod.condition("PodScheduled")
    return seen is not None and seen.status == "False"
