"""Node locks for node plugins other than our agent. Bind takes them after the booking; the plugin releases them.

Such a plugin serves one pod at a time, and the lock keeps other pods away meanwhile. A family names the lock in
`Family.foreign_lock`. It is taken only on nodes where our agent never ran. There the agent's label is missing: each
agent labels its node before it registers a device (`hami_core.wire.keys.agent_label`), and the label stays when the
agent stops. A vendor that needs other locks names them by the hook `lock_annotations`.
"""

from __future__ import annotations

import asyncio
import re
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
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from hami_core.kube.objects import Node, Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import Family, PodRequest
    from hami_core.scheduler.cluster import Cluster

log = structlog.get_logger(__name__)

RETRY_S: Final = 0.1
ASK_EVERY: Final = 10
"""While the informer shows the lock as held, only one attempt in so many asks the API server."""
CLOCK_SKEW_S: Final = 60
"""By how much the clock of another replica, which bound a pod, may be ahead."""
_UNIX_SECONDS: Final = re.compile(r"[0-9]{1,12}")


class NodeLocks:
    """Takes and gives back the locks.

    Args:
        api: The Kubernetes API.
        cluster: The local copy of nodes, pods and vendors.
        wait_s: How long a pod waits for a lock of another pod; 0: not at all. At most the extender's time-out less 5 s.
        expiry_s: Age from which a lock counts as abandoned.
        wall_clock: The present time with its zone, since locks contain times.
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
        """Take the locks that the pod's vendors need. They stay if the block succeeds, and are released if it raises.

        Yields:
            Whether there are any. If so, a plugin that is not ours finishes the pod.

        Raises:
            BindRefusedError: Another pod holds a lock; kube-scheduler tries again.
            KubeError: The API server refused.
        """
        held: list[str] = []
        try:
            for key, protocol in sorted(self._needed(node, pod, wanted).items()):
                await self._take(node, pod, key, protocol)
                held.append(key)
            yield bool(held)
        except UnknownOutcomeError:
            raise  # the pod may be bound and its plugin may need the locks; otherwise they expire
        except BaseException:
            for key in reversed(held):
                await self._release(node, pod, key)
            raise

    def _needed(self, node: str, pod: Pod, wanted: PodRequest) -> dict[str, str]:
        """Lock annotation → protocol: locks that vendors name, and other plugins' locks where our agent never ran."""
        loaded = self._cluster.loaded
        locks = loaded.lock_annotations(node, pods.facts(pod), wanted.families)
        found = self._cluster.nodes.store.get(node)
        labels = found.metadata.labels if found is not None else {}
        for vendor in loaded.serving(wanted.families):
            if keys.agent_label(vendor.name) not in labels:
                asked = [family for family in vendor.families if family.word in wanted.families]
                locks |= {f.foreign_lock: f.foreign_lock_protocol for f in asked if f.foreign_lock}
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
                raise BindRefusedError(contention_text(node, self._timeout(key)) + self._held_for(node, pod, key))
            await asyncio.sleep(RETRY_S)

    def _held_for(self, node: str, pod: Pod, key: str) -> str:
        found = self._cluster.nodes.store.get(node)
        if found is None:
            return ""
        holder = _holder_key(found.metadata.annotations.get(key), key) or self._unfinished(found, pod, key)
        return f" (pod {holder} waits for its devices; this pod is tried again)" if holder else ""

    def _unfinished(self, node: Node, pod: Pod, key: str) -> str:
        """Key of another pod that one of HAMi's plugins still has to serve on the node; empty: there is none.

        HAMi's Ascend plugin removes the lock after a pod's first container. Between its calls for two containers, it
        would take a pod that holds the lock by then for the one to serve. It empties its list of a pod's devices
        container by container, so the list shows whether one is left.
        """
        foreign = [v for v in self._cluster.loaded.vendors if keys.agent_label(v.name) not in node.metadata.labels]
        served = [
            f for v in foreign for f in v.families if (f.foreign_lock, f.foreign_lock_protocol) == (key, PROTOCOL_HAMI)
        ]
        now = self._now().timestamp()
        recent = range(int(now - self._timeout(key).total_seconds()), int(now) + CLOCK_SKEW_S)
        for booking in self._cluster.inventory.bookings_on(node.metadata.name):
            other = self._cluster.pods.store.get(f"{booking.namespace}/{booking.name}")
            if other is not None and other.uid == booking.uid != pod.uid and _is_being_served(other, served, recent):
                return other.key
        return ""

    def _looks_free(self, node: str, pod: Pod, key: str) -> bool:
        """Whether the informers show the lock as free. This saves requests while many pods wait."""
        found = self._cluster.nodes.store.get(node)
        if found is None:
            return True
        holder = self._cluster.pods.store.get(_holder_key(found.metadata.annotations.get(key), key))
        is_held = self._judge(found, holder, pod, key) is LockVerdict.CONTENDED
        return not is_held and not self._unfinished(found, pod, key)

    async def _try(self, node: str, pod: Pod, key: str, protocol: str) -> bool:
        found = await self._api.get(NODES, node)
        holder = await self._read_holder(found, key)
        verdict = self._judge(found, holder, pod, key)
        if verdict is LockVerdict.OURS:
            return True
        if verdict is LockVerdict.CONTENDED or self._unfinished(found, pod, key):
            return False
        now, meta = self._now(), pod.metadata
        ours = format_time_lock(now) if protocol == PROTOCOL_TIME else format_lock(now, meta.namespace, meta.name)
        return await self._patch(found, key, ours)

    def _timeout(self, key: str) -> timedelta:
        """Age from which a lock counts as abandoned: the vendor's, or else the administrator's."""
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
        """Read the pod that a lock names from the API server; None: the pod is gone, or the lock names none."""
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
                return False  # read it again, since it may be ours by now
            raise
        return True

    async def _release(self, node: str, pod: Pod, key: str) -> None:
        try:
            found = await self._api.get(NODES, node)
            text = found.metadata.annotations.get(key)
            if may_release(text, namespace=pod.metadata.namespace, pod=pod.metadata.name):
                await self._patch(found, key, None)
        except KubeError as error:
            log.warning("a node lock was not released, it will expire", node=node, pod=pod.key, error=str(error))


def _holder_key(text: str | None, key: str) -> str:
    """``namespace/name`` of the pod that a lock names; empty: it names none.

    Raises:
        WireError: The lock is malformed.
    """
    if text is None or "," not in text:
        return ""
    lock = parse_lock(text, key=key)
    return f"{lock.namespace}/{lock.pod}"


def _is_being_served(pod: Pod, families: Iterable[Family], recent: range) -> bool:
    """Whether a pod was bound in a span of Unix seconds, and a list that its plugin consumes still names devices."""
    found = pod.metadata.annotations
    bound = found.get(keys.BIND_TIME, "")
    waits = pod.status.phase == "Pending" and found.get(keys.BIND_PHASE) != keys.PHASE_FAILED
    is_recent = _UNIX_SECONDS.fullmatch(bound) is not None and int(bound) in recent
    return bool(pod.spec.node_name) and waits and is_recent and any(_is_left(found, family) for family in families)


def _is_left(found: Mapping[str, str], family: Family) -> bool:
    """Whether a plugin still has to serve devices. It consumes one of two lists if the family has a ``kept_key``."""
    lists = (family.to_allocate_key, family.allocated_key) if family.kept_key else (family.to_allocate_key,)
    return all("," in found.get(key, "") for key in lists)


def _may_need_lock(holder: Pod | None, node: str) -> bool:
    """Whether the node's plugin may still have to answer for the pod that holds the lock."""
    return holder is not None and not holder.is_terminal and holder.spec.node_name in {"", node}
