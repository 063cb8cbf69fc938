"""What the cluster has and uses: the scheduler's one allocator. Single-threaded; time is passed in; no I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hami_core.inventory import drift
from hami_core.inventory.ledger import Entry, Ledger
from hami_core.inventory.nodes import FamilyDevices, Node
from hami_core.inventory.search import Search
from hami_core.inventory.table import Cluster
from hami_core.model import Allocation, Booking
from hami_core.placement import explain as explaining
from hami_core.placement.place import Plan, Rejection, place
from hami_core.placement.pod_usage import amounts_by_family, uses
from hami_core.placement.quota import QuotaBook
from hami_core.policies import PolicyDefaults
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hami_core.inventory.names import RawNames
    from hami_core.inventory.outcome import FilterOutcome
    from hami_core.model import Device, DeviceUsage, NodeFacts, PodRequest, Reason, VendorRules


class Inventory:
    """Devices, bookings, holds and quotas of a cluster; answers Filter, Prioritize and Bind.

    Usage is a pure function of nodes, bookings and holds, kept incrementally: `drift` recomputes and compares.
    A *booking* is a pod's allocation that exists or is being written; a *hold* its forerunner between Filter and
    Bind. Both count alike; only Bind (`book`) may displace holds, nothing displaces a booking.

    Args:
        rules: Rules of every family served (`hami_core.plugins`); they never raise.
        defaults: Policies of pods that name none.
        quota: Limits and usage to share with another inventory; default: its own.

    Attributes:
        quota: Limits and usage of namespaces; its ``admission_refusal`` and ``rows`` serve webhook and metrics.
    """

    def __init__(
        self,
        rules: Sequence[VendorRules],
        defaults: PolicyDefaults | None = None,
        *,
        quota: QuotaBook | None = None,
    ) -> None:
        self.rules = {rule.family.word: rule for rule in rules}
        self.defaults = defaults or PolicyDefaults()
        self.quota = QuotaBook(rule.family for rule in rules) if quota is None else quota
        self._nodes: dict[str, Node] = {}
        self._ledger = Ledger()
        self._cluster = Cluster(self.rules)
        self._search = Search(self._cluster, self._nodes)
        self._changed: set[str] = set()

    # --- nodes -------------------------------------------------------------------------------------------------

    def set_node(
        self, facts: NodeFacts, devices: Mapping[str, Sequence[Device] | None], *, closed: bool = False
    ) -> None:
        """Take in a node's devices, new or changed. Idempotent.

        Args:
            facts: The node.
            devices: Common word → devices; None or empty: the node has none of that family. A node without any
                device is not registered: Filter answers ``node unregistered`` for it.
            closed: The node takes no new pods (a vendor's `register` failed); what runs there keeps counting.
        """
        families = {word: FamilyDevices(given) for word, given in devices.items() if given}
        old = self._nodes.get(facts.name)
        if old is not None and _same_devices(old.families, families):
            old.facts = facts
            if old.closed != closed:
                old.closed = closed
                self._cluster.set_node(old)
            return
        if not families:
            self.remove_node(facts.name)
            return
        node = Node(facts, closed=closed, families=families)
        if old is not None:
            node.column, node.generation, node.barred = old.column, old.generation + 1, old.barred
        for entry in self._ledger.on(facts.name):
            for use in entry.uses:
                if use.family in families:
                    families[use.family].apply(use, entry.pod, 1)
        self._nodes[facts.name] = node
        self._cluster.set_node(node)
        self._changed.add(facts.name)

    def remove_node(self, name: str) -> None:
        """Forget a node. Its pods stay booked, and count again should it come back. Unknown names are no error."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._cluster.remove_node(node)
            self._changed.add(name)

    def bar_node(self, name: str, barred: Mapping[str, str]) -> None:
        """Say of which families a registered node gives no new pod devices. Idempotent; what runs there keeps counting.

        Args:
            name: The node; unknown names are no error.
            barred: Common word → why, as it is to stand in refusals; empty: the node gives of all that it has.
        """
        node = self._nodes.get(name)
        if node is not None and node.barred != barred:
            node.barred = barred
            self._cluster.bar(node)

    def node_names(self) -> list[str]:
        """Names of all registered nodes, sorted."""
        return sorted(self._nodes)

    def largest_memory_mib(self, word: str) -> int:
        """Memory of the largest device of a family on any registered node; 0: there is none."""
        table = self._cluster.tables.get(word)
        return 0 if table is None else int(table.total_memory.max(initial=0))

    # --- pods --------------------------------------------------------------------------------------------------

    def set_pod(self, booking: Booking, *, init_done: bool = False) -> bool:
        """Take in a pod's allocation as the API server has it: the truth, whatever was booked before. Idempotent.

        Ends the pod's hold. Terminating pods count until `remove_pod`.

        Args:
            booking: The pod and its allocation.
            init_done: Every init container that is no sidecar has ended; from then on only sidecars and app
                containers count. Once True it stays so.

        Returns:
            Whether something the pod had is free now: a hold, or what its init containers took.
        """
        freed = self.release_hold(booking.uid)
        old = self._ledger.bookings.get(booking.uid)
        if old is not None:
            done = init_done or old.init_done
            if old.allocation == booking.allocation and done == old.init_done:
                return freed
            init_done = done
            self._drop(old)
            freed = True
        self._put(_entry(booking, init_done=init_done))
        return freed

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is deleted, succeeded or failed. Idempotent."""
        self.release_hold(uid)
        self.release(uid)

    def bookings(self) -> Iterator[Booking]:
        """Every booking."""
        return map(_booking, self._ledger.bookings.values())

    def bookings_on(self, node: str) -> list[Booking]:
        """Bookings on a node, registered or not, oldest first."""
        return list(map(_booking, self._ledger.bookings_on(node)))

    @property
    def booking_count(self) -> int:
        """How many pods have a booking."""
        return len(self._ledger.bookings)

    def booking(self, uid: str) -> Booking | None:
        """A pod's booking."""
        entry = self._ledger.bookings.get(uid)
        return None if entry is None else _booking(entry)

    # --- quota -------------------------------------------------------------------------------------------------

    def set_quota(self, namespace: str, name: str, hard: Mapping[str, Any]) -> None:
        """Take in a ResourceQuota's ``spec.hard``, new or changed."""
        self.quota.set(namespace, name, hard)

    def deny_quota(self, namespace: str, name: str, problem: str) -> None:
        """Take in a ResourceQuota of which nothing can be read."""
        self.quota.deny(namespace, name, problem)

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota. Idempotent."""
        self.quota.remove(namespace, name)

    # --- Filter, Prioritize ------------------------------------------------------------------------------------

    def filter(self, request: PodRequest, nodes: Sequence[str] | RawNames, *, limit: int = 16) -> FilterOutcome:
        """Rank the nodes a pod fits on. Changes nothing but the pod's own hold, which ends here.

        Args:
            request: The pod's effective request; one that asks for nothing fits on every registered node.
            nodes: The candidates, as names or as raw JSON.
            limit: How many of the best to return; each was verified exactly.

        Raises:
            WireError: Raw names are no JSON array of strings.
        """
        self.release_hold(request.uid)
        return self._search.run(Plan(request, self.rules, self.defaults), nodes, limit, self.quota)

    def fits(self, request: PodRequest) -> bool:
        """Whether a pod fits on any registered node; changes nothing."""
        return self._search.fits(Plan(request, self.rules, self.defaults), self.quota)

    def simulate(
        self,
        request: PodRequest,
        nodes: Sequence[tuple[NodeFacts, Mapping[str, Sequence[Device] | None]]],
        *,
        limit: int = 1,
    ) -> FilterOutcome:
        """Filter over nodes that may not exist (cluster-autoscaler's dry run): idle, no pods, quotas as they are.

        Args:
            request: The pod's effective request.
            nodes: Each with its devices by common word.
            limit: As in `filter`.
        """
        imagined = Inventory(tuple(self.rules.values()), self.defaults, quota=self.quota)
        for facts, devices in nodes:
            imagined.set_node(facts, devices)
        return imagined.filter(request, [facts.name for facts, _ in nodes], limit=limit)

    def explain(self, request: PodRequest, node: str | None = None) -> list[Reason]:
        """Say why a pod does not fit, device by device, with amounts.

        Args:
            request: The pod's effective request.
            node: One node, or None for all of them.

        Returns:
            One reason for each device that refuses (or for the node as a whole), ``detail`` naming node and container;
            empty for a node it fits on. Holds of other pods count, the pod's own does not.
        """
        names = [node] if node is not None else self.node_names()
        return [reason for name in names for reason in self._explain_node(request, name).reasons]

    def explain_text(self, request: PodRequest, node: str | None = None) -> str:
        """The same for people: ``needs 30000 MiB on one card; of n1's 8 cards the freest has 12000 MiB free``."""
        names = [node] if node is not None else self.node_names()
        return explaining.text([self._explain_node(request, name) for name in names])

    def _explain_node(self, request: PodRequest, name: str) -> explaining.Explanation:
        node = self._nodes.get(name)
        if node is None:
            return explaining.of_node(name, reasons.NODE_UNREGISTERED)
        if node.closed:
            return explaining.of_node(name, reasons.NODE_USAGE_UNAVAILABLE)
        if bar := node.bar(request.families):
            return explaining.of_node(name, bar)
        own = self._ledger.holds.get(request.uid)
        if own is not None:
            self._drop(own)
        try:
            plan = Plan(request, self.rules, self.defaults)
            return explaining.explain(name, node.cards(request.families), plan, self.quota)
        finally:
            if own is not None:
                self._put(own)

    # --- holds and bookings ------------------------------------------------------------------------------------

    def hold(self, request: PodRequest, node: str, until: float) -> Allocation | Rejection:
        """Keep a pod's place on a node until its Bind. Replaces the pod's earlier hold.

        Args:
            request: The pod's effective request.
            node: The node.
            until: When the hold ends, in the clock `expire_holds` is called with.

        Returns:
            What the pod would get, or why it does not fit (then it has no hold).
        """
        self.release_hold(request.uid)
        if (booked := self._ledger.bookings.get(request.uid)) is not None:
            return booked.allocation if booked.allocation.node == node else _booked_elsewhere(node, booked)
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            booking = Booking(request.uid, request.namespace, request.name, placed)
            generation = self._nodes[node].generation
            self._put(replace(_entry(booking), until=until, request=request, generation=generation))
        return placed

    def release_hold(self, uid: str) -> bool:
        """End a pod's hold. Idempotent; True if there was one."""
        entry = self._ledger.holds.get(uid)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def held_on(self, uid: str) -> str:
        """The node a place is held on for the pod; empty: none."""
        entry = self._ledger.holds.get(uid)
        return "" if entry is None else entry.allocation.node

    def expire_holds(self, now: float) -> list[str]:
        """End the holds whose time has come.

        Returns:
            UIDs of the pods that lost theirs.
        """
        ended = [e for e in self._ledger.holds.values() if e.until is not None and e.until <= now]
        for entry in ended:
            self._drop(entry)
        return [entry.uid for entry in ended]

    def holds(self) -> Iterator[tuple[Booking, float]]:
        """Every hold with its end."""
        for e in self._ledger.holds.values():
            yield _booking(e), e.until or 0.0

    @property
    def hold_count(self) -> int:
        """How many pods have a hold."""
        return len(self._ledger.holds)

    def book(self, request: PodRequest, node: str) -> Allocation | Rejection:
        """Book a pod on a node, at Bind.

        A valid hold there becomes the booking. Else the pod is placed beside the other pods' holds; where that fails,
        in their place: holds that no longer fit end, and their pods are placed again at their own Bind.
        Idempotent by UID: a pod booked there already gets the same answer.

        Returns:
            What the pod gets, or why it does not fit (then nothing has changed but its own hold).
        """
        if (booked := self._ledger.bookings.get(request.uid)) is not None:
            return booked.allocation if booked.allocation.node == node else _booked_elsewhere(node, booked)
        held = self._ledger.holds.get(request.uid)
        if held is not None:
            self._drop(held)
            if self._is_hold_valid(held, request, node):
                self._put(replace(held, until=None, request=None))
                return held.allocation
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            self._put(_entry(Booking(request.uid, request.namespace, request.name, placed)))
            return placed
        return self._displace(request, node, placed)

    def _displace(self, request: PodRequest, node: str, refused: Rejection) -> Allocation | Rejection:
        """Place a pod as if there were no holds on the node, then keep those that still fit beside it."""
        holds = self._ledger.holds_on(node)
        if not holds:
            return refused
        for entry in holds:
            self._drop(entry)
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            self._put(_entry(Booking(request.uid, request.namespace, request.name, placed)))
        for entry in holds:
            if not isinstance(placed, Allocation) or self._fits(entry):
                self._put(entry)
        return placed

    def bar(self, node: str, words: Sequence[str]) -> str:
        """Why a node gives no new pod devices of one of these families; empty: it does, or is not known."""
        known = self._nodes.get(node)
        return "" if known is None else known.bar(words)

    def release(self, uid: str) -> bool:
        """Drop a booking whose Bind failed. Idempotent; True if there was one."""
        entry = self._ledger.bookings.get(uid)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def _is_hold_valid(self, held: Entry, request: PodRequest, node: str) -> bool:
        """Whether a hold just dropped can be booked as it is: same node, devices and request, and still room."""
        known = self._nodes.get(node)
        return (
            held.allocation.node == node
            and known is not None
            and not known.closed
            and not known.bar(request.families)
            and held.generation == known.generation
            and held.request == request
            and self._fits(held)
        )

    def _fits(self, entry: Entry) -> bool:
        """Whether there is room for exactly these slices beside everything else (amounts, slots, MIG, quota)."""
        node = self._nodes.get(entry.allocation.node)
        if node is None or entry.request is None:
            return False
        for use in entry.uses:
            family = node.families.get(use.family)
            if family is None or not family.has_room(use):
                return False
        for word, amounts in amounts_by_family(entry.uses).items():
            if self.quota.refusal(entry.namespace, word, *amounts) is not None:
                return False
        plan = Plan(entry.request, self.rules, self.defaults)
        if any(ask.custom is not None or ask.may_refuse_combinations for asks in plan.asks for ask in asks):
            return False  # only placing the pod anew asks the vendor's own rules about the devices as they are now
        return self._rules_allow(entry, node, plan)

    def _rules_allow(self, entry: Entry, node: Node, plan: Plan) -> bool:
        """Whether exclusive and mutex rules allow these very slices now."""
        for container, asks in zip(entry.allocation.containers, plan.asks, strict=True):
            for ask in asks:
                family = node.families[ask.rules.family.word]
                for piece in container.slices:
                    if piece.family == ask.rules.family.word and not ask.may_share(
                        family.cards()[family.positions[piece.device_id]]
                    ):
                        return False
        return True

    def _place(self, request: PodRequest, name: str) -> Allocation | Rejection:
        node = self._nodes.get(name)
        if node is None:
            return Rejection(name, word=reasons.NODE_UNREGISTERED)
        if node.closed:
            return Rejection(name, word=reasons.NODE_USAGE_UNAVAILABLE)
        if bar := node.bar(request.families):
            return Rejection(name, word=bar)
        return place(name, node.cards(request.families), Plan(request, self.rules, self.defaults), self.quota)

    def _put(self, entry: Entry) -> None:
        self._ledger.put(entry)
        self._count(entry, 1)

    def _drop(self, entry: Entry) -> None:
        self._ledger.drop(entry)
        self._count(entry, -1)

    def _count(self, entry: Entry, sign: int) -> None:
        for word, amounts in amounts_by_family(entry.uses).items():
            memory, cores, devices = amounts
            self.quota.add(entry.namespace, word, sign * memory, sign * cores, sign * devices)
        self._changed.add(entry.allocation.node)
        node = self._nodes.get(entry.allocation.node)
        if node is None:
            return
        for use in entry.uses:
            family = node.families.get(use.family)
            if family is not None:
                position = family.apply(use, entry.pod, sign)
                if position >= 0:
                    self._cluster.refresh_card(node, use.family, position)

    # --- what is ------------------------------------------------------------------------------------------------

    def usage(self, node: str) -> tuple[DeviceUsage, ...]:
        """A node's devices with what is booked and held on them; empty for an unknown node."""
        known = self._nodes.get(node)
        return () if known is None else tuple(u for family in known.families.values() for u in family.usage())

    def watch_changes(self) -> set[str]:
        """Names of nodes whose `usage` or `bookings_on` have changed; at first every node there is.

        The set is the caller's, of whom there is one: it takes out what it has seen.
        """
        self._changed = {*self._nodes, *(entry.allocation.node for entry in self._ledger)}
        return self._changed

    def drift(self, nodes: Sequence[str] | None = None) -> int:
        """Recompute everything from nodes, bookings and holds, compare, and put right what differs.

        Args:
            nodes: Only these nodes and no quotas, so that a caller with other work to do can go through a large
                cluster in parts; None: everything at once (about 0.1 ms a node).

        Returns:
            How many sums differed; anything but 0 is a defect worth reporting.
        """
        known = self._nodes if nodes is None else {name: self._nodes[name] for name in nodes if name in self._nodes}
        differing = drift.repair_nodes(known, self._ledger, self._cluster)
        if differing:
            self._changed.update(known)
        if nodes is not None:
            return differing
        return differing + drift.repair_quota(self._ledger, self.quota)


def _entry(booking: Booking, *, init_done: bool = False) -> Entry:
    taken = uses(booking.allocation.containers, init_done=init_done)
    return Entry(booking.uid, booking.namespace, booking.name, booking.allocation, taken, init_done)


def _booking(entry: Entry) -> Booking:
    return Booking(entry.uid, entry.namespace, entry.name, entry.allocation)


def _same_devices(old: Mapping[str, FamilyDevices], new: Mapping[str, FamilyDevices]) -> bool:
    return old.keys() == new.keys() and all(old[word].devices == new[word].devices for word in old)


def _booked_elsewhere(node: str, booked: Entry) -> Rejection:
    return Rejection(node, word=f"pod is already booked on node {booked.allocation.node}")
