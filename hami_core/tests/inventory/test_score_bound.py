"""Filter places a pod only where the vendor's score can still change the order, and the answer stays the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hami_core.inventory import Inventory
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    Device,
    DeviceUsage,
    Family,
    NodeFacts,
    PodRequest,
    Request,
    Resources,
    Slice,
    VendorRules,
)

if TYPE_CHECKING:
    from hami_core.inventory import FilterOutcome

PLAIN = Family("X", Resources("x.com/n", "x.com/mem"), "x")
BOUND = 10.0


def cluster(scores: list[float], bound: float | None, asked: list[str], *, seed: int = 0) -> Inventory:
    """A node for each score that the vendor gives. Each node has two cards, of which some are in use."""

    def score_node(node: NodeFacts, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]) -> float:
        asked.append(node.name)
        return scores[int(node.name)]

    rng = random.Random(seed)
    made = Inventory([VendorRules(replace(PLAIN, score_bound=bound), score_node=score_node)])
    for number in range(len(scores)):
        cards = [Device(f"{number}-{i}", i, 10, 16384, 100, "X1", "X") for i in range(2)]
        made.set_node(NodeFacts(str(number)), {"X": cards})
        for card in cards if seed else ():
            piece = Slice(card.id, "X", rng.choice([0, 4096, 8192, 16384]), rng.choice([0, 50]))
            part = ContainerSlices("c", ContainerKind.APP, (piece,))
            made.set_pod(Booking(card.id, "default", card.id, Allocation(str(number), (part,))))
    return made


def found(books: Inventory, policy: str, limit: int, count: int = 1) -> FilterOutcome:
    containers = tuple(
        ContainerRequest(f"c{i}", ContainerKind.APP, (Request("X", count, 4096, None, 10),)) for i in range(2)
    )
    pod = PodRequest("u", "default", "pod", containers, policy, "binpack")
    return books.filter(pod, books.node_names(), limit=limit)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize("seed", range(1, 21))
def test_best_nodes_are_the_same_with_and_without_a_bound(policy, seed):
    rng = random.Random(seed)
    scores = [rng.choice([-20.0, -10.0, 0.0, 5.0, 10.0, 20.0]) for _ in range(40)]
    answers = [
        found(cluster(scores, bound, [], seed=seed), policy, limit, count=rng.choice([1, 2])).best
        for limit in (1, 3, 40)
        for bound, rng in ((None, random.Random(limit)), (BOUND, random.Random(limit)))
    ]
    assert answers[0::2] == answers[1::2]
    assert any(answers)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_pod_is_placed_only_where_the_score_can_matter(policy):
    best = 2 * BOUND if policy == "binpack" else -2 * BOUND
    asked: list[str] = []
    outcome = found(cluster([best] * 500, BOUND, asked), policy, limit=1)
    assert (outcome.best, outcome.fitting) == ([("0", best)], 500)
    assert asked == ["0"]


def test_score_beyond_the_bound_counts_as_the_bound():
    assert found(cluster([500.0, -500.0], BOUND, []), "binpack", limit=2).best == [("0", 20.0), ("1", -20.0)]
