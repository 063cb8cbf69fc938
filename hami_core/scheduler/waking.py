"""Makes kube-scheduler before 1.32 look again at pods our Filter refused, when a node has changed to their good.

Before an event of a node wakes a pod, it checks whether the pod's requests fit there, and among them are amounts
(``nvidia.com/gpumem``) that no kubelet offers: so no node ever wakes such a pod, which then waits for up to five
minutes. A change of the pod itself does wake it, so an annotation of it is changed. From 1.32 on nodes' events wake
every pod that an extender refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

log = structlog.get_logger(__name__)

NODES_WAKE_SINCE: Final = (1, 32)
"""Kubernetes version from which nobody has to be woken."""
REMEMBERED: Final = 4096
GATHER_S: Final = 0.5
"""Changes that come together are one."""
PAUSE_S: Final = 5.0
"""Between two rounds at least."""
AT_ONCE: Final = 256
"""Pods woken in one round: those refused first. Others have their turn in the next."""


class Waker:
    """See the module's text.

    Args:
        api: The Kubernetes API.
        find: A pod as it is known by ``namespace/name``, or None.
        unix: Unix seconds.
    """

    def __init__(
        self, api: KubeApi, find: Callable[[str], Pod | None], *, unix: Callable[[], float] = wall.unix
    ) -> None:
        self.is_needed = False
        """Whether kube-scheduler has to be helped; known with the cluster's version."""
        self._api = api
        self._find = find
        self._unix = unix
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._event = asyncio.Event()

    def refused(self, pod: Pod) -> None:
        """Filter found no node for a pod."""
        self._refused[pod.uid] = pod.key
        while len(self._refused) > REMEMBERED:
            self._refused.popitem(last=False)

    def placed(self, uid: str) -> None:
        """Filter found a node for a pod."""
        self._refused.pop(uid, None)

    def changed(self) -> None:
        """A node may fit a pod that it did not fit before."""
        self._event.set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        while True:
            await self._event.wait()
            await asyncio.sleep(GATHER_S)
            self._event.clear()
            if not (self.is_needed and self._refused):
                continue
            for _ in range(min(AT_ONCE, len(self._refused))):
                if not self._refused:
                    break  # placed meanwhile
                uid, key = self._refused.popitem(last=False)
                await self._wake(uid, key)
            if self._refused:
                self._event.set()
            await asyncio.sleep(PAUSE_S)

    async def _wake(self, uid: str, key: str) -> None:
        pod = self._find(key)
        if pod is None or pod.uid != uid or pod.spec.node_name or pod.is_terminal or pod.is_deleting:
            return
        patch = metadata_patch(annotations={keys.SCHEDULING_RETRY: f"{self._unix():.3f}"}, uid=uid)
        try:
            await self._api.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)
        except KubeError as error:
            log.warning("a pod that waits was not woken, kube-scheduler looks again later", pod=key, error=str(error))
