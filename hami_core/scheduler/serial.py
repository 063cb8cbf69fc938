"""Serial nodes: if a node's runtime has no CDI, pods are bound to it one at a time.

Each vendor's agent says whether it needs this. Only pods with devices of such a vendor wait, and are waited for.

The agent on such a node can't answer the kubelet with a fresh name. It assumes that the kubelet asks for the only pod
whose containers have no devices yet. So the next Bind to the node waits until the agent has finished the earlier pod:
that pod's ``hami.io/bind-phase`` is no longer ``allocating``. This state is read from the pods, so a restarted
scheduler or a new leader continues where the last one stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.errors import KubeError
from hami_core.scheduler.errors import UnknownOutcomeError
from hami_core.vendorkit.locks import NODE_LOCK_TIMEOUT
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hami_core.kube.objects import Pod
    from hami_core.scheduler.cluster import Cluster

log = structlog.get_logger(__name__)

UNSEEN_S: Final = 5.0
"""After this time a pod that was bound here and that the informer does not know counts as gone."""
LANDING_S: Final = 30.0
"""After this time a Binding that the informer does not show counts as not written."""
RECHECK_S: Final = 1.0
"""How often a wait is checked again. It may end by time alone, without an event."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A pod whose Binding was sent, until the informer shows the pod as bound."""

    uid: str
    key: str
    at: float


class SerialNodes:
    """Lets one pod at a time be bound to each serial node.

    Args:
        cluster: The local copy of nodes and pods.
        wait_s: How long a pod waits for its turn: the extender's time-out less 5 s.
        expiry_s: After this time since its Bind, a pod that is still ``allocating`` is no longer waited for.
        wall_clock: Unix seconds, as in ``hami.io/bind-time``.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        wait_s: float = 20.0,
        expiry_s: float = NODE_LOCK_TIMEOUT.total_seconds(),
        wall_clock: Callable[[], float] = wall.unix,
    ) -> None:
        vendors = cluster.loaded.vendors
        self._cluster = cluster
        self._modes = {vendor.name: keys.agent_mode(vendor.name) for vendor in vendors}
        self._allocated = {vendor.name: {family.allocated_key for family in vendor.families} for vendor in vendors}
        self._wait_s = wait_s
        self._expiry_s = expiry_s
        self._wall_clock = wall_clock
        self._turns: dict[str, asyncio.Lock] = {}
        self._sent: dict[str, _Sent] = {}
        self._allocating: dict[str, dict[str, Pod]] = {}
        self._changed = asyncio.Event()
        cluster.pods.on_change(self._pod)
        cluster.nodes.on_change(self._node)

    def vendors(self, node: str) -> frozenset[str]:
        """The vendors whose agents on a node serve one pod at a time."""
        found = self._cluster.nodes.store.get(node)
        there = found.metadata.annotations if found is not None else {}
        return frozenset(name for name, key in self._modes.items() if there.get(key) == keys.MODE_SERIAL)

    @asynccontextmanager
    async def turn(self, node: str, pod: Pod) -> AsyncIterator[None]:
        """Wait until the agent has finished the earlier pod. The block then binds this pod.

        Raises:
            KubeError: The agent did not finish in time (retryable).
        """
        lock = self._turns.setdefault(node, asyncio.Lock())
        try:
            async with asyncio.timeout(self._wait_s):
                await self._take(lock, node, pod)
        except TimeoutError as error:
            raise self._busy(node) from error
        try:
            self._sent[node] = _Sent(pod.uid, pod.key, self._cluster.now())
            yield
        except UnknownOutcomeError:
            raise  # the pod may be bound, as the informer will show
        except BaseException:
            self._sent.pop(node, None)
            raise
        finally:
            lock.release()

    async def _take(self, lock: asyncio.Lock, node: str, pod: Pod) -> None:
        """Acquire the node's asyncio lock, and wait until no earlier pod is allocating there."""
        await lock.acquire()
        try:
            while holder := self._holder(node, pod.uid):
                log.debug("waiting for an earlier pod", node=node, pod=pod.key, holder=holder)
                changed = self._changed
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), RECHECK_S)
        except BaseException:
            lock.release()
            raise

    def _busy(self, node: str) -> KubeError:
        holder = self._holder(node, "") or "another pod"
        text = f"{holder} was bound before and waits for its devices yet; the node serves one pod at a time (no CDI)"
        return KubeError(f"serial node {node}", 0, text, retryable=True)

    def _holder(self, node: str, uid: str) -> str:
        """Another pod on the node that still waits for devices of a serial vendor; empty: none."""
        serial = {key for vendor in self.vendors(node) for key in self._allocated[vendor]}
        if not serial:
            return ""
        sent = self._sent.get(node)
        if sent is not None and not self._is_on_its_way(sent):
            del self._sent[node]
            sent = None
        if sent is not None and sent.uid != uid:
            return sent.key
        now = self._wall_clock()
        for other in self._allocating.get(node, {}).values():
            waits = not serial.isdisjoint(other.metadata.annotations)
            if waits and other.uid != uid and now - _bound_at(other) < self._expiry_s:
                return other.key
        return ""

    def _is_on_its_way(self, sent: _Sent) -> bool:
        age = self._cluster.now() - sent.at
        seen = self._cluster.pods.store.get(sent.key)
        if seen is None:
            return age < UNSEEN_S
        waiting = seen.uid == sent.uid and not seen.spec.node_name and not seen.is_terminal
        return waiting and age < LANDING_S

    # --- informers

    def _pod(self, old: Pod | None, pod: Pod | None) -> None:
        for before in (old,) if old is not None and old.spec.node_name else ():
            there = self._allocating.get(before.spec.node_name)
            if there is not None and there.pop(before.uid, None) is not None and not there:
                del self._allocating[before.spec.node_name]
        if pod is not None and pod.spec.node_name and not pod.is_terminal and _is_allocating(pod):
            self._allocating.setdefault(pod.spec.node_name, {})[pod.uid] = pod
        self._wake()

    def _node(self, old: object, node: object) -> None:
        del old, node
        self._wake()

    def _wake(self) -> None:
        if self._turns:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


def _is_allocating(pod: Pod) -> bool:
    return pod.metadata.annotations.get(keys.BIND_PHASE) == keys.PHASE_ALLOCATING


def _bound_at(pod: Pod) -> int:
    text = pod.metadata.annotations.get(keys.BIND_TIME, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
