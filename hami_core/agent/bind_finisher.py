"""Finishes a Bind: removes HAMi's node lock and sets the pod's bind phase, so that the next pod can be bound.

If a pod has devices of several vendors, each node plugin empties its own to-allocate list. The last one finishes.

HAMi's scheduler locks the node before it binds a pod, and binds no other pod there until the node plugin removes the
lock (HAMi's ``pkg/util/nodelock``). Our scheduler waits for the phase, on nodes in serial mode. The pods to finish are
found on the pod and node objects, so a restarted agent also finishes Binds that happened while it was down.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.errors import WireError
from hami_core.kube.informer import Backoff
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS, ApiError
from hami_core.vendorkit.locks import may_release, parse_lock
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core.kube.objects import Node, Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import Family

log = structlog.get_logger(__name__)

_LISTS: Final = ("hami.io/", "-to-allocate")
"""Prefix and suffix of HAMi's annotations with the devices that a node plugin still has to give."""


class BindFinisher:
    """Finishes Binds as HAMi's device plugin does.

    Args:
        api: The Kubernetes API.
        node: Returns the node object as last seen.
        families: The families that this agent serves.
    """

    def __init__(self, api: KubeApi, node: Callable[[], Node | None], families: Iterable[Family]) -> None:
        self._api = api
        self._node = node
        self._own_lists = {family.to_allocate_key for family in families}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def is_awaited(self, pod: Pod) -> bool:
        """Whether a scheduler waits for this pod, and something is left for us to write."""
        if pod.uid in self._under_way:
            return False
        if self._holds_lock(pod):
            return bool(self._open_lists(pod, own=True)) or not self._open_lists(pod, own=False)
        return _is_allocating(pod)

    def finish(self, pod: Pod, *, well: bool) -> None:
        """Start to finish a pod's Bind; retried until it is written. Does not block."""
        if pod.uid not in self._under_way:
            task = asyncio.ensure_future(self._finish(pod, well=well))
            self._under_way[pod.uid] = task
            task.add_done_callback(lambda _: self._under_way.pop(pod.uid, None))

    async def _finish(self, pod: Pod, *, well: bool) -> None:
        """Release the lock, then set the phase.

        The phase comes last: while it is ``allocating``, a restarted agent finishes the pod again.
        """
        backoff = Backoff(0.5, 30)
        while True:
            try:
                if well and self._holds_lock(pod) and self._open_lists(pod, own=False):
                    await self._annotate(pod, self._emptied(pod))  # another plugin finds the pod by the lock
                else:
                    await self._release(pod)
                    await self._mark(pod, well=well)
            except ApiError as error:
                wait = max(backoff.next(), error.retry_after_s)
                log.warning(
                    "can't finish a pod's bind; retrying", pod=pod.key, error=str(error), retry_s=round(wait, 2)
                )
                await asyncio.sleep(wait)
            else:
                log.info("a pod's bind is finished", pod=pod.key, well=well)
                return

    async def _release(self, pod: Pod) -> None:
        """Remove the lock if it is this pod's. A lock of the older form names no pod and belongs to the last Bind."""
        node, meta = self._node(), pod.metadata
        if node is None:
            return
        text = node.metadata.annotations.get(keys.NODE_LOCK)
        if may_release(text, namespace=meta.namespace, pod=meta.name):
            patch = metadata_patch(annotations={keys.NODE_LOCK: None}, resource_version=node.metadata.resource_version)
            await self._api.patch(NODES, node.metadata.name, patch)

    async def _mark(self, pod: Pod, *, well: bool) -> None:
        if not _is_allocating(pod):
            return
        phase = keys.PHASE_SUCCESS if well else keys.PHASE_FAILED
        await self._annotate(pod, {keys.BIND_PHASE: phase} | (self._emptied(pod) if well else {}))

    async def _annotate(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        patch = metadata_patch(annotations=annotations, uid=pod.uid)
        try:
            await self._api.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)
        except ApiError as error:
            if error.status not in {404, 409, 422}:  # the pod is gone, or another pod has its name
                raise

    def _holds_lock(self, pod: Pod) -> bool:
        node = self._node()
        text = node.metadata.annotations.get(keys.NODE_LOCK) if node is not None else None
        if text is None:
            return False
        try:
            return parse_lock(text).held_by(pod.metadata.namespace, pod.metadata.name)
        except WireError:
            return False

    def _open_lists(self, pod: Pod, *, own: bool) -> set[str]:
        """Keys of our lists, or of other plugins' lists, with devices that the kubelet has not asked for yet."""
        start, end = _LISTS
        found = {key for key, text in pod.metadata.annotations.items() if "," in text}
        lists = {key for key in found if key.startswith(start) and key.endswith(end)}
        return found & self._own_lists if own else lists - self._own_lists

    def _emptied(self, pod: Pod) -> dict[str, str | None]:
        """Our lists without devices, as HAMi's plugin leaves its own."""
        there = pod.metadata.annotations
        return {key: ";" * there[key].count(";") for key in self._own_lists & there.keys()}


def _is_allocating(pod: Pod) -> bool:
    return not pod.is_terminal and pod.metadata.annotations.get(keys.BIND_PHASE) == keys.PHASE_ALLOCATING
