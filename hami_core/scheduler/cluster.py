"""Keeps the inventory up to date: informers of nodes, pods and ResourceQuotas feed `hami_core.inventory`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from hami_core.errors import WireError
from hami_core.inventory import Inventory
from hami_core.kube.events import reference
from hami_core.kube.informer import Informer
from hami_core.kube.objects import Container, Node, ObjectReference, Pod, ResourceQuota
from hami_core.kube.port import NODES, PODS, RESOURCE_QUOTAS
from hami_core.placement.quota_spec import Fault, Finding, findings
from hami_core.scheduler import pods, trim
from hami_core.scheduler.agent_availability import AgentAvailability
from hami_core.scheduler.errors import UnservedError
from hami_core.scheduler.keyring import Keyring
from hami_core.scheduler.unreadable import UnreadablePod, UnreadablePods
from hami_core.scheduler.verification import Verification
from hami_core.wire import keys
from hami_core.wire.signature import epoch_of, signer_of, statement_of, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hami_core.kube.port import KubeApi, Undecodable
    from hami_core.model import Booking, Device, NodeFacts, PodRequest
    from hami_core.plugins import Loaded
    from hami_core.policies import PolicyDefaults

log = structlog.get_logger(__name__)

DRIFT_CHECK_S: Final = 300.0
HOLDS_CHECK_S: Final = 1.0


class CapacityListener(Protocol):
    """Is told about changes after which a refused pod may fit."""

    def node_changed(self) -> None:
        """A node's devices changed, or its spec, labels or allocatable resources."""

    def pod_ended(self) -> None:
        """A pod with a booking ended."""

    def retry_refused(self) -> None:
        """Room was freed by a change that kube-scheduler does not see, such as the end of a hold."""


class _NoListener:
    def node_changed(self) -> None: ...
    def pod_ended(self) -> None: ...
    def retry_refused(self) -> None: ...


class Cluster:
    """The scheduler's local copy of the cluster: informers, inventory and what is wrong with either.

    Args:
        api: The Kubernetes API.
        loaded: The vendors.
        defaults: Policies of pods that name none.
        keyring: Keys whose signatures count.
        managed: Resources that kube-scheduler leaves to us. A pod is refused if no loaded vendor serves its resource.
        node_labels: Only nodes with these labels are registered.
        sync_wait_s: How long a request may wait for the first sync: kube-scheduler's ``httpTimeout`` less a margin.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        loaded: Loaded,
        defaults: PolicyDefaults,
        *,
        keyring: Keyring | None = None,
        managed: Collection[str] = (),
        node_labels: dict[str, str] | None = None,
        sync_wait_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loaded = loaded
        self.defaults = defaults
        self.sync_wait_s = sync_wait_s
        self.families = loaded.families
        self.inventory = Inventory(loaded.rules(), defaults)
        self._keyring = keyring or Keyring()
        selector = ",".join(f"{key}={value}" for key, value in (node_labels or {}).items())
        self.nodes = Informer(api, NODES, label_selector=selector, trim=trim.node)
        self.pods = Informer(api, PODS, trim=self.trimmed)
        self.quotas = Informer(api, RESOURCE_QUOTAS)
        self.informers: tuple[Informer[Node], Informer[Pod], Informer[ResourceQuota]] = (
            self.nodes,
            self.pods,
            self.quotas,
        )
        self.verification = Verification(
            self._keyring, self.families, self.pods.store.get, self._report_invalid_signature
        )
        self._keyring.on_change(self._verify_again)
        self.on_invalid_signature: Callable[[Pod, str], None] = lambda _pod, _problem: None
        """Called with a live pod and the problem if the signature of its allocation is not ours."""
        self.quota_findings: dict[str, tuple[Finding, ...]] = {}
        """``namespace/name`` of a ResourceQuota → its entries about devices that are not enforced as written."""
        self.on_quota_finding: Callable[[ObjectReference, Finding], None] = lambda _quota, _finding: None
        """Called once for each entry in `quota_findings`."""
        self.on_unreadable_pod: Callable[[Pod, UnreadablePod], None] = lambda _pod, _unreadable: None
        """Called when a live pod's allocation can't be read, and again when the problem changes."""
        self.unreadable = UnreadablePods()
        self.listener: CapacityListener = _NoListener()
        """Is told about changes after which a refused pod may fit."""
        self.drift = 0
        self.closed_nodes: dict[str, frozenset[str]] = {}
        self._availability = AgentAvailability(loaded)
        self._clock = clock
        self._devices: dict[str, dict[str, tuple[Device, ...]]] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._epoch = -1
        self._resources = {name for family in self.families.values() for name in family.resources.names()}
        self._unserved = frozenset(managed) - self._resources
        self._counted = self._unserved | self._resources
        self._allocated = {family.allocated_key for family in self.families.values()}
        self._modes = {family.mode_key for family in self.families.values() if family.mode_key}
        self.nodes.on_change(self._node)
        self.pods.on_change(self._pod)
        self.nodes.on_undecodable(self._undecodable_node)
        self.pods.on_undecodable(self._undecodable_pod)
        self.quotas.on_change(self._quota)
        self.quotas.on_undecodable(self._undecodable_quota)

    @property
    def is_synced(self) -> bool:
        """Whether every local copy is complete."""
        return all(informer.synced.is_set() for informer in self.informers)

    async def synced(self) -> None:
        """Return once every local copy is complete."""
        for informer in self.informers:
            await informer.synced.wait()

    async def catch_up(self) -> int:
        """Read every pod bound before this call. Returns the highest epoch of their signatures; -1: none."""
        await self.synced()
        await self._keyring.ready.wait()  # without the keys no signature, and so no epoch, can be verified
        await self.pods.refresh()
        return self._epoch

    async def epoch_of_first_list(self) -> int:
        """As `catch_up`, for a replica that has led since its start: its first list already shows every bound pod."""
        await self.synced()
        await self._keyring.ready.wait()
        return self._epoch

    async def watch_drift(self, every_s: float = DRIFT_CHECK_S) -> None:
        """Periodically recompute usage and compare, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            self.drift = self.inventory.drift()
            if self.drift:
                log.error("usage kept incrementally differed from usage recomputed", rows=self.drift)

    async def watch_holds(self, every_s: float = HOLDS_CHECK_S) -> None:
        """End expired holds and update the refusals of nodes whose agent stays away, until cancelled.

        Filter ends expired holds too, but there may be no Filter: the pod may be gone and no other pod waiting.
        After `hami_core.scheduler.agent_availability.LATE_S` refusals no longer say that the agent is being replaced.
        """
        while True:
            await asyncio.sleep(every_s)
            if self.inventory.expire_holds(self.now()):
                self.listener.retry_refused()
            for name in self._availability.late(self.now()):
                self._bar_node(name)

    def unbook(self, uid: str) -> None:
        """Drop the booking of a failed Bind. If the pod is bound all the same, book what its annotations say."""
        self.inventory.release(uid)
        for pod in self.pods.store.values():
            if pod.uid == uid and pod.spec.node_name:
                self._pod(None, pod)

    def signed_with(self) -> frozenset[str] | None:
        """Ids of the keys that live pods' allocations claim to be signed with; None before the first sync."""
        if not self.pods.synced.is_set():
            return None
        texts = (pod.metadata.annotations.get(keys.SIGNATURE, "") for pod in self.pods.store.values() if _is_live(pod))
        return frozenset(found for text in texts if (found := signer_of(text)))

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock()

    # --- nodes

    def _node(self, old: Node | None, node: Node | None) -> None:
        if node is None:
            if old is not None:
                self._forget_node(old.metadata.name)
            return
        if old is None or _admits(old) != _admits(node):
            self.listener.node_changed()
        known = self._facts.get(node.metadata.name)
        facts = pods.node_facts(node)
        if facts == known:
            return  # a heartbeat
        self._facts[facts.name] = facts
        registration = self.loaded.register(facts)
        had = self._devices.get(facts.name, {})
        before = had, self.closed_nodes.get(facts.name), self._availability.reasons(facts.name, 0.0)
        failed = frozenset(word for word, found in registration.devices.items() if found is None)
        listed = {word: had.get(word, ()) if found is None else found for word, found in registration.devices.items()}
        devices = self._devices[facts.name] = {word: found for word, found in listed.items() if found}
        if failed:
            if failed != self.closed_nodes.get(facts.name):
                log.warning(
                    "devices of a node take no new pods: what it advertises can't be read",
                    node=facts.name,
                    families=sorted(failed),
                    errors=[str(error) for error in registration.errors],
                )
            self.closed_nodes[facts.name] = failed
        elif self.closed_nodes.pop(facts.name, None):
            log.info("a node's devices can be read again", node=facts.name)
        self._set_node(facts, devices, failed)
        self._availability.see(facts.name, facts.labels, self.now())
        self._recheck_devices(facts.name, set(had))
        self._bar_node(facts.name)
        if before != (devices, self.closed_nodes.get(facts.name), self._availability.reasons(facts.name, 0.0)):
            self.listener.node_changed()

    def _set_node(self, facts: NodeFacts, devices: dict[str, tuple[Device, ...]], failed: frozenset[str]) -> None:
        """Write a node's devices. A family whose register can't be read keeps its devices, but takes no new pods."""
        if devices and devices.keys() <= failed:
            self.inventory.set_node(facts, devices, closed=True)
            return
        shown = {
            word: tuple(replace(device, healthy=False) for device in found) if word in failed else found
            for word, found in devices.items()
        }
        self.inventory.set_node(facts, shown)

    def _undecodable_node(self, key: str, found: Undecodable | None) -> None:
        """A node that can't be decoded takes no new pods. Its pods stay booked."""
        if found is not None:
            self._forget_node(key)

    def _bar_node(self, node: str) -> None:
        """Tell the inventory which families of a node are closed, and why.

        An unreadable allocation outranks an absent agent, because it lasts longer.
        """
        self.inventory.bar_node(node, {**self._availability.reasons(node, self.now()), **self.unreadable.reasons(node)})

    @property
    def closed(self) -> frozenset[str]:
        """Nodes that are closed for at least one family: its register or a pod's allocation there can't be read."""
        concerned = (name for name in self.unreadable.nodes() if self._closes(name))
        return frozenset((*self.closed_nodes, *concerned))

    def _closes(self, node: str) -> bool:
        return any(self._devices.get(node, {}).get(word) for word in self.unreadable.reasons(node))

    def _forget_node(self, name: str) -> None:
        self._facts.pop(name, None)
        self._devices.pop(name, None)
        self.closed_nodes.pop(name, None)
        self._availability.forget(name)
        self.inventory.remove_node(name)

    # --- pods

    def trimmed(self, pod: Pod) -> Pod:
        """Keep waiting pods that concern us whole, and the parts of other pods that are read again."""
        annotations = pod.metadata.annotations
        if not self._allocated.isdisjoint(annotations) or self.asks(pod) or pods.first_asked(pod, self._unserved):
            return trim.bound_pod(pod, self._counted) if pod.spec.node_name else pod
        return trim.foreign_pod(pod)

    def request_of(self, pod: Pod) -> PodRequest:
        """What a pod asks for.

        Raises:
            UnservedError: It asks for a managed resource that no loaded vendor serves.
            RequestError: Names the container or annotation at fault and the fix.
        """
        unserved = pods.first_asked(pod, self._unserved)
        if unserved is not None:
            loaded = (vendor.name for vendor in self.loaded.vendors)
            raise UnservedError(*unserved, loaded, (source.name for source in self.loaded.refused))
        return pods.request_of(pod, self.loaded.parse)

    def asks(self, pod: Pod) -> bool:
        """Whether one of its containers names a device resource."""
        return any(_names_any(c, self._resources) for _, c in pod.containers())

    def _pod(self, old: Pod | None, pod: Pod | None) -> None:
        if pod is None:
            if old is not None:
                self._pod_gone(old.uid)
            return
        if pod.is_terminal:
            self._pod_gone(pod.uid)
            return
        if old is not None and _was_refused_since(old, pod) and self.inventory.release_hold(pod.uid):
            self.listener.retry_refused()
        if self._is_foreign(pod) and not self.asks(pod):
            return
        holding = self._holding(pod)
        known = self.inventory.booking(pod.uid)
        if known is None or pod.uid in self.unreadable:
            self._count_booking(old, pod, holding.booking)
            self._update_unreadable(pod, {**self._unknown_devices(pod, holding.booking), **holding.unread})
        elif not holding.unread:
            self._count_booking(old, pod, self._booking_that_counts(old, pod, holding.booking, known))
        elif old is None or old.metadata.annotations != pod.metadata.annotations:
            problem = "; ".join(holding.unread.values())
            log.warning("a pod's allocation can't be read any more, its booking stays", pod=pod.key, error=problem)

    def _holding(self, pod: Pod) -> pods.Holding:
        """The devices of a bound pod. A mode counts only under our signature, since tenants can edit annotations."""
        holding = pods.holding_of(pod, self.families)
        if holding.booking is None or self._modes.isdisjoint(pod.metadata.annotations) or self._is_ours(pod):
            return holding
        return replace(holding, booking=pods.with_unknown_modes(holding.booking, self.families))

    def _count_booking(self, old: Pod | None, pod: Pod, booking: Booking | None) -> None:
        if booking is None:
            return
        self.verification.see(old, pod)
        self._see_epoch(pod)
        if self.inventory.set_pod(booking, init_done=pods.is_init_done(pod)):
            self.listener.retry_refused()

    def _booking_that_counts(
        self, old: Pod | None, pod: Pod, booking: Booking | None, known: Booking
    ) -> Booking | None:
        """The booking to count for a booked pod: its present allocation, or ``known`` if a stranger changed that."""
        if booking is None or known.allocation == booking.allocation or not self._is_altered(old, pod, known):
            return booking
        # Keep what was bound, because the agent starts containers by the signed allocation only.
        log.warning("a pod's allocation was altered after it was bound, the change is not counted", pod=pod.key)
        return known

    def _unknown_devices(self, pod: Pod, booking: Booking | None) -> dict[str, str]:
        """Common word → why a device of the pod's allocation is unknown: its node has no such device.

        Nothing counts a slice of an unknown device, so the family is closed on the node. It stays open in two cases:

        - Our signature proves that we chose this device. It has gone since, so its slice takes no room on another card.
        - The node has no devices of the family at all, so there is nothing to give away.
        """
        found: dict[str, str] = {}
        node = self._devices.get(pod.spec.node_name, {})
        for container in booking.allocation.containers if booking is not None else ():
            for piece in container.slices:
                devices = node.get(piece.family, ())
                if devices and all(device.id != piece.device_id for device in devices):
                    key = self.families[piece.family].allocated_key
                    found.setdefault(piece.family, f"{key}: the node has no device {piece.device_id!r}")
        return {} if found and self._keyring.verifies and self._is_ours(pod) else found

    def _recheck_devices(self, node: str, before: set[str]) -> None:
        """Check again whether the node has the devices of its pods, after its devices changed.

        A device that goes while its pods run closes nothing, since this process has seen it. So booked pods are checked
        again only when the node's first devices of a family appear.
        """
        for uid in self.unreadable.on(node):
            self._recheck_pod(uid)
        new = self._devices.get(node, {}).keys() - before
        for booking in self.inventory.bookings_on(node) if new else ():
            pod = self.pods.store.get(f"{booking.namespace}/{booking.name}")
            if pod is not None and pod.uid == booking.uid and pod.uid not in self.unreadable:
                self._update_unreadable(pod, self._unknown_devices(pod, booking))

    def _recheck_pod(self, uid: str) -> None:
        """Read an unreadable pod again, after its node or the keys changed."""
        found = self.unreadable.get(uid)
        pod = self.pods.store.get(found.key) if found is not None else None
        if pod is not None and pod.uid == uid:
            self._pod(None, pod)

    def _undecodable_pod(self, key: str, found: Undecodable | None) -> None:
        """Treat a pod that can't be decoded as holding devices of every family that its text names.

        A booked pod stays booked. `unreadable` has the pod under its name, because its UID may not be known.
        """
        if found is None:
            self._drop_unreadable(key)
            return
        pod = pods.rough_pod(found)
        if pod.is_terminal:
            self._drop_unreadable(key)
            self._pod_gone(pod.uid)
        elif pod.spec.node_name and self.inventory.booking(pod.uid) is None:
            problem = f"the pod can't be decoded: {found.error}"
            self._update_unreadable(pod, dict.fromkeys(pods.families_named(found.body, self.families), problem), of=key)

    def _update_unreadable(self, pod: Pod, problems: Mapping[str, str], *, of: str = "") -> None:
        """Close the families that a pod may hold on its node, or open them again if there are no problems."""
        uid = of or pod.uid
        before = self.unreadable.get(uid)
        if not problems:
            self._drop_unreadable(uid)
            return
        now = UnreadablePod(pod.key, pod.spec.node_name, problems)
        if now == before:
            return
        self.unreadable.put(uid, now)
        self._bar_node(now.node)
        log.warning(
            "a pod's allocation can't be read, its node gives no new pod devices of these families",
            pod=pod.key,
            node=now.node,
            families=sorted(problems),
            errors=list(problems.values()),
        )
        self.on_unreadable_pod(pod, now)

    def _drop_unreadable(self, uid: str) -> None:
        gone = self.unreadable.drop(uid)
        if gone is not None:
            log.info("an unreadable pod can be read again, or ended", pod=gone.key, node=gone.node)
            self._bar_node(gone.node)
            self.listener.retry_refused()

    def _pod_gone(self, uid: str) -> None:
        if self.inventory.release_hold(uid):
            self.listener.retry_refused()
        if self.inventory.release(uid):
            self.listener.pod_ended()
        self._drop_unreadable(uid)
        self.verification.forget(uid)

    def _is_altered(self, old: Pod | None, pod: Pod, known: Booking) -> bool:
        """Whether a stranger changed a booked allocation. HAMi's scheduler may change pods that we never signed."""
        if self._is_ours(pod):
            return False
        if old is None or self._is_ours(old):
            return True
        before = self._holding(old).booking
        return before is None or before.allocation != known.allocation

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a scheduler with one of our keys wrote the allocation. Without keys every allocation is ours."""
        if not self._keyring.verifies:
            return True
        try:
            statement = statement_of(pod.uid, pod.metadata.annotations, self.families.values())
            verify(self._keyring.public, pod.metadata.annotations.get(keys.SIGNATURE, ""), statement)
        except WireError:
            return False
        return True

    def _see_epoch(self, pod: Pod) -> None:
        """Remember the highest epoch. Only a valid signature may raise it."""
        text = pod.metadata.annotations.get(keys.SIGNATURE, "")
        claimed = epoch_of(text)
        if claimed <= self._epoch:
            return
        with contextlib.suppress(WireError):  # `verification` reports it
            statement = statement_of(pod.uid, pod.metadata.annotations, self.families.values())
            self._epoch = max(self._epoch, verify(self._keyring.public, text, statement))

    def _verify_again(self) -> None:
        """Verify every allocation again, because the keyring changed."""
        live = [pod for pod in self.pods.store.values() if _is_live(pod) and not self._is_foreign(pod)]
        for pod in live:
            self._see_epoch(pod)
            if not self._modes.isdisjoint(pod.metadata.annotations):
                self._pod(None, pod)
        self.verification.see_all(pod for pod in live if self.inventory.booking(pod.uid) is not None)
        for uid in self.unreadable.uids():
            self._recheck_pod(uid)

    def _is_foreign(self, pod: Pod) -> bool:
        return self._allocated.isdisjoint(pod.metadata.annotations)

    def _report_invalid_signature(self, pod: Pod, problem: str) -> None:
        self.on_invalid_signature(pod, problem)

    # --- quotas

    def _quota(self, old: ResourceQuota | None, quota: ResourceQuota | None) -> None:
        if quota is not None:
            if old is not None and old.spec.hard == quota.spec.hard:
                return
            self._set_quota(quota)
        elif old is not None:
            self._drop_quota(old.key)
        self.listener.retry_refused()

    def _undecodable_quota(self, key: str, found: Undecodable | None) -> None:
        """Deny devices to the namespace of a quota that can't be decoded, since it may limit anything."""
        namespace, _, name = key.rpartition("/")
        known = self.quotas.store.get(key)
        if found is not None:
            problem = f"it can't be decoded and allows nothing: {found.error}"
            finding = Finding(Fault.UNREADABLE, "", problem, "correct or delete it")
            self.inventory.deny_quota(namespace, name, problem)
            target = ObjectReference("ResourceQuota", name, namespace, found.uid, "v1")
            self._report_findings(key, target, (finding,))
        elif known is not None:
            self._set_quota(known)
        else:
            self._drop_quota(key)
        self.listener.retry_refused()

    def _set_quota(self, quota: ResourceQuota) -> None:
        self.inventory.set_quota(quota.metadata.namespace, quota.metadata.name, quota.spec.hard)
        if self.nodes.synced.is_set():
            self._review_quota(quota)

    def _drop_quota(self, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        self.inventory.remove_quota(namespace, name)
        self.quota_findings.pop(key, None)

    def review_quotas(self) -> None:
        """Look for entries that are not enforced as written. Call it once every local copy is complete."""
        for quota in self.quotas.store.values():
            if quota.key not in self.quota_findings:
                self._review_quota(quota)

    def _review_quota(self, quota: ResourceQuota) -> None:
        found = findings(quota.key, quota.spec.hard, self.families.values(), self._is_offered)
        self._report_findings(quota.key, reference("ResourceQuota", quota), tuple(found))

    def _is_offered(self, resource: str) -> bool:
        return any(resource in node.status.capacity for node in self.nodes.store.values())

    def _report_findings(self, key: str, quota: ObjectReference, found: tuple[Finding, ...]) -> None:
        before = self.quota_findings.pop(key, ())
        if found:
            self.quota_findings[key] = found
        for finding in found:
            if finding not in before:
                log.warning("a ResourceQuota does not do what it says", quota=key, problem=str(finding))
                self.on_quota_finding(quota, finding)


def _names_any(container: Container, resources: set[str]) -> bool:
    return not (resources.isdisjoint(container.resources.limits) and resources.isdisjoint(container.resources.requests))


def _is_live(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_terminal


def _admits(node: Node) -> tuple[object, ...]:
    """The fields that kube-scheduler's own plugins check before they let a pod onto a node."""
    return node.spec, node.metadata.labels, node.status.allocatable


def _was_refused_since(old: Pod, new: Pod) -> bool:
    """Whether kube-scheduler wrote ``PodScheduled=False`` between the two."""
    now = new.condition("PodScheduled")
    return now is not None and now.status == "False" and now != old.condition("PodScheduled")
