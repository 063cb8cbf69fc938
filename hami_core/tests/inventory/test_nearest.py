"""Nearest misses: each change that is named is enough, amounts are the greatest, and asking changes nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from hami_core.inventory import Rejection
from hami_core.model import Allocation, Booking, NodeFacts, PodRequest
from hami_core.placement.nearest import Change, ChangeKind, Miss, is_never, nearest

from .test_inventory import devices, inventory, pod
from .worlds import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.inventory import Inventory


def rewritten(
    made: Inventory, request: PodRequest, container: str, limits: Mapping[str, int], without=()
) -> PodRequest:
    """The request with other amounts, as a vendor would read them from a pod's limits."""
    parts = []
    for part in request.containers:
        asks = []
        for ask in part.requests:
            names = made.rules[ask.family].family.resources
            given = limits if part.name == container else {}
            asks.append(
                replace(
                    ask,
                    annotations={key: value for key, value in ask.annotations.items() if key not in without},
                    numa_bind=ask.numa_bind and not without,
                    count=given.get(names.count, ask.count),
                    memory_mib=given.get(names.memory, ask.memory_mib),
                    memory_percent=None if given.get(names.memory_percentage) == 0 else ask.memory_percent,
                    cores=given.get(names.cores, ask.cores),
                )
            )
        parts.append(replace(part, requests=tuple(asks)))
    return replace(request, containers=tuple(parts))


def miss_on(made: Inventory, request: PodRequest, node: str) -> Miss:
    held = {one.uid: 1 for one in (*made.bookings_on(node), *made.holds_on(node)) if one.uid != request.uid}
    written = {key for part in request.containers for ask in part.requests for key in ask.annotations}
    families = {word: rules.family for word, rules in made.rules.items()}
    place, rewrite = partial(made.try_place, name=node), partial(rewritten, made, request)
    return Miss(request, made.usage(node), held, families, written, place, rewrite)


def state(made: Inventory):
    usage = {name: made.usage(name) for name in made.node_names()}
    return usage, list(made.bookings()), list(made.holds()), made.quota.usage()


def applied(miss: Miss, change: Change, **more: int) -> Allocation | Rejection:
    request = miss.rewrite(change.container, {**change.limits, **more}, change.annotations)
    quota = change.kind is not ChangeKind.QUOTA
    uncordoned = change.devices if "cordoned" in change.text else ()
    healed = change.devices if " healthy" in change.text else ()
    return miss.place(request, without=change.pods, uncordoned=uncordoned, healed=healed, quota=quota)


@pytest.mark.parametrize("seed", range(20))
def test_each_change_is_enough_and_amounts_are_the_greatest(seed):
    found = sum(check(World(random.Random(3 * seed + part), nodes=6)) for part in range(3))
    assert found > 5


def check(world: World) -> int:
    """Check the changes for some pods. Returns their number."""
    made, found = world.inventory, 0
    world.set_quota()
    for _ in range(12):
        request, _ = world.pod()
        made.hold(request, world.rng.choice(made.node_names()), until=1.0)
        for node in made.node_names()[:3]:
            before, miss = state(made), miss_on(made, request, node)
            changes = nearest(miss)
            assert state(made) == before
            assert not changes or isinstance(made.try_place(request, node), Rejection)
            for change in changes:
                found += 1
                assert isinstance(applied(miss, change), Allocation), change
                if change.kind is ChangeKind.LIMITS and len(request.containers) == 1:
                    more = {name: amount + 1 for name, amount in change.limits.items()}
                    assert isinstance(applied(miss, change, **more), Rejection), change
            if is_never(miss):
                assert all(change.kind in {ChangeKind.LIMITS, ChangeKind.SELECTION} for change in changes)
        before = state(made)
        made.rank(request, limit=4)
        assert state(made) == before
    assert made.drift() == 0
    return found


def test_own_hold_and_booking_do_not_count_and_stay():
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    before = state(made)
    assert isinstance(made.try_place(pod("a", 16000), "n1"), Allocation)
    assert made.rank(pod("a", 16000), limit=1).hold_node is None, "a pod that holds nothing is ranked"
    assert isinstance(made.try_place(pod("b", 16000), "n1"), Rejection)
    assert isinstance(made.try_place(pod("b", 16000), "n1", without=["a"]), Allocation)
    assert state(made) == before
    made.book(pod("a", 10000), "n1")
    assert isinstance(made.try_place(pod("a", 16000), "n1"), Allocation)


def test_pods_own_amounts_do_not_count_against_its_quota():
    made = inventory("n1", "n2")
    made.set_quota("team", "q", {"limits.nvidia.com/gpumem": 10000})
    placed = made.book(pod("a", 8000), "n1")
    made.set_pod(Booking("a", "team", "a", placed))
    assert isinstance(made.try_place(pod("a", 9000), "n2"), Allocation)
    assert isinstance(made.try_place(pod("b", 9000), "n2"), Rejection)
    assert isinstance(made.try_place(pod("b", 9000), "n2", quota=False), Allocation)
    assert isinstance(made.try_place(pod("b", 9000), "n2", without=["a"]), Allocation)
    assert made.quota.used("team", "NVIDIA").memory_mib == 8000


def test_card_that_is_closed_twice_has_to_be_opened_twice():
    made = inventory()
    closed = [replace(device, healthy=False, cordoned=True) for device in devices("n1", 1)]
    made.set_node(NodeFacts("n1"), {"NVIDIA": closed})
    told = nearest(miss_on(made, pod("a", 100), "n1"))
    assert [change.text for change in told] == ["if card 0 (n1-0) were healthy and not cordoned"]
    one, two = devices("n1", 2)
    made.set_node(NodeFacts("n1"), {"NVIDIA": [replace(one, healthy=False), replace(two, cordoned=True)]})
    told = nearest(miss_on(made, pod("a", 100, cards=2), "n1"))
    assert [change.text for change in told] == ["if cards 0, 1 were healthy and not cordoned"]
    told = nearest(miss_on(made, pod("a", 100), "n1"))
    assert [change.text for change in told] == [
        "if card 1 (n1-1) were not cordoned", "if card 0 (n1-0) were healthy",
    ]  # fmt: skip


def test_closed_and_unknown_nodes_have_no_change():
    made = inventory("n1")
    made.bar_node("n1", {"NVIDIA": "its agent is away"})
    assert nearest(miss_on(made, pod("a", 100), "n1")) == []
    assert nearest(miss_on(made, pod("a", 100), "n9")) == []
