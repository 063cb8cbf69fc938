"""In any sequence of events, holds and bookings no card is overcommitted, and the sums never drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    Device,
    MigPlacement,
    MigProfile,
    NodeFacts,
    PodRequest,
    Request,
)
from hami_core.placement import Rejection, uses

from .worlds import A100, rules

NODES = ["n1", "n2", "n3"]
LIMIT = 60_000
PROFILES = tuple(
    MigProfile(name, memory, cores, 1, tuple(MigPlacement(*place) for place in places))
    for name, memory, cores, places in A100
)


def _devices(node: str, count: int, *, mig: bool) -> list[Device]:
    return [
        Device(
            f"{node}-{i}", i, 3, 40960, 100, "NVIDIA-A100", "NVIDIA", i % 2, "mig" if mig else "hami-core",
            mig_profiles=PROFILES if mig else (),
        )
        for i in range(count)
    ]  # fmt: skip


requests = st.lists(
    st.tuples(
        st.sampled_from(list(ContainerKind)),
        st.integers(1, 2),
        st.sampled_from([0, 1000, 9000, 20000, 40960]),
        st.sampled_from([0, 20, 50, 100]),
    ),
    min_size=1,
    max_size=3,
)


class Machine(RuleBasedStateMachine):
    """Scheduler, informer and clock at random."""

    @initialize(mig=st.booleans(), keeps=st.booleans())
    def start(self, mig: bool, keeps: bool) -> None:
        self.keeps = keeps
        self.inventory = Inventory(rules(), PolicyDefaults(keep_idle_only=keeps))
        self.devices = {node: _devices(node, 2, mig=mig and node == "n3") for node in NODES}
        self.nodes: set[str] = set()
        self.known: dict[str, tuple[PodRequest, Allocation]] = {}
        self.numbers = iter(range(10**6))
        self.done: set[str] = set()
        self.now = 0.0
        self.inventory.set_quota("limited", "q", {"limits.nvidia.com/gpumem": str(LIMIT)})
        for node in NODES:
            self.put_node(node)

    def _request(self, shape: Any, policy: str, namespace: str) -> PodRequest:
        shape = sorted(shape, key=lambda part: part[0] is ContainerKind.APP)
        parts = tuple(
            ContainerRequest(f"c{i}", kind, (Request("NVIDIA", count, memory, None if memory else 50, cores),))
            for i, (kind, count, memory, cores) in enumerate(shape)
        )
        uid = f"u{next(self.numbers)}"
        return PodRequest(uid, namespace, uid, parts, "binpack", policy)

    @rule(node=st.sampled_from(NODES))
    def put_node(self, node: str) -> None:
        self.inventory.set_node(NodeFacts(node), {"NVIDIA": self.devices[node]})
        self.nodes.add(node)

    @rule(node=st.sampled_from(NODES))
    def remove_node(self, node: str) -> None:
        self.inventory.remove_node(node)
        self.nodes.discard(node)

    @rule(node=st.sampled_from(NODES), position=st.integers(0, 1), healthy=st.booleans(), cordoned=st.booleans())
    def change_card(self, node: str, position: int, healthy: bool, cordoned: bool) -> None:
        devices = list(self.devices[node])
        devices[position] = replace(devices[position], healthy=healthy, cordoned=cordoned)
        self.devices[node] = devices
        if node in self.nodes:
            self.put_node(node)

    @rule(
        shape=requests,
        policy=st.sampled_from(["binpack", "spread", "mutex", "topology-aware"]),
        namespace=st.sampled_from(["free", "limited"]),
        bind=st.sampled_from(["hold", "hold+book", "book", "book elsewhere"]),
        until=st.integers(1, 20),
    )
    def schedule(self, shape: Any, policy: str, namespace: str, bind: str, until: int) -> None:
        request = self._request(shape, policy, namespace)
        outcome = self.inventory.filter(request, NODES)
        assert len(outcome.best) + len(outcome.refused) == len(NODES)
        node = outcome.hold_node
        if node is None:
            assert all(isinstance(self.inventory.hold(request, name, 1e9), Rejection) for name in NODES)
            return
        if "hold" in bind:
            held = self.inventory.hold(request, node, self.now + until)
            assert isinstance(held, Allocation), "a node that Filter returned must take the pod"
            if bind == "hold":
                self.known[request.uid] = (request, held)
                return
        target = NODES[(NODES.index(node) + 1) % 3] if bind == "book elsewhere" else node
        booked = self.inventory.book(request, target)
        if target == node:
            assert isinstance(booked, Allocation)
        if isinstance(booked, Allocation):
            assert self.inventory.book(request, target) == booked
            self.known[request.uid] = (request, booked)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def bind_later(self, data: st.DataObject) -> None:
        request, allocation = self.known[data.draw(st.sampled_from(sorted(self.known)))]
        self.inventory.book(request, allocation.node)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), how=st.sampled_from(["remove", "release", "release_hold"]))
    def end(self, data: st.DataObject, how: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self.known)))
        if how == "remove":
            self.inventory.remove_pod(uid)
        elif how == "release":
            self.inventory.release(uid)
        else:
            self.inventory.release_hold(uid)
        if self.inventory.booking(uid) is None:
            self.done.discard(uid)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), done=st.booleans())
    def informer(self, data: st.DataObject, done: bool) -> None:
        """The informer shows bookings, and init containers end."""
        booking = self.inventory.booking(data.draw(st.sampled_from(sorted(self.known))))
        if booking is not None:
            self.inventory.set_pod(booking, init_done=done)
            if done:
                self.done.add(booking.uid)

    @rule(seconds=st.integers(1, 10))
    def clock(self, seconds: int) -> None:
        self.now += seconds
        ended = self.inventory.expire_holds(self.now)
        assert len(set(ended)) == len(ended)
        assert all(until > self.now for _, until in self.inventory.holds())

    @invariant()
    def nothing_is_over_committed(self) -> None:
        if not hasattr(self, "inventory"):
            return
        for node in self.nodes:
            for usage in self.inventory.usage(node):
                device = usage.device
                assert 0 <= usage.used_slots <= device.slots
                if device.mode == "mig":
                    assert all(place.start >= 0 and place.start + place.size <= 8 for place in usage.mig_in_use)
                else:
                    assert 0 <= usage.used_memory_mib <= device.memory_mib
                    assert 0 <= usage.used_cores <= device.cores
                    assert not usage.mig_in_use

    @invariant()
    def mutex_pods_stay_alone(self) -> None:
        if not hasattr(self, "inventory") or not self.keeps:
            return
        alone = {b.name for b in self._bookings() if b.device_policy == "mutex"}
        for node in self.nodes:
            for usage in self.inventory.usage(node):
                names = [pod.partition("/")[2] for pod in usage.pods]
                assert len(names) <= 1 or alone.isdisjoint(names)

    @invariant()
    def instances_of_different_pods_do_not_overlap(self) -> None:
        if not hasattr(self, "inventory"):
            return
        taken: dict[tuple[str, int], str] = {}
        for booking in self._bookings():
            for use in uses(booking.allocation.containers, init_done=booking.uid in self.done):
                for place in use.mig:
                    for part in range(place.start, place.start + place.size):
                        assert taken.setdefault((use.device_id, part), booking.uid) == booking.uid

    @invariant()
    def the_quota_holds(self) -> None:
        if hasattr(self, "inventory"):
            used = {row.resource: row.used for row in self.inventory.quota.rows() if row.namespace == "limited"}
            peaks = [u for b in self._bookings() if b.namespace == "limited" for u in uses(b.allocation.containers)]
            assert used.get("nvidia.com/gpumem", 0) <= max(LIMIT, 0)
            assert sum(u.memory_mib for u in peaks) >= used.get("nvidia.com/gpumem", 0)

    @invariant()
    def nothing_drifts(self) -> None:
        if hasattr(self, "inventory"):
            assert self.inventory.drift() == 0

    def _bookings(self) -> list[Booking]:
        return [*self.inventory.bookings(), *(hold for hold, _ in self.inventory.holds())]


_BASE = settings(deadline=None, suppress_health_check=list(HealthCheck))


def test_random_histories() -> None:
    run_state_machine_as_test(Machine, settings=settings(_BASE, max_examples=60, stateful_step_count=30))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_random_histories_long() -> None:
    run_state_machine_as_test(Machine, settings=settings(_BASE, max_examples=3000, stateful_step_count=60))
