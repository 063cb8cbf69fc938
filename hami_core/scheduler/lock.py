"""Node locks that node plugins other than our agent need; taken after the booking, released by the plugin.

Such a plugin answers the kubelet with the devices of the pod that its node's lock names. A vendor without an agent of
ours names its locks itself (`lock_annotations`). A vendor with one has them on nodes where that agent never was: every
agent of ours labels its node (`hami_core.wire.keys.agent_label`) before it registers a device, and the label stays when
the agent stops.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS, ApiError
from hami_core.scheduler import pods
from hami_core.scheduler.errors import BindRefusedError, UnknownOutcomeError
from hami_core.vendorkit.locks import (
    NODE_LOCK_TIMEOUT,
    PROTOCOL_HAMI,
    PROTOCOL_TIME,
    LockVerdict,
    contention_text,
    format_lock,
    format_time_lock,
    judge_lock,
    may_release,
    parse_lock,
)
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hami_core.kube.objects import Node, Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import PodRequest
    from hami_core.scheduler.cluster import Cluster

log = structlog.get_logger(__name__)

RETRY_S: Final = 0.1
ASK_EVERY: Final = 10
"""While the informer shows the lock held, one look in so many asks the API server."""


class NodeLocks:
    """Takes and gives back the locks.

    Args:
        api: The Kubernetes API.
        cluster: Nodes, pods and vendors as known.
        wait_s: How long a pod waits for a lock others hold, 0: not at all; at most the extender's time-out less 5 s.
        expiry_s: Age from which a lock counts as left behind.
        wall_clock: Now, with zone: the locks hold times.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: Cluster,
        *,
        wait_s: float = 0.0,
        expiry_s: float = NODE_LOCK_TIMEOUT.total_seconds(),
        wall_clock: Callable[[], datetime] = wall.now,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._wait_s = wait_s
        self._expiry = timedelta(seconds=expiry_s)
        self._now = wall_clock

    @asynccontextmanager
    async def taken(self, node: str, pod: Pod, wanted: PodRequest) -> AsyncIterator[bool]:
        """Hold the locks the pod's vendors need; they stay when the block succeeds and go when it raises.

        Yields:
            Whether there are any: a plugin that is not ours is to finish the pod.

        Raises:
            BindRefusedError: Another pod holds one; kube-scheduler tries again.
            KubeError: The API server refused.
        """
        held: list[str] = []
        try:
            for key, protocol in sorted(self._needed(node, pod, wanted).items()):
                await self._take(node, pod, key, protocol)
                held.append(key)
            yield bool(held)
        except UnknownOutcomeError:
            raise  # the node plugin may be about to need them; else they run out
        except BaseException:
            for key in reversed(held):
                await self._release(node, pod, key)
            raise

    def _needed(self, node: str, pod: Pod, wanted: PodRequest) -> dict[str, str]:
        """Key → protocol: what vendors say they need, and the locks of HAMi's plugins where our agent never was."""
        loaded = self._cluster.loaded
        locks = loaded.lock_annotations(node, pods.facts(pod), wanted.families)
        found = self._cluster.nodes.store.get(node)
        labels = found.metadata.labels if found is not None else {}
        for vendor in loaded.serving(wanted.families):
            if keys.agent_label(vendor.name) not in labels:
                foreign = {family.foreign_lock for family in vendor.families if family.word in wanted.families}
                locks |= dict.fromkeys(foreign - {""}, PROTOCOL_HAMI)
        return locks

    async def _take(self, node: str, pod: Pod, key: str, protocol: str) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait_s
        for look in count():
            if (look % ASK_EVERY == 0 or self._looks_free(node, pod, key)) and await self._try(
                node, pod, key, protocol
            ):
                return
            if loop.time() >= end:
                raise BindRefusedError(contention_text(node, self._expiry) + self._held_for(node, key))
            await asyncio.sleep(RETRY_S)

    def _held_for(self, node: str, key: str) -> str:
        found = self._cluster.nodes.store.get(node)
        holder = _holder_key(found.metadata.annotations.get(key), key) if found is not None else ""
        return f" (pod {holder} waits for its devices; this pod is tried again)" if holder else ""

    def _looks_free(self, node: str, pod: Pod, key: str) -> bool:
        """Whether the lock is worth a request, by what the informers show: many pods may wait for long."""
        found = self._cluster.nodes.store.get(node)
        if found is None:
            return True
        holder = self._cluster.pods.store.get(_holder_key(found.metadata.annotations.get(key), key))
        return self._judge(found, holder, pod, key) is not LockVerdict.CONTENDED

    async def _try(self, node: str, pod: Pod, key: str, protocol: str) -> bool:
        found = await self._api.get(NODES, node)
        holder = await self._read_holder(found, key)
        verdict = self._judge(found, holder, pod, key)
        if verdict is LockVerdict.OURS:
            return True
        if verdict is LockVerdict.CONTENDED:
            return False
        now, meta = self._now(), pod.metadata
        ours = format_time_lock(now) if protocol == PROTOCOL_TIME else format_lock(now, meta.namespace, meta.name)
        return await self._patch(found, key, ours)

    def _timeout(self, key: str) -> timedelta:
        """Age from which a lock counts as left behind: as its vendor says, else as the administrator does."""
        families = self._cluster.loaded.families.values()
        said = (family.lock_timeouts_s[key] for family in families if key in family.lock_timeouts_s)
        return timedelta(seconds=next(said, self._expiry.total_seconds()))

    def _judge(self, node: Node, holder: Pod | None, pod: Pod, key: str) -> LockVerdict:
        return judge_lock(
            node.metadata.annotations.get(key),
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            now=self._now(),
            holder_exists=_may_need_lock(holder, node.metadata.name),
            timeout=self._timeout(key),
            key=key,
        )

    async def _read_holder(self, node: Node, key: str) -> Pod | None:
        """The pod named in a lock as the API server has it; None: it is gone, or the lock names none."""
        holder = _holder_key(node.metadata.annotations.get(key), key)
        if not holder:
            return None
        namespace, _, name = holder.partition("/")
        try:
            return await self._api.get(PODS, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _patch(self, node: Node, key: str, value: str | None) -> bool:
        patch = metadata_patch(annotations={key: value}, resource_version=node.metadata.resource_version)
        try:
            await self._api.patch(NODES, node.metadata.name, patch)
        except ApiError as error:
            if error.status == 409 or error.is_unknown_outcome:
                return False  # read again: it may be ours by now
            raise
        return True

    async def _release(self, node: str, pod: Pod, key: str) -> None:
        try:
            found = await self._api.get(NODES, node)
            text = found.metadata.annotations.get(key)
            if may_release(text, namespace=pod.metadata.namespace, pod=pod.metadata.name):
                await self._patch(found, key, None)
        except KubeError as error:
            log.warning("a node lock was not released and will run out", node=node, pod=pod.key, error=str(error))


def _holder_key(text: str | None, key: str) -> str:
    """``namespace/name`` of the pod that a lock names; empty: none.

    Raises:
        WireError: The lock is malformed.
    """
    if text is None or "," not in text:
        return ""
    lock = parse_lock(text, key=key)
    return f"{lock.namespace}/{lock.pod}"


def _may_need_lock(holder: Pod | None, node: str) -> bool:
    """Whether a node's plugin may still be asked for the devices of the pod that holds the lock."""
    return holder is not None and not holder.is_terminal and holder.spec.node_name in {"", node}
