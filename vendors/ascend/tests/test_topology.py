"""Pairs of the 910C and networks of the 910 family, through the vendor as the core loads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hami_core.inventory import Inventory
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    NodeFacts,
    PodRequest,
    Request,
    Slice,
)
from hami_core.plugins import load

if TYPE_CHECKING:
    from collections.abc import Sequence

B3, C = "Ascend910B3", "Ascend910C"


def npus(word: str, networks: Sequence[int | None], unhealthy: Sequence[int] = ()) -> str:
    """A register with one NPU for each entry, which is its network; None: the NPU names none."""
    entries = []
    for index, network in enumerate(networks):
        entry = {"id": f"d{index}", "index": index, "count": 4, "devmem": 65536, "devcore": 20, "type": word}
        custom = {} if network is None else {"custominfo": {"NetworkID": network}}
        entries.append({**entry, "health": index not in unhealthy, **custom})
    return json.dumps(entries)


def inventory(**registers: str) -> Inventory:
    """An inventory of nodes, each with a register of one word: ``word=register`` gives node ``n-word``."""
    loaded = load({}, only=["ascend"])
    made = Inventory(loaded.rules())
    for name, text in registers.items():
        word = name.partition("_")[0]
        facts = NodeFacts(
            f"n-{name}", {f"hami.io/node-register-{word}": text}, allocatable={f"huawei.com/{word}": "99"}
        )
        made.set_node(facts, loaded.register(facts).devices)
    return made


def pod(word: str, *counts: int, policy: str = "", node_policy: str = "") -> PodRequest:
    containers = tuple(
        ContainerRequest(f"c{n}", ContainerKind.APP, (Request(word, count, memory_percent=100),))
        for n, count in enumerate(counts)
    )
    return PodRequest("u", "ns", "p", containers, node_policy, policy)


def taken(placed: object) -> set[int]:
    assert isinstance(placed, Allocation), placed
    return {int(piece.device_id.removeprefix("d")) for part in placed.containers for piece in part.slices}


@pytest.mark.parametrize("policy", ["binpack", "spread", "mutex"])
def test_910c_gives_two_npus_of_one_module(policy):
    books = inventory(Ascend910C=npus(C, [0] * 8, unhealthy=(7, 5, 1)))
    assert taken(books.book(pod(C, 2, policy=policy), f"n-{C}")) == {2, 3}


def test_910c_without_a_whole_module_is_refused_with_the_reason():
    books = inventory(Ascend910C=npus(C, [0] * 4, unhealthy=(1, 2)))
    refused = books.filter(pod(C, 2), [f"n-{C}"]).refused
    assert refused[f"n-{C}"] == "2/4 AllocatedCardsInsufficientRequest, 2/4 CardNotHealth"
    assert "whole modules of 2; 0 modules have both NPUs free" in books.explain_text(pod(C, 2))


def test_910c_containers_get_different_modules():
    books = inventory(Ascend910C=npus(C, [0] * 8))
    placed = books.book(pod(C, 4, 2), f"n-{C}")
    assert isinstance(placed, Allocation)
    first, second = ({int(p.device_id[1:]) // 2 for p in part.slices} for part in placed.containers)
    assert (len(first), len(second), first & second) == (2, 1, set())


def test_single_910c_npu_takes_any():
    books = inventory(Ascend910C=npus(C, [0] * 2, unhealthy=(1,)))
    assert taken(books.book(pod(C, 1), f"n-{C}")) == {0}


def test_npus_come_from_the_largest_network():
    books = inventory(Ascend910B3=npus(B3, [1, 0, 1, 0, 1, 0, 0], unhealthy=(6, 5)))
    assert taken(books.book(pod(B3, 3), f"n-{B3}")) == {0, 2, 4}


def test_unknown_network_leaves_the_order_to_the_policy():
    books = inventory(Ascend910B3=npus(B3, [1, 0, 0, None]))
    assert taken(books.book(pod(B3, 2), f"n-{B3}")) == {2, 3}


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_node_with_one_network_comes_first(policy):
    books = inventory(Ascend910B3_a=npus(B3, [0, 1]), Ascend910B3_b=npus(B3, [1, 1]))
    best = books.filter(pod(B3, 2, node_policy=policy), books.node_names()).best
    assert [name for name, _ in best] == [f"n-{B3}_b", f"n-{B3}_a"]


def test_networks_rate_nodes_only_for_several_npus():
    """One NPU is always in one network, so Filter needs not place the pod on every node."""
    books = inventory(Ascend910B3=npus(B3, [0, 0]))
    assert [books.filter(pod(B3, count), books.node_names()).best[0][1] for count in (1, 2)] == [0.0, 10.0]


@pytest.mark.parametrize(
    ("networks", "counts", "score"),
    [([0, 0, 0, 1], (4,), 7.5), ([0, 0, 1, 1], (2, 2), 20.0), ([0, 0, 0, None], (4,), 0.0), ([3, 3], (1,), 10.0)],
)
def test_node_score_counts_the_largest_network_of_each_container(networks, counts, score):
    (rules,) = [r for r in load({}, only=["ascend"]).rules() if r.family.word == B3]
    left = iter(range(len(networks)))
    parts = [
        ContainerSlices(f"c{n}", ContainerKind.APP, tuple(Slice(f"d{next(left)}", B3, 1, 0) for _ in range(count)))
        for n, count in enumerate(counts)
    ]
    node = NodeFacts("n1", {f"hami.io/node-register-{B3}": npus(B3, networks)})
    assert rules.score_node is not None
    assert rules.score_node(node, Allocation("n1", tuple(parts)), "binpack", ()) == pytest.approx(score)
    assert rules.score_node(node, Allocation("n1", tuple(parts)), "spread", ()) == pytest.approx(-score)


def test_310p_npus_have_no_network():
    books = inventory(Ascend310P=npus("Ascend310P", [0, 1, 1, 0]))
    assert books.filter(pod("Ascend310P", 2), books.node_names()).best == [("n-Ascend310P", 0.0)]
