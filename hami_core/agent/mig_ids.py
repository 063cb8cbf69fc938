"""Writes the ids of MIG instances into pods' annotation ``hami.io/vgpu-mig-allocations``, as HAMi's device plugin does.

The ids are for people, dashboards and the scheduler's metrics. The agent never reads them: which instance belongs to
which container is in its records, and in the vendor's intents. So a pod's containers start, and stay, without them.
The scheduler's signature does not cover the ids (`hami_core.wire.signature`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.errors import WireError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS, ApiError
from hami_core.wire import keys
from hami_core.wire.mig import with_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import MigInstance

log = structlog.get_logger(__name__)

RETRY_S: Final = 5.0
"""Shortest interval between two attempts for one pod, after a failure."""


class MigIds:
    """See the module's text.

    Args:
        api: The Kubernetes API.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._next: dict[str, tuple[Pod, Mapping[str, tuple[MigInstance, ...]]]] = {}

    def write(self, pod: Pod, made: Mapping[str, tuple[MigInstance, ...]]) -> None:
        """Start to write a pod's ids, unless it has them. The caller repeats this until it does. Does not block.

        Args:
            pod: The pod as last seen.
            made: The instances of each container, by name.
        """
        if pod.uid in self._under_way:
            self._next[pod.uid] = pod, made  # the write under way may fail because the pod has changed
            return
        before = pod.metadata.annotations.get(keys.MIG_ALLOCATIONS, "")
        positions = {container.name: at for at, (_, container) in enumerate(pod.containers())}
        try:
            after = with_ids(before, {positions[name]: own for name, own in made.items() if name in positions})
        except WireError as error:
            log.debug("a pod's MIG reservations were changed; its ids are not written", pod=pod.key, error=str(error))
            return
        if after != before:
            task = asyncio.ensure_future(self._write(pod, after))
            self._under_way[pod.uid] = task
            task.add_done_callback(lambda done: self._ended(pod.uid, done))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        waiting = self._next.pop(uid, None)
        if waiting is not None and not task.cancelled():
            self.write(*waiting)

    async def _write(self, pod: Pod, text: str) -> None:
        meta = pod.metadata
        # The version is a precondition: a reservation that somebody else writes meanwhile is not lost.
        patch = metadata_patch(
            annotations={keys.MIG_ALLOCATIONS: text}, uid=pod.uid, resource_version=meta.resource_version
        )
        try:
            await self._api.patch(PODS, meta.name, patch, meta.namespace)
        except ApiError as error:
            if error.status not in {404, 409, 422}:  # the pod is gone or has changed, and the next pass sees that
                log.warning("can't write the ids of a pod's MIG instances; retrying", pod=pod.key, error=str(error))
                await asyncio.sleep(max(RETRY_S, error.retry_after_s))
        else:
            log.info("the ids of a pod's MIG instances are written", pod=pod.key)
