"""The inventory: the scheduler's only allocator. Single-threaded; time is passed in; no I/O."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hami_core.inventory import drift
from hami_core.inventory.ledger import Entry, Ledger
from hami_core.inventory.nodes import FamilyDevices, Node
from hami_core.inventory.search import Search
from hami_core.inventory.table import Cluster
from hami_core.model import Allocation, Booking
from hami_core.placement import explain as explaining
from hami_core.placement.order import device_order
from hami_core.placement.place import Plan, Rejection, place
from hami_core.placement.pod_usage import amounts_by_family, uses
from hami_core.placement.quota import QuotaBook
from hami_core.policies import PolicyDefaults
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hami_core.inventory.names import RawNames
    from hami_core.inventory.outcome import FilterOutcome
    from hami_core.model import Device, DeviceUsage, NodeFacts, PodRequest, Reason, VendorRules
    from hami_core.placement.card import Card


class Inventory:
    """Devices, bookings, holds and quotas of a cluster; answers Filter, Prioritize and Bind.

    Usage is a pure function of nodes, bookings and holds. It is kept incrementally, and `drift` recomputes and compares
    it. A *booking* is a pod's allocation that exists or is being written. A *hold* keeps a pod's place between Filter
    and Bind. Both count alike. Only Bind (`book`) may displace holds; nothing displaces a booking.

    Args:
        rules: Rules of every family served (`hami_core.plugins`). They never raise.
        defaults: Policies of pods that name none.
        quota: Limits and usage to share with another inventory; default: the inventory's own.

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
        self._keeping_slices = frozenset(word for word, rule in self.rules.items() if rule.family.mode_key)

    # --- nodes -------------------------------------------------------------------------------------------------

    def set_node(
        self, facts: NodeFacts, devices: Mapping[str, Sequence[Device] | None], *, closed: bool = False
    ) -> None:
        """Take in a node's devices, new or changed. Idempotent.

        Args:
            facts: The node.
            devices: Common word → devices; None or empty: the node has none of that family. A node without any
                device is not registered: Filter answers ``node unregistered`` for it.
            closed: Whether the node takes no new pods, because a vendor's `register` failed. Its pods keep counting.
        """
        families = {
            word: FamilyDevices(given, keeps_slices=word in self._keeping_slices)
            for word, given in devices.items()
            if given
        }
        old = self._nodes.get(facts.name)
        if old is not None and _same_devices(old.families, families):
            if old.facts != facts:
                old.facts = facts
                old.verdicts.clear()
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
                    families[use.family].apply(use, entry.pod, 1, keeps_off=entry.keeps_off)
        self._nodes[facts.name] = node
        self._cluster.set_node(node)
        self._changed.add(facts.name)

    def remove_node(self, name: str) -> None:
        """Forget a node. Its pods stay booked, and count again if it comes back. Unknown names are ignored."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._cluster.remove_node(node)
            self._changed.add(name)

    def bar_node(self, name: str, barred: Mapping[str, str]) -> None:
        """Set the families for which a registered node takes no new pods. Idempotent. Its pods keep counting.

        Args:
            name: The node; unknown names are ignored.
            barred: Common word → the reason, as refusals show it; empty: no family is barred.
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
        """Book a pod's allocation as the API server has it. It replaces any earlier booking. Idempotent.

        Ends the pod's hold. Terminating pods count until `remove_pod`.

        Args:
            booking: The pod and its allocation.
            init_done: Whether every init container, sidecars apart, has ended. Then only sidecars and app containers
                count. Once True, it stays True.

        Returns:
            Whether room was freed: by the end of the hold, or because the earlier booking was replaced.
        """
        freed = self.release_hold(booking.uid)
        old = self._ledger.bookings.get(booking.uid)
        if old is not None:
            done = init_done or old.init_done
            if old.booking == booking and done == old.init_done:
                return freed
            init_done = done
            self._drop(old)
            freed = True
        self._put(self._entry(booking, init_done=init_done))
        return freed

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that was deleted, succeeded or failed. Idempotent."""
        self.release_hold(uid)
        self.release(uid)

    def bookings(self) -> Iterator[Booking]:
        """Every booking."""
        return (entry.booking for entry in self._ledger.bookings.values())

    def bookings_on(self, node: str) -> list[Booking]:
        """Bookings on a node, registered or not, oldest first."""
        return [entry.booking for entry in self._ledger.bookings_on(node)]

    def booked_nodes(self) -> list[str]:
        """Names of the nodes that have bookings, registered or not."""
        return self._ledger.booked_nodes()

    def holds_on(self, node: str) -> list[Booking]:
        """Placements held on a node between Filter and Bind, oldest first."""
        return [entry.booking for entry in self._ledger.holds_on(node)]

    @property
    def booking_count(self) -> int:
        """Number of pods with a booking."""
        return len(self._ledger.bookings)

    def booking(self, uid: str) -> Booking | None:
        """A pod's booking; None: it has none."""
        entry = self._ledger.bookings.get(uid)
        return None if entry is None else entry.booking

    # --- quota -------------------------------------------------------------------------------------------------

    def set_quota(self, namespace: str, name: str, hard: Mapping[str, Any]) -> None:
        """Take in a ResourceQuota's ``spec.hard``, new or changed."""
        self.quota.set(namespace, name, hard)

    def deny_quota(self, namespace: str, name: str, problem: str) -> None:
        """Take in a ResourceQuota that can't be decoded. It allows nothing."""
        self.quota.deny(namespace, name, problem)

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota. Idempotent."""
        self.quota.remove(namespace, name)

    # --- Filter, Prioritize ------------------------------------------------------------------------------------

    def filter(self, request: PodRequest, nodes: Collection[str] | RawNames, *, limit: int = 16) -> FilterOutcome:
        """Rank the nodes on which a pod fits. This ends the pod's own hold and changes nothing else.

        Args:
            request: The pod's effective request. An empty request fits on every registered node.
            nodes: The candidates, as names or as raw JSON.
            limit: Most nodes to return. Each of them was checked exactly.

        Raises:
            WireError: Raw names are not a JSON array of strings.
        """
        self.release_hold(request.uid)
        return self._search.run(self.plan(request), nodes, limit, self.quota)

    def fits(self, request: PodRequest) -> bool:
        """Whether a pod fits on any registered node. Changes nothing."""
        return self._search.fits(self.plan(request), self.quota)

    def simulate(
        self,
        request: PodRequest,
        nodes: Sequence[tuple[NodeFacts, Mapping[str, Sequence[Device] | None]]],
        *,
        limit: int = 1,
    ) -> FilterOutcome:
        """Filter over idle nodes that need not exist (cluster-autoscaler's dry run), with the present quotas.

        Args:
            request: The pod's effective request.
            nodes: The nodes, each with its devices by common word.
            limit: As in `filter`.
        """
        imagined = Inventory(tuple(self.rules.values()), self.defaults, quota=self.quota)
        for facts, devices in nodes:
            imagined.set_node(facts, devices)
        return imagined.filter(request, [facts.name for facts, _ in nodes], limit=limit)

    def explain(self, request: PodRequest, node: str | None = None) -> list[Reason]:
        """Explain why a pod does not fit, device by device, with amounts.

        Holds of other pods count; the pod's own hold does not.

        Args:
            request: The pod's effective request.
            node: One node, or None for all nodes.

        Returns:
            One reason for each device that does not fit, or one for the whole node. ``detail`` names node and
            container. A node on which the pod fits has no reasons.
        """
        names = [node] if node is not None else self.node_names()
        return [reason for name in names for reason in self.explanation(request, name).reasons]

    def explain_text(self, request: PodRequest, node: str | None = None) -> str:
        """`explain` in sentences: ``needs 30000 MiB on one card; of n1's 8 cards the freest has 12000 MiB free``."""
        names = [node] if node is not None else self.node_names()
        return explaining.text([self.explanation(request, name) for name in names])

    def explanation(self, request: PodRequest, name: str) -> explaining.Explanation:
        """`explain` for one node, as a whole."""
        node = self._open_node(name, request.families)
        if isinstance(node, str):
            return explaining.of_node(name, node)
        plan = self.plan(request)
        with self._without(request.uid):
            return explaining.explain(name, self._cards(node, request.families, {request.uid}), plan, self.quota)

    def try_place(
        self,
        request: PodRequest,
        name: str,
        *,
        without: Collection[str] = (),
        uncordoned: Collection[str] = (),
        healed: Collection[str] = (),
        quota: bool = True,
    ) -> Allocation | Rejection:
        """Place a pod on a node as things might be. Changes nothing.

        Args:
            request: The pod's effective request. What the pod itself holds does not count.
            name: The node.
            without: UIDs of pods as if they had ended.
            uncordoned: Ids of devices as if they were not cordoned.
            healed: Ids of devices as if they were healthy.
            quota: Whether the namespace's quota counts.
        """
        node = self._open_node(name, request.families)
        if isinstance(node, str):
            return Rejection(name, word=node)
        gone = {request.uid, *without}
        cards = self._cards(node, request.families, gone)
        for card in (card for row in cards.values() for card in row) if uncordoned or healed else ():
            device = card.device
            cordoned = device.cordoned and device.id not in uncordoned
            healthy = device.healthy or device.id in healed
            card.device = replace(device, healthy=healthy, cordoned=cordoned)
            card.frozen = None
        with self._without(*gone):
            return place(name, cards, self.plan(request), self.quota if quota else None)

    def rank(self, request: PodRequest, *, limit: int) -> FilterOutcome:
        """`filter` over all registered nodes for a pod that holds nothing. Changes nothing."""
        return self._search.run(self.plan(request), self.node_names(), limit, self.quota)

    def plan(self, request: PodRequest) -> Plan:
        """The request with the rules and policies that it is placed by."""
        return Plan(request, self.rules, self.defaults)

    def _open_node(self, name: str, words: Sequence[str]) -> Node | str:
        """The node, or why it gives no new pod devices of these families."""
        node = self._nodes.get(name)
        if node is None:
            return reasons.NODE_UNREGISTERED
        if node.closed:
            return reasons.NODE_USAGE_UNAVAILABLE
        return node.bar(words) or node

    def _cards(self, node: Node, words: Sequence[str], gone: Collection[str]) -> dict[str, list[Card]]:
        """Fresh cards of a node, as if these pods had ended."""
        entries = self._ledger.on(node.facts.name)
        if all(entry.booking.uid not in gone for entry in entries):
            return node.cards(words)
        fresh = {word: node.families[word].empty() for word in words if word in node.families}
        for entry in entries:
            for use in entry.uses if entry.booking.uid not in gone else ():
                if use.family in fresh:
                    fresh[use.family].apply(use, entry.pod, 1, keeps_off=entry.keeps_off)
        return {word: family.cards() for word, family in fresh.items()}

    @contextmanager
    def _without(self, *uids: str) -> Iterator[None]:
        """Within the context, these pods do not count against their namespaces' quotas."""
        found = (self._ledger.bookings.get(uid) or self._ledger.holds.get(uid) for uid in uids)
        gone = [entry for entry in found if entry is not None]
        for entry in gone:
            self._count_quota(entry, -1)
        try:
            yield
        finally:
            for entry in gone:
                self._count_quota(entry, 1)

    # --- holds and bookings ------------------------------------------------------------------------------------

    def hold(self, request: PodRequest, node: str, until: float) -> Allocation | Rejection:
        """Keep a pod's place on a node until its Bind. Replaces the pod's earlier hold.

        Args:
            request: The pod's effective request.
            node: The node.
            until: When the hold ends, by the clock of `expire_holds`.

        Returns:
            The pod's allocation, or why it does not fit. In the latter case it has no hold.
        """
        self.release_hold(request.uid)
        if (booked := self._ledger.bookings.get(request.uid)) is not None:
            return _booked(booked, node)
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            generation = self._nodes[node].generation
            self._put(
                replace(self._entry(_booking_of(request, placed)), until=until, request=request, generation=generation)
            )
        return placed

    def release_hold(self, uid: str) -> bool:
        """End a pod's hold. Idempotent. Returns whether there was one."""
        entry = self._ledger.holds.get(uid)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def held_on(self, uid: str) -> str:
        """The node with the pod's hold; empty: it has none."""
        held = self.held(uid)
        return "" if held is None else held.allocation.node

    def held(self, uid: str) -> Booking | None:
        """The placement that is held for a pod between Filter and Bind; None: there is none."""
        entry = self._ledger.holds.get(uid)
        return None if entry is None else entry.booking

    def expire_holds(self, now: float) -> list[str]:
        """End expired holds.

        Returns:
            UIDs of the pods that lost their hold.
        """
        ended = [e for e in self._ledger.holds.values() if e.until is not None and e.until <= now]
        for entry in ended:
            self._drop(entry)
        return [entry.booking.uid for entry in ended]

    def holds(self) -> Iterator[tuple[Booking, float]]:
        """Every hold and the time when it ends."""
        for entry in self._ledger.holds.values():
            yield entry.booking, entry.until or 0.0

    @property
    def hold_count(self) -> int:
        """Number of pods with a hold."""
        return len(self._ledger.holds)

    def book(self, request: PodRequest, node: str) -> Allocation | Rejection:
        """Book a pod on a node, at Bind.

        A valid hold on the node becomes the booking. Otherwise the pod is placed beside the other pods' holds. If it
        does not fit there, it takes their place. Holds that no longer fit then end, and their pods are placed again at
        their own Bind. Idempotent by UID: a pod that is already booked there gets the same answer.

        Returns:
            The pod's allocation, or why it does not fit. In the latter case only its own hold has ended.
        """
        if (booked := self._ledger.bookings.get(request.uid)) is not None:
            return _booked(booked, node)
        held = self._ledger.holds.get(request.uid)
        if held is not None:
            self._drop(held)
            if self._is_hold_valid(held, request, node):
                self._put(replace(held, until=None, request=None))
                return held.booking.allocation
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            self._put(self._entry(_booking_of(request, placed)))
            return placed
        return self._displace(request, node, placed)

    def _displace(self, request: PodRequest, node: str, refused: Rejection) -> Allocation | Rejection:
        """Place a pod as if the node had no holds, then keep the holds that still fit."""
        holds = self._ledger.holds_on(node)
        if not holds:
            return refused
        for entry in holds:
            self._drop(entry)
        placed = self._place(request, node)
        if isinstance(placed, Allocation):
            self._put(self._entry(_booking_of(request, placed)))
        for entry in holds:
            if not isinstance(placed, Allocation) or self._fits(entry):
                self._put(entry)
        return placed

    def bar(self, node: str, words: Sequence[str]) -> str:
        """Why one of these families is barred on a node; empty: none is, or the node is unknown."""
        known = self._nodes.get(node)
        return "" if known is None else known.bar(words)

    def release(self, uid: str) -> bool:
        """Drop a pod's booking. Idempotent. Returns whether there was one."""
        entry = self._ledger.bookings.get(uid)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def _is_hold_valid(self, held: Entry, request: PodRequest, node: str) -> bool:
        """Whether a hold, just dropped, can be booked unchanged: same node, devices and request, and still room."""
        known = self._nodes.get(node)
        return (
            held.booking.allocation.node == node
            and known is not None
            and not known.closed
            and not known.bar(request.families)
            and held.generation == known.generation
            and held.request == request
            and self._fits(held)
        )

    def _fits(self, entry: Entry) -> bool:
        """Whether there is room for exactly these slices, by amounts, slots, MIG instances, quota and sharing rules."""
        node = self._nodes.get(entry.booking.allocation.node)
        if node is None or entry.request is None:
            return False
        for use in entry.uses:
            family = node.families.get(use.family)
            if family is None or not family.has_room(use):
                return False
        for word, amounts in amounts_by_family(entry.uses).items():
            if self.quota.refusal(entry.booking.namespace, word, *amounts) is not None:
                return False
        plan = Plan(entry.request, self.rules, self.defaults)
        if any(ask.must_be_asked_again for asks in plan.asks for ask in asks):
            return False  # the vendor's rules have to be asked again, which only placing the pod does
        return self._rules_allow(entry, node, plan)

    def _rules_allow(self, entry: Entry, node: Node, plan: Plan) -> bool:
        """Whether the rules about exclusive and mutex cards, and about modes, allow exactly these slices now."""
        for container, asks in zip(entry.booking.allocation.containers, plan.asks, strict=True):
            for ask in asks:
                family = node.families[ask.rules.family.word]
                for piece in container.slices:
                    if piece.family != ask.rules.family.word:
                        continue
                    card = family.cards()[family.positions[piece.device_id]]
                    if not ask.may_share(card) or ask.type_refusal(card.kind) is not None:
                        return False
        return True

    def _place(self, request: PodRequest, name: str) -> Allocation | Rejection:
        node = self._open_node(name, request.families)
        if isinstance(node, str):
            return Rejection(name, word=node)
        return place(name, node.cards(request.families), self.plan(request), self.quota)

    def _entry(self, booking: Booking, *, init_done: bool = False) -> Entry:
        taken = uses(booking.allocation.containers, init_done=init_done, keep_slices=self._keeping_slices)
        policy = booking.device_policy or self.defaults.device_policy
        return Entry(booking, self.defaults.keep_idle_only and device_order(policy).idle_only, taken, init_done)

    def _put(self, entry: Entry) -> None:
        self._ledger.put(entry)
        self._count(entry, 1)

    def _drop(self, entry: Entry) -> None:
        self._ledger.drop(entry)
        self._count(entry, -1)

    def _count_quota(self, entry: Entry, sign: int) -> None:
        for word, amounts in amounts_by_family(entry.uses).items():
            memory, cores, devices = amounts
            self.quota.add(entry.booking.namespace, word, sign * memory, sign * cores, sign * devices)

    def _count(self, entry: Entry, sign: int) -> None:
        self._count_quota(entry, sign)
        self._changed.add(entry.booking.allocation.node)
        node = self._nodes.get(entry.booking.allocation.node)
        if node is None:
            return
        node.verdicts.clear()
        for use in entry.uses:
            family = node.families.get(use.family)
            if family is not None:
                position = family.apply(use, entry.pod, sign, keeps_off=entry.keeps_off)
                if position >= 0:
                    self._cluster.refresh_card(node, use.family, position)

    # --- usage, changes, drift ---------------------------------------------------------------------------------

    def usage(self, node: str) -> tuple[DeviceUsage, ...]:
        """A node's devices with the sums of bookings and holds; empty for an unknown node."""
        known = self._nodes.get(node)
        return () if known is None else tuple(u for family in known.families.values() for u in family.usage())

    def watch_changes(self) -> set[str]:
        """Names of nodes whose `usage` or `bookings_on` have changed. At first the set has every node.

        There is one caller, which owns the set and removes the nodes that it has handled.
        """
        self._changed = {*self._nodes, *(entry.booking.allocation.node for entry in self._ledger)}
        return self._changed

    def drift(self, nodes: Sequence[str] | None = None) -> int:
        """Recompute usage from nodes, bookings and holds, compare it, and repair what differs.

        Args:
            nodes: Only these nodes, and no quotas. So a caller can check a large cluster in parts. None: everything at
                once, which takes about 0.1 ms for each node.

        Returns:
            Number of sums that differed. Anything but 0 is a defect to report.
        """
        known = self._nodes if nodes is None else {name: self._nodes[name] for name in nodes if name in self._nodes}
        differing = drift.repair_nodes(known, self._ledger, self._cluster)
        if differing:
            self._changed.update(known)
        if nodes is not None:
            return differing
        return differing + drift.repair_quota(self._ledger, self.quota)


def _booking_of(request: PodRequest, placed: Allocation) -> Booking:
    return Booking(request.uid, request.namespace, request.name, placed, request.device_policy)


def _same_devices(old: Mapping[str, FamilyDevices], new: Mapping[str, FamilyDevices]) -> bool:
    return old.keys() == new.keys() and all(old[word].devices == new[word].devices for word in old)


def _booked(entry: Entry, node: str) -> Allocation | Rejection:
    allocation = entry.booking.allocation
    if allocation.node == node:
        return allocation
    return Rejection(node, word=f"pod is already booked on node {allocation.node}")
