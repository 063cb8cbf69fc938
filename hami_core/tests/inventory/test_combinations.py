"""Devices that go together: the examples of docs/reference/hooks.md against every combination there is."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import combinations

import pytest

from hami_core.inventory import Inventory, PolicyDefaults, Rejection
from hami_core.model import Allocation, NodeFacts, VendorRules
from hami_core.plugins.reference import page

from .test_inventory import APP, INIT, devices, pod
from .worlds import rules


def example(name: str) -> VendorRules:
    """NVIDIA's rules with the page's `choose` in place of its own."""
    code = next(block for block in re.findall(r"```python\n(.*?)```", page(), re.DOTALL) if f"class {name}" in block)
    space: dict[str, type] = {}
    exec(code, space)
    nvidia = rules()[0]
    return replace(
        nvidia,
        family=replace(nvidia.family, choose_policies=None, choose_refuses=True),
        choose=space[name]().choose,
    )


def cluster(name: str, cards: int, out: frozenset[int] = frozenset()) -> Inventory:
    """One node; cards that are out of order count for nobody."""
    made = Inventory([example(name)], PolicyDefaults("binpack", "binpack"))
    there = [replace(device, healthy=device.index not in out) for device in devices("n1", cards)]
    made.set_node(NodeFacts("n1"), {"NVIDIA": there})
    return made


def go_together(name: str, cards: tuple[int, ...]) -> bool:
    if name == "Pairs":
        return len(cards) == 1 or (len(cards) == 2 and cards[0] % 2 == 0 and cards[1] == cards[0] + 1)
    arcs = [{(first + step) % 4 for step in range(len(cards))} for first in range(4)]
    return len({card // 4 for card in cards}) == 1 and {card % 4 for card in cards} in arcs


def given(placed: Allocation | Rejection) -> tuple[int, ...]:
    assert isinstance(placed, Allocation), placed
    return tuple(sorted(int(piece.device_id.rpartition("-")[2]) for c in placed.containers for piece in c.slices))


def test_an_idle_pair_is_found_behind_a_card_that_binpack_prefers():
    made = cluster("Pairs", 4)
    (busy,) = given(made.book(pod("little", 3000), "n1"))
    wanted = pod("two", 15000, cards=2)
    assert made.filter(wanted, ["n1"]).hold_node == "n1"
    assert given(made.book(wanted, "n1")) == tuple(card for card in range(4) if card // 2 != busy // 2)


@pytest.mark.parametrize("name", ["Pairs", "Rings"])
def test_a_combination_is_found_exactly_where_there_is_one(name):
    rng = random.Random(7)
    seen = set()
    for _ in range(200):
        out = frozenset(card for card in range(8) if rng.random() < 0.4)
        count = rng.randint(1, min(5, 8 - len(out)) or 1)
        free = [card for card in range(8) if card not in out]
        any_will_do = any(go_together(name, cards) for cards in combinations(free, count))
        made, wanted = cluster(name, 8, out), pod("a", 1000, cards=count)
        assert (made.filter(wanted, ["n1"]).hold_node == "n1") is any_will_do, "Filter and Bind are of one opinion"
        placed = made.book(wanted, "n1")
        assert isinstance(placed, Allocation) is any_will_do, (out, count, placed)
        if any_will_do:
            cards = given(placed)
            assert go_together(name, cards)
            assert not out & set(cards)
        seen.add((count, any_will_do))
    assert {(1, True), (2, True), (2, False)} <= seen


def test_each_container_of_a_pod_has_a_combination_of_its_own():
    made = cluster("Pairs", 4)
    placed = made.book(pod("a", (INIT, 9000), (APP, 9000), (APP, 9000), cards=2), "n1")
    assert isinstance(placed, Allocation)
    for container in placed.containers:
        assert go_together("Pairs", tuple(sorted(int(p.device_id.rpartition("-")[2]) for p in container.slices)))
    assert isinstance(made.book(pod("b", 9000, cards=2), "n1"), Rejection)


def test_where_no_combination_is_free_the_pod_is_told_so():
    made = cluster("Pairs", 4, out=frozenset({1, 2}))
    wanted = pod("two", 9000, cards=2)
    assert made.filter(wanted, ["n1"]).refused["n1"] == "AcmeNotAPair"
    assert made.explain_text(wanted, "n1") == (
        "container c0 needs 9000 MiB on each of 2 cards; "
        "n1: refuses: AcmeNotAPair (no two cards that are wired to each other are free)"
    )
    assert "1 of 1 nodes" not in made.explain_text(wanted)


def test_what_the_quota_does_not_admit_is_no_way_round_the_pair():
    made = cluster("Pairs", 4)
    made.set_quota("team", "q", {"limits.nvidia.com/gpumem": "10000"})
    assert "QuotaNotFit" in made.filter(pod("two", 9000, cards=2), ["n1"]).refused["n1"]
    made.set_quota("team", "q", {"limits.nvidia.com/gpumem": "18000"})
    assert go_together("Pairs", given(made.book(pod("two", 9000, cards=2), "n1")))


@pytest.mark.parametrize(
    ("used", "memory", "told"),
    [
        ((3000, 0, 0, 0), 15000, ""),
        ((3000, 3000, 3000, 0), 15000, "3 with at most 13000 MiB free, only 1 would serve"),
        ((9000, 9000, 9000, 3000), 15000, "the freest has 13000 MiB free"),
    ],
)
def test_an_amount_is_called_the_freest_only_if_it_is(used, memory, told):
    made = Inventory(rules(), PolicyDefaults("spread", "spread"))
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", 4)})
    for number, mib in enumerate(used):
        if mib:
            made.book(pod(f"p{number}", mib, annotations={"nvidia.com/use-gpuuuid": f"n1-{number}"}), "n1")
    text = made.explain_text(pod("a", memory, cards=2), "n1")
    assert text.partition("of n1's 4 cards ")[2] == told
