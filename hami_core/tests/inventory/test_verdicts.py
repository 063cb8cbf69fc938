"""Filter keeps its verdict on a node for later pods of the same shape. Its answers stay those of a new inventory."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hami_core.inventory import Inventory, Rejection
from hami_core.inventory.shapes import KEPT_SHAPES
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    Device,
    DeviceUsage,
    Family,
    NodeFacts,
    PodRequest,
    Reason,
    Request,
    Resources,
    Slice,
    VendorRules,
    Weights,
)
from hami_core.policies import PolicyDefaults

WORD = "X"
FAMILY = Family(WORD, Resources("x.com/n", "x.com/mem"), "x", mode_key="x.com/mode")
NODES = ("n1", "n2", "n3", "n4")


def own_rule(request: Request, usage: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
    """Refuse a card on which two pods run."""
    return Reason("TooMany") if len(usage.pods) > 1 else None


def choose(
    request: Request, candidates: tuple[DeviceUsage, ...], policy: str, devices: tuple[DeviceUsage, ...]
) -> tuple[int, ...] | Reason:
    """Take the cards with the greatest indexes, but never the last free card of a node."""
    if request.count == sum(not one.used_slots for one in devices):
        return Reason("LastCard")
    order = sorted(range(len(candidates)), key=lambda at: candidates[at].device.index)
    return tuple(order[-request.count :])


def account(
    request: Request, usage: DeviceUsage, piece: Slice, taken: tuple[DeviceUsage, ...]
) -> Slice | Reason | None:
    """Give a card at most two sizes of parts."""
    return replace(piece, memory_mib=max(piece.memory_mib, 4096)) if usage.used_slots else None


def score_node(node: NodeFacts, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]) -> float:
    """Add what a label says, and prefer cards with much in use."""
    taken = {piece.device_id for pieces in allocation.of(WORD) for piece in pieces}
    used = sum(one.used_memory_mib for one in devices if one.device.id in taken)
    return float(node.labels.get("bonus", "0")) + used / (-1024 if policy == "spread" else 1024)


RULES = {
    "own rule": VendorRules(FAMILY, custom_filter=own_rule),
    "choice": VendorRules(FAMILY, choose=choose),
    "accounting": VendorRules(FAMILY, account=account),
    "node's score": VendorRules(FAMILY, score_node=score_node),
    "one choice per pod": VendorRules(replace(FAMILY, one_choice_per_pod=True)),
    "everything": VendorRules(FAMILY, custom_filter=own_rule, choose=choose, account=account, score_node=score_node),
}


def pod(number: int, count: int, memory_mib: int, *, containers: int = 1, mode: str = "") -> PodRequest:
    parts = tuple(
        ContainerRequest(f"c{i}", ContainerKind.APP, (Request(WORD, count, memory_mib, None, 10, mode=mode),))
        for i in range(containers)
    )
    return PodRequest(f"uid-{number}", "default", f"pod-{number}", parts)


class Twins:
    """An inventory that lives through all changes, and everything that a new one needs to give the same answers."""

    def __init__(self, rules: VendorRules, rng: random.Random) -> None:
        self.rules = rules
        self.rng = rng
        self.nodes: dict[str, tuple[NodeFacts, list[Device]]] = {}
        self.barred: dict[str, dict[str, str]] = {}
        self.hard: dict[str, str] = {}
        self.inventory = Inventory([rules], PolicyDefaults())
        self.running: list[str] = []
        for name in NODES:
            self.change_node(name)

    def change_node(self, name: str) -> None:
        rng = self.rng
        cards = [
            Device(f"{name}-{i}", i, 4, 16384, 100, "X1", WORD, i // 2, healthy=rng.random() < 0.9) for i in range(4)
        ]
        if rng.random() < 0.5 and name in self.nodes:
            cards = self.nodes[name][1]
        self.nodes[name] = NodeFacts(name, labels={"bonus": str(rng.randint(-5, 5))}), cards
        self.inventory.set_node(self.nodes[name][0], {WORD: cards})

    def change(self, number: int, request: PodRequest) -> None:
        rng, inventory = self.rng, self.inventory
        kind = rng.choice(["hold", "hold", "book", "book", "book", "remove", "release", "node", "bar", "quota"])
        name = rng.choice(NODES)
        if kind in {"hold", "book"}:
            placed = inventory.hold(request, name, 1.0) if kind == "hold" else inventory.book(request, name)
            self.running += [] if isinstance(placed, Rejection) else [request.uid]
        elif kind in {"remove", "release"} and self.running:
            uid = self.running.pop(rng.randrange(len(self.running)))
            inventory.remove_pod(uid) if kind == "remove" else inventory.release_hold(uid)
        elif kind == "node":
            self.change_node(name)
        elif kind == "bar":
            self.barred[name] = {} if self.barred.get(name) else {WORD: "absent agent"}
            inventory.bar_node(name, self.barred[name])
        elif kind == "quota":
            self.hard = {} if self.hard else {"limits.x.com/mem": str(rng.randint(8, 64) * 1024)}
            inventory.set_quota("default", "q", self.hard)

    def fresh(self) -> Inventory:
        made = Inventory([self.rules], PolicyDefaults())
        for name, (facts, cards) in self.nodes.items():
            made.set_node(facts, {WORD: cards})
            made.bar_node(name, self.barred.get(name, {}))
        made.set_quota("default", "q", self.hard)
        for booking in [*self.inventory.bookings(), *(held for held, _ in self.inventory.holds())]:
            made.set_pod(booking)
        return made


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_answers_equal_those_of_a_new_inventory(rule, seed):
    rng = random.Random(seed)
    twins = Twins(RULES[rule], rng)
    fitting = refused = 0
    for number in range(150):
        shape = rng.choice([(1, 2048), (2, 2048), (1, 16384), (3, 1024)])
        request = pod(number, *shape, containers=rng.choice([1, 1, 2]), mode=rng.choice(["", "m"]))
        policies = {key: rng.choice(["", "binpack", "spread"]) for key in ("node_policy", "device_policy")}
        request = replace(request, **policies, weights=rng.choice([Weights(), Weights(memory=9)]))
        limit = rng.choice([1, 2, 16])
        mine, theirs = (
            twins.inventory.filter(request, NODES, limit=limit),
            twins.fresh().filter(request, NODES, limit=limit),
        )
        assert (mine.best, mine.fitting, dict(mine.refused)) == (theirs.best, theirs.fitting, dict(theirs.refused))
        fitting += bool(mine.best)
        refused += bool(mine.refused)
        twins.change(number, request)
    assert min(fitting, refused) > 10


def cluster(rules: VendorRules, nodes: int = 3) -> Inventory:
    made = Inventory([rules])
    for number in range(nodes):
        cards = [Device(f"{number}-{i}", i, 4, 16384, 100, "X1", WORD) for i in range(2)]
        made.set_node(NodeFacts(f"n{number}"), {WORD: cards})
    return made


def counting(asked: list[str]) -> VendorRules:
    """Rules of a vendor that notes the cards which it is asked about."""

    def custom_filter(request: Request, usage: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
        asked.append(usage.device.id)
        return None

    return VendorRules(FAMILY, custom_filter=custom_filter)


def test_only_changed_nodes_are_asked_about_a_known_shape():
    asked: list[str] = []
    made = cluster(counting(asked))
    assert made.filter(pod(1, 2, 1024), made.node_names()).fitting == 3
    made.book(pod(1, 2, 1024), "n1")
    asked.clear()
    assert made.filter(pod(2, 2, 1024), made.node_names()).fitting == 3
    assert sorted(asked) == ["1-0", "1-1"]


def test_refusal_by_a_failed_hook_is_asked_again():
    answers = [Reason("VendorPluginFailed"), Reason("VendorPluginFailed")]

    def custom_filter(request: Request, usage: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
        return answers.pop() if answers else None

    made = cluster(VendorRules(FAMILY, custom_filter=custom_filter), nodes=1)
    assert [made.filter(pod(i, 2, 1024), ["n0"]).fitting for i in range(3)] == [0, 1, 1]


def test_many_shapes_keep_their_own_answers():
    made = cluster(VendorRules(FAMILY, custom_filter=own_rule), nodes=1)
    sizes = [512 * n for n in range(1, 3 * KEPT_SHAPES)]
    for most_mib in (16384, 16384 - 512):
        fitting = [made.filter(pod(0, 2, size), ["n0"]).fitting for size in [*sizes, *reversed(sizes)]]
        assert fitting == [int(size <= most_mib) for size in [*sizes, *reversed(sizes)]]
        made.book(pod(1, 2, 512), "n0")
