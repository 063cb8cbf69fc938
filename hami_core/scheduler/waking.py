"""Makes kube-scheduler before 1.32 look again at pods that wait for devices, when a node has changed to their good.

Before an event of a node wakes a pod, it checks whether the pod's requests fit there, and among them are amounts
(``nvidia.com/gpumem``) that no kubelet offers: so no node ever wakes such a pod, whoever refused it, and it waits for
up to five minutes. A change of the pod itself does wake it, so an annotation of it is changed. From 1.32 on nodes'
events wake every pod that an extender refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.kube.informer import Informer
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

log = structlog.get_logger(__name__)

NODES_WAKE_SINCE: Final = (1, 32)
"""Kubernetes version from which nobody has to be woken."""
GATHER_S: Final = 0.5
"""Changes that come together are one."""
PAUSE_S: Final = 5.0
"""Between two rounds at least."""
AT_ONCE: Final = 256
"""Pods woken in one round: those nothing was heard of for longest. Others have their turn in the next."""


class Waker:
    """See the module's text.

    Args:
        api: The Kubernetes API.
        pods: All pods.
        asks: Whether a pod asks for devices.
        unix: Unix seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        pods: Informer[Pod],
        asks: Callable[[Pod], bool],
        *,
        unix: Callable[[], float] = wall.unix,
    ) -> None:
        self.is_needed = False
        """Whether kube-scheduler has to be helped; known with the cluster's version."""
        self._api = api
        self._asks = asks
        self._unix = unix
        self._waiting: dict[str, Pod] = {}
        self._event = asyncio.Event()
        pods.on_change(self._see)

    def changed(self) -> None:
        """A node may fit a pod that it did not fit before."""
        self._event.set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        while True:
            await self._event.wait()
            await asyncio.sleep(GATHER_S)
            self._event.clear()
            due = list(self._waiting) if self.is_needed else []
            for start in range(0, len(due), AT_ONCE):
                for uid in due[start : start + AT_ONCE]:
                    if pod := self._waiting.get(uid):
                        await self._wake(pod)
                await asyncio.sleep(PAUSE_S)

    def _see(self, old: Pod | None, pod: Pod | None) -> None:
        if old is not None:
            self._waiting.pop(old.uid, None)
        if pod is not None and _was_refused(pod) and self._asks(pod):
            self._waiting[pod.uid] = pod

    async def _wake(self, pod: Pod) -> None:
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
    return (
        seen is not None and seen.status == "False" and not (pod.spec.node_name or pod.is_terminal or pod.is_deleting)
    )
