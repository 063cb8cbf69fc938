"""Node locks for vendors whose own node plugin needs them; taken after the booking, released by their plugin."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import KubeError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS, ApiError
from hami_core.scheduler import pods
from hami_core.scheduler.errors import UnsettledError
from hami_core.vendorkit.locks import (
    CAMBRICON_LOCK_TIMEOUT,
    NODE_LOCK_TIMEOUT,
    LockVerdict,
    contention_text,
    format_lock,
    format_time_lock,
    judge_lock,
    may_release,
    parse_lock,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hami_core.kube.objects import Node, Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import PodRequest
    from hami_core.plugins import Loaded

log = structlog.get_logger(__name__)

RETRY_S: Final = 0.1


class NodeLocks:
    """Takes and gives back the locks.

    Args:
        api: The Kubernetes API.
        loaded: Says which locks a pod's vendors need.
        wait_s: How long a pod waits for a lock others hold, 0: not at all; at most the extender's time-out less 5 s.
        expiry_s: Age from which a lock counts as left behind.
        wall_clock: Now, with zone: the locks hold times.
    """

    def __init__(
        self,
        api: KubeApi,
        loaded: Loaded,
        *,
        wait_s: float = 0.0,
        expiry_s: float = NODE_LOCK_TIMEOUT.total_seconds(),
        wall_clock: Callable[[], datetime] = wall.now,
    ) -> None:
        self._api = api
        self._loaded = loaded
        self._wait_s = wait_s
        self._expiry = timedelta(seconds=expiry_s)
        self._now = wall_clock

    @asynccontextmanager
    async def taken(self, node: str, pod: Pod, wanted: PodRequest) -> AsyncIterator[None]:
        """Hold the locks the pod's vendors need; they stay when the block succeeds and go when it raises.

        Raises:
            KubeError: Another pod holds one (retryable), or the API server refused.
        """
        locks = self._loaded.lock_annotations(node, pods.facts(pod), wanted.families)
        held: list[str] = []
        try:
            for key, protocol in sorted(locks.items()):
                await self._take(node, pod, key, protocol)
                held.append(key)
            yield
        except UnsettledError:
            raise  # the node plugin may be about to need them; else they run out
        except BaseException:
            for key in reversed(held):
                await self._release(node, pod, key)
            raise

    async def _take(self, node: str, pod: Pod, key: str, protocol: str) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait_s
        while not await self._try(node, pod, key, protocol):
            if loop.time() >= end:
                raise KubeError(f"lock {node}", 0, contention_text(node, self._expiry), retryable=True)
            await asyncio.sleep(RETRY_S)

    async def _try(self, node: str, pod: Pod, key: str, protocol: str) -> bool:
        found = await self._api.get(NODES, node)
        text = found.metadata.annotations.get(key)
        now = self._now()
        verdict = judge_lock(
            text,
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            now=now,
            holder_exists=await self._holder_exists(text, key),
            timeout=CAMBRICON_LOCK_TIMEOUT if protocol == "time" else self._expiry,
            key=key,
        )
        if verdict is LockVerdict.OURS:
            return True
        if verdict is LockVerdict.CONTENDED:
            return False
        ours = (
            format_time_lock(now) if protocol == "time" else format_lock(now, pod.metadata.namespace, pod.metadata.name)
        )
        return await self._patch(found, key, ours)

    async def _holder_exists(self, text: str | None, key: str) -> bool:
        """Whether the pod named in a lock exists and has not ended."""
        if text is None or "," not in text:
            return True
        lock = parse_lock(text, key=key)
        try:
            holder = await self._api.get(PODS, lock.pod, lock.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return not holder.is_terminal

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
