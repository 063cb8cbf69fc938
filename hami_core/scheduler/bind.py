"""Bind: choose the cards, book them, sign the allocation, and make one atomic write. Idempotent by pod UID.

The ``pods/binding`` request carries UID, annotations and labels. The API server copies them to the pod in the same
transaction, so a bound pod without its allocation can't exist. If the outcome of the write is unknown, Bind reads the
pod: it succeeded if the pod is bound to this node with our allocation. While the write may land, the booking stays.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.capability import Capability, Support
from hami_core.errors import HamiError, WireError
from hami_core.http.serve import Request, Response, text
from hami_core.inventory import Rejection
from hami_core.kube.objects import Binding, BindingMeta
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS, ApiError
from hami_core.scheduler import pods
from hami_core.scheduler.errors import BindRefusedError, UnknownOutcomeError
from hami_core.scheduler.keyring import Keyring
from hami_core.scheduler.leadership import NotLeaderError
from hami_core.scheduler.metadata import check_annotations, is_label_value
from hami_core.wire import keys
from hami_core.wire.extender import BindingArgs, decode_binding_args, encode_binding_result
from hami_core.wire.pod import allocation_annotations
from hami_core.wire.signature import sign, statement_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.model import Allocation, PodRequest
    from hami_core.scheduler.cluster import Cluster
    from hami_core.scheduler.leadership import BindGate, Permit
    from hami_core.scheduler.lock import NodeLocks
    from hami_core.scheduler.pod_events import PodEvents
    from hami_core.scheduler.serial import SerialNodes

log = structlog.get_logger(__name__)

RESOLVE_AFTER_S: Final = 5.0
"""After a write of unknown outcome, the pod is read again this often. The booking stays until then."""


class Bind:
    """Answers ``/bind``.

    Args:
        api: The Kubernetes API.
        cluster: The local copy of the cluster.
        gate: Permits Binds while this replica leads.
        events: Records events.
        locks: Node locks for node plugins that are not ours.
        serial: Nodes that are bound to one pod at a time.
        keyring: The signing key.
        copies_labels: Whether the API server copies a Binding's labels (Kubernetes 1.35 and later).
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: Cluster,
        gate: BindGate,
        events: PodEvents,
        locks: NodeLocks,
        *,
        serial: SerialNodes,
        keyring: Keyring | None = None,
        copies_labels: bool = True,
        wall_clock: Callable[[], float] = wall.unix,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._gate = gate
        self._events = events
        self._locks = locks
        self._serial = serial
        self._keyring = keyring or Keyring()
        self.copies_labels = copies_labels
        self._wall_clock = wall_clock
        self._under_way: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self._resolving: set[asyncio.Task[None]] = set()

    async def __call__(self, request: Request) -> Response:
        """Serve one request. A failure is reported in ``Error`` with status 200, as kube-scheduler expects."""
        if not request.body:
            return text(400, "please send a request body\n")
        try:
            await self.bind(decode_binding_args(request.body))
        except (HamiError, NotLeaderError) as error:
            return Response(200, encode_binding_result(str(error)))
        return Response(200, encode_binding_result())

    async def bind(self, args: BindingArgs) -> None:
        """Bind one pod. A repeated call joins the running one.

        Raises:
            HamiError: The pod is not bound; the message is for the user.
            NotLeaderError: This replica may not bind.
        """
        key = args.uid or f"{args.namespace}/{args.name}"
        node, task = self._under_way.get(key, ("", None))
        if task is not None and node != args.node:
            raise BindRefusedError(f"pod {args.namespace}/{args.name} is already being bound to node {node}")
        if task is None:
            # A separate task, so that a client that disconnects does not stop a write half-way.
            task = asyncio.create_task(self._bind(args), name=f"bind {key}")
            self._under_way[key] = (args.node, task)
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        await asyncio.shield(task)

    async def close(self) -> None:
        """Finish running Binds. Stop waiting for unknown outcomes."""
        tasks = [task for _, task in self._under_way.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        for resolving in self._resolving:
            resolving.cancel()
        await asyncio.gather(*self._resolving, return_exceptions=True)

    async def _bind(self, args: BindingArgs) -> None:
        self._keyring.signing()  # fail early while the signing key is awaited
        permit = await self._gate.permit()
        pod = await self._read(args)
        try:
            await self._bind_pod(pod, args.node, permit)
        except HamiError as error:
            log.warning("not bound", pod=pod.key, node=args.node, error=str(error))
            self._events.not_bound(pod, str(error))
            raise
        log.info("bound", pod=pod.key, node=args.node, uid=pod.uid)
        self._events.bound(pod, args.node)

    async def _read(self, args: BindingArgs) -> Pod:
        """The pod from the informer, or from the API server if the informer has none with this UID."""
        pod = self._cluster.pods.store.get(f"{args.namespace}/{args.name}")
        if pod is None or (args.uid and pod.uid != args.uid):
            try:
                pod = await self._api.get(PODS, args.name, args.namespace)
            except ApiError as error:
                if error.status == 404:
                    self._cluster.inventory.release_hold(args.uid)
                raise
        if args.uid and pod.uid != args.uid:
            self._cluster.inventory.release_hold(args.uid)
            raise BindRefusedError(f"pod {pod.key} was deleted and created again: its UID is {pod.uid}, not {args.uid}")
        return pod

    async def _bind_pod(self, pod: Pod, node: str, permit: Permit) -> None:
        if pod.spec.node_name:
            self._check_bound(pod, node)
            return
        wanted = self._cluster.request_of(pod)
        if not wanted.families:
            await self._write(pod, node, {}, permit)
            return
        allocation = self._book(wanted, node)
        try:
            async with self._turn(node, pod, allocation) as serial, self._locks.taken(node, pod, wanted) as locked:
                permit = await self._gate.permit()  # again, since waiting for a turn or a lock may take long
                self._check_open(node, allocation)
                annotations = self._annotations(pod, allocation, permit.epoch, waits=serial or locked)
                check_annotations(pod.metadata.annotations, annotations)
                await self._write(pod, node, annotations, permit)
        except UnknownOutcomeError:
            raise  # the booking stays until `_resolve_later` knows
        except BaseException:
            self._cluster.unbook(pod.uid)
            raise

    def _book(self, wanted: PodRequest, node: str) -> Allocation:
        booked = self._cluster.inventory.book(wanted, node)
        if isinstance(booked, Rejection):
            why = self._cluster.inventory.explain_text(wanted, node)
            raise BindRefusedError(f"node {node} no longer fits: {booked.short}" + (f" ({why})" if why else ""))
        return booked

    def _check_open(self, node: str, allocation: Allocation) -> None:
        """Refuse if the node has been closed since the booking: its agent may have begun to stop."""
        if bar := self._cluster.inventory.bar(node, allocation.families):
            raise BindRefusedError(f"node {node} takes no more pods: {bar}")

    @asynccontextmanager
    async def _turn(self, node: str, pod: Pod, allocation: Allocation) -> AsyncIterator[bool]:
        """Wait for the pod's turn if a vendor's agent there serves one pod at a time. Yields whether one does."""
        asked = {vendor.name for vendor in self._cluster.loaded.serving(allocation.families)}
        if asked.isdisjoint(self._serial.vendors(node)):
            yield False
            return
        async with self._serial.turn(node, pod):
            yield True

    def _annotations(self, pod: Pod, allocation: Allocation, epoch: int, *, waits: bool) -> dict[str, str]:
        """The annotations of the Binding.

        Args:
            pod: The pod.
            allocation: Its booked allocation.
            epoch: The leader's epoch.
            waits: Whether the next Bind to this node waits until this pod has its devices. Its phase is ``allocating``.

        Raises:
            HamiError: A vendor failed, or the allocation can't be written.
        """
        families = self._cluster.families
        served = [families[word] for word in allocation.families]
        ready = all(_agent_serves(family.capabilities) for family in served) and not waits
        phase = keys.PHASE_SUCCESS if ready else keys.PHASE_ALLOCATING
        now = self._wall_clock()
        annotations = allocation_annotations(allocation, families, int(now), phase)
        facts = replace(pods.facts(pod), decided_at_ns=int(now * 10**9))
        added = self._cluster.loaded.patch_annotations(facts, allocation)
        both = annotations.keys() & added.keys()
        if both:
            raise WireError("patch_annotations", -1, f"a vendor set keys that only HAMi may set: {sorted(both)}")
        annotations |= added
        key = self._keyring.signing()
        if key is not None:
            statement = statement_of(pod.uid, annotations, served, epoch=epoch)
            annotations[keys.SIGNATURE] = sign(key, statement)
        return annotations

    async def _write(self, pod: Pod, node: str, annotations: dict[str, str], permit: Permit) -> None:
        labels = {keys.NODE: node} if annotations and is_label_value(node) else {}
        meta = pod.metadata
        binding = Binding.to_node(BindingMeta(meta.name, meta.namespace, meta.uid, annotations, labels), node)
        try:
            async with asyncio.timeout(self._deadline(permit)):
                if labels and not self.copies_labels:
                    label = metadata_patch(labels=labels, uid=meta.uid)
                    await self._api.patch(PODS, meta.name, label, meta.namespace)
                await self._api.bind(binding, lambda: self._cluster.now() < permit.write_by)
        except TimeoutError:
            await self._resolve(pod, node, annotations, ApiError(f"bind {pod.key}", 0, "timed out", reason="Timeout"))
        except ApiError as error:
            # 409 from a Binding and 422 from a patch mean that another pod has this name now.
            if error.status not in {409, 422} and not error.is_unknown_outcome:
                raise
            await self._resolve(pod, node, annotations, error)

    def _deadline(self, permit: Permit) -> float:
        """Seconds left for API calls.

        Raises:
            NotLeaderError: No time is left.
        """
        left = permit.write_by - self._cluster.now()
        if left <= 0:
            raise NotLeaderError("this replica's time to write is over")
        return left

    async def _resolve(self, pod: Pod, node: str, annotations: Mapping[str, str], error: ApiError) -> None:
        """Read the pod to learn whether a refused or unanswered write happened.

        Raises:
            BindRefusedError: The pod isn't bound here with our allocation.
            UnknownOutcomeError: The outcome is still unknown; the booking stays.
        """
        try:
            async with asyncio.timeout(2):
                now = await self._api.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except (ApiError, TimeoutError):
            raise self._unknown_outcome(pod, error) from error
        if _is_ours(now, pod.uid, node, self._unconsumed(annotations)):
            return
        if now.uid == pod.uid and not now.spec.node_name and error.is_unknown_outcome:
            raise self._unknown_outcome(pod, error) from error
        bound = f"it is bound to {now.spec.node_name}" if now.spec.node_name else "it is not bound"
        raise BindRefusedError(f"{error}; {bound}") from error

    def _unknown_outcome(self, pod: Pod, error: ApiError) -> UnknownOutcomeError:
        task = asyncio.create_task(self._resolve_later(pod), name=f"resolve {pod.key}")
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)
        return UnknownOutcomeError(f"{error}; whether the pod is bound is not known yet")

    async def _resolve_later(self, pod: Pod) -> None:
        """Keep the booking until the pod can be read. Then drop it if the pod is gone or not bound."""
        while True:
            await asyncio.sleep(RESOLVE_AFTER_S)
            try:
                now = await self._api.get(PODS, pod.metadata.name, pod.metadata.namespace)
            except ApiError as error:
                if error.status != 404:
                    continue
                now = None
            if now is None or now.uid != pod.uid:
                self._cluster.inventory.remove_pod(pod.uid)
            elif not now.spec.node_name:
                self._cluster.unbook(pod.uid)
            return

    def _unconsumed(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """The annotations without those that a node plugin may consume as soon as the pod is bound."""
        families = self._cluster.families.values()
        consumed = {key for f in families for key in (f.to_allocate_key, f.kept_key and f.allocated_key)}
        return {key: value for key, value in annotations.items() if key not in consumed}

    def _check_bound(self, pod: Pod, node: str) -> None:
        if pod.spec.node_name != node:
            raise BindRefusedError(f"pod {pod.key} is already bound to node {pod.spec.node_name}")
        if self._cluster.inventory.booking(pod.uid) is None and self._asks(pod):
            raise BindRefusedError(f"pod {pod.key} was bound to node {node} without an allocation")

    def _asks(self, pod: Pod) -> bool:
        wanted = self._cluster.request_of(pod)
        return bool(wanted.families)


def _agent_serves(capabilities: Mapping[Capability, object]) -> bool:
    grade = capabilities.get(Capability.NODE_AGENT)
    return grade is not None and getattr(grade, "support", None) in {Support.FULL, Support.PARTIAL}


def _is_ours(pod: Pod, uid: str, node: str, annotations: Mapping[str, str]) -> bool:
    """Whether a pod is bound to the node with exactly the allocation that we wrote."""
    there = pod.metadata.annotations
    same = all(there.get(key) == value for key, value in annotations.items() if _is_decisive(key))
    return pod.uid == uid and pod.spec.node_name == node and same


def _is_decisive(key: str) -> bool:
    """Whether a key never changes after the Binding: node, allocation and signature."""
    return key in {keys.SIGNATURE, keys.NODE} or keys.is_allocated_key(key)
