"""The agent's actions on pods: it writes events, annotates pods to make the kubelet retry, and deletes pods."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.agent.mig_ids import MigIds
from hami_core.kube.events import reference
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from hami_core.agent.bind_finisher import BindFinisher
    from hami_core.agent.kubelet import Endpoint
    from hami_core.kube.events import EventRecorder
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import MigInstance

log = structlog.get_logger(__name__)

TOUCH_KEY: Final = "hami.io/agent-retry"
"""Pod annotation. A change of it makes the kubelet retry at once, after a refused container may start."""
MISFIT_S: Final = 30.0
"""A pod with a controller that does not fit for this long is deleted. Its controller then makes another pod."""


class PodActions:
    """Implements the reconciler's `Actions`.

    Args:
        api: The Kubernetes API.
        recorder: Writes events.
        endpoints: Endpoints by resource, for nudges. The caller adds to this mapping later.
        finisher: Finishes Binds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        recorder: EventRecorder,
        endpoints: Mapping[str, Endpoint],
        finisher: BindFinisher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.evicted = 0
        self._api = api
        self._recorder = recorder
        self._endpoints = endpoints
        self._finisher = finisher
        self._mig_ids = MigIds(api)
        self._clock = clock
        self._misfits: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def report_refusal(self, pod: Pod, container: str, reason: str) -> None:
        """Write the reason as an event on the pod."""
        self.warn(pod, "DevicesRefused", f"container {container}: {reason}")

    def warn(self, pod: Pod, reason: str, message: str) -> None:
        """Write a warning event on a pod."""
        log.warning("pod", pod=pod.key, uid=pod.uid, reason=reason, text=message)
        self._recorder.record(reference("Pod", pod), "Warning", reason, message)

    def retry_refused(self, pod: Pod) -> None:
        """Annotate the pod, which makes the kubelet retry."""
        self._misfits.pop(pod.uid, None)
        self._spawn(self._touch(pod))

    def nudge(self, resource: str) -> None:
        """Send the list of slots to the kubelet again."""
        endpoint = self._endpoints.get(resource)
        if endpoint:
            endpoint.offer.nudge()

    def report_misfit(self, pod: Pod) -> None:
        """Delete a pod that has not fitted for `MISFIT_S`, if a controller will replace it."""
        now = self._clock()
        if len(self._misfits) > 1000:
            self._misfits = {uid: at for uid, at in self._misfits.items() if now - at < 10 * MISFIT_S}
        since = self._misfits.setdefault(pod.uid, now)
        controlled = any(owner.controller for owner in pod.metadata.owner_references)
        if now - since >= MISFIT_S and controlled and not pod.is_deleting:
            self._misfits[pod.uid] = now
            self.evict(pod, "its allocation does not fit on this node")

    def is_awaited(self, pod: Pod) -> bool:
        """See `BindFinisher`."""
        return self._finisher.is_awaited(pod)

    def finish_bind(self, pod: Pod, *, well: bool) -> None:
        """See `BindFinisher.finish`."""
        self._finisher.finish(pod, well=well)

    def evict(self, pod: Pod, why: str) -> None:
        """Delete this pod, by its UID, and give the reason in an event."""
        self.warn(pod, "DevicesEvicted", f"deleted: {why}")
        self.evicted += 1
        self._spawn(self._delete(pod))

    def tell_instances(self, pod: Pod, made: Mapping[str, tuple[MigInstance, ...]]) -> None:
        """See `MigIds.write`."""
        self._mig_ids.write(pod, made)

    async def _touch(self, pod: Pod) -> None:
        await self._annotate(pod, {TOUCH_KEY: wall.now().isoformat(timespec="milliseconds")})

    async def _annotate(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        try:
            patch = metadata_patch(annotations=dict(annotations), uid=pod.uid)
            await self._api.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)
        except ApiError as error:
            log.info("can't annotate a pod", pod=pod.key, error=str(error))

    async def _delete(self, pod: Pod) -> None:
        try:
            await self._api.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.uid)
        except ApiError as error:
            log.warning("can't delete a pod", pod=pod.key, error=str(error))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
