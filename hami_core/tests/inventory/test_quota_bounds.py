"""Bound usage never exceeds the quota, whatever the family's rules and however a pod is placed."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from hami_core.inventory import Inventory
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    Device,
    Family,
    MigPlacement,
    MigProfile,
    NodeFacts,
    PodRequest,
    Reason,
    Request,
    Resources,
    Slice,
    VendorRules,
)

from .worlds import A100, rules

if TYPE_CHECKING:
    import numpy as np

    from hami_core.model import DeviceUsage

PLAIN = Family("X", Resources("x.com/n", "x.com/mem", "x.com/mem-percentage", "x.com/core"), "x")
PROFILES = tuple(
    MigProfile(name, memory, cores, 1, tuple(MigPlacement(*place) for place in places))
    for name, memory, cores, places in A100
)


def templates(request: Request, device: object, piece: Slice, taken: object) -> Slice:
    """Memory in steps of 8 GiB, as vendors with fixed partitions give it."""
    return replace(piece, memory_mib=-(-max(piece.memory_mib, 1) // 8192) * 8192)


def even_cards(request: Request, columns: dict[str, np.ndarray]) -> np.ndarray:
    return columns["free_memory"] >= 1000


def is_no_pair(one: DeviceUsage, other: DeviceUsage) -> bool:
    return one.device.index // 2 != other.device.index // 2


def beside_its_pair(request: Request, usage: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
    return Reason("NoPair") if any(is_no_pair(usage, other) for other in chosen) else None


def a_pair(
    request: Request, candidates: tuple[DeviceUsage, ...], policy: str, devices: tuple[DeviceUsage, ...]
) -> tuple[int, ...] | Reason | None:
    if request.count == 1:
        return None
    pairs = [(i, j) for i, j in combinations(range(len(candidates)), 2) if not is_no_pair(candidates[i], candidates[j])]
    return pairs[-1] if pairs and request.count == 2 else Reason("NoPair")


def not_three(request: Request, usage: object, chosen: tuple[object, ...]) -> Reason | None:
    return Reason("NotThree") if len(chosen) == 2 and request.count > 2 else None


SHAPES = {
    "plain": VendorRules(PLAIN),
    "no rule on whole cards": VendorRules(replace(PLAIN, full_card_rule=False)),
    "memory in units of 256 MiB": VendorRules(replace(PLAIN, memory_factor=256)),
    "count only": VendorRules(replace(PLAIN, resources=Resources("x.com/n"))),
    "fixed partitions": VendorRules(PLAIN, account=templates),
    "partitions on some cards": VendorRules(replace(PLAIN, account_modes=frozenset({"mig"})), account=templates),
    "own rule": VendorRules(PLAIN, custom_filter=not_three),
    "own rule in columns": VendorRules(PLAIN, custom_filter=lambda r, u, c: None, fit_mask=even_cards),
    "depends on chosen": VendorRules(replace(PLAIN, depends_on_chosen=True), custom_filter=not_three),
    "chooses": VendorRules(PLAIN, choose=lambda r, candidates, policy, devices: tuple(range(r.count))),
    "pairs device by device": VendorRules(replace(PLAIN, depends_on_chosen=True), custom_filter=beside_its_pair),
    "pairs at once": VendorRules(PLAIN, choose=a_pair),
    "pairs twice": VendorRules(replace(PLAIN, depends_on_chosen=True), custom_filter=beside_its_pair, choose=a_pair),
    "prefers pairs": VendorRules(
        replace(PLAIN, choose_is_preference=True), choose=lambda r, c, p, devices: tuple(range(len(c)))[-r.count :]
    ),
    "scores nodes": VendorRules(PLAIN, score_node=lambda facts, allocation, policy, devices: 1.0),
    "nvidia": rules()[0],
}


def cluster(shape: VendorRules, rng: random.Random) -> Inventory:
    made = Inventory([shape])
    for number in range(3):
        cards = [
            Device(
                f"{number}-{i}", i, rng.choice([4, 10]), rng.choice([16384, 40960]), 100, "A100", shape.family.word,
                i % 2, mode := rng.choice(["hami-core", "mig"]), mig_profiles=PROFILES if mode == "mig" else (),
            )
            for i in range(rng.choice([1, 4, 8]))
        ]  # fmt: skip
        made.set_node(NodeFacts(f"n{number}"), {shape.family.word: cards})
    return made


def pod(rng: random.Random, word: str, number: int) -> PodRequest:
    kinds = rng.choice([["app"], ["app"], ["app", "app"], ["init", "app"], ["init", "sidecar", "init", "app", "app"]])
    parts = []
    for i, kind in enumerate(kinds):
        memory = rng.choice([0, 0, 1, 3000, 16384])
        percent = None if memory else rng.choice([None, 10, 50, 100, 100])
        asked = Request(
            word,
            rng.choice([1, 1, 2, 3]),
            memory,
            percent,
            rng.choice([0, 0, 10, 50, 100]),
            numa_bind=rng.random() < 0.2,
        )
        parts.append(ContainerRequest(f"c{i}", ContainerKind(kind), (asked,)))
    policy = rng.choice(["binpack", "spread", "mutex", "numa", "topology-aware"])
    return PodRequest(f"u{number}", "team", f"p{number}", tuple(parts), rng.choice(["binpack", "spread"]), policy)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(12))
def test_bound_usage_never_exceeds_the_quota(shape: str, seed: int) -> None:
    rng = random.Random(f"{shape} {seed}")
    made = cluster(SHAPES[shape], rng)
    family = SHAPES[shape].family
    names = family.resources
    most = {
        names.memory: rng.choice([0, 5000, 40000, 100000]),
        names.cores: rng.choice([0, 60, 200, 1000]),
        names.count: rng.choice([0, 1, 4, 9]),
    }
    limits = {resource: most[resource] for resource in most if resource and rng.random() < 0.6}
    factor = family.memory_factor
    in_units = {name: limit // factor if name == names.memory else limit for name, limit in limits.items()}
    made.set_quota("team", "q", {f"limits.{name}": str(limit) for name, limit in in_units.items()})
    placed: list[str] = []
    for number in range(40):
        request = pod(rng, family.word, number)
        nodes = made.node_names()
        found = made.filter(request, nodes)
        if found.hold_node is None:
            assert all(not isinstance(made.book(request, node), Allocation) for node in nodes), "Filter and Bind agree"
        elif rng.random() < 0.5:
            assert isinstance(made.hold(request, found.hold_node, 1e9), Allocation)
            assert isinstance(made.book(request, found.hold_node), Allocation)
            placed.append(request.uid)
        else:
            assert isinstance(made.book(request, found.hold_node), Allocation)
            placed.append(request.uid)
        used = dict(zip((names.memory, names.cores, names.count), made.quota.used("team", family.word), strict=True))
        assert all(used[name] <= in_units[name] * (factor if name == names.memory else 1) for name in limits)
        if placed and rng.random() < 0.15:
            made.remove_pod(placed.pop(rng.randrange(len(placed))))
    assert made.drift() == 0


def test_pods_made_at_once_share_what_the_quota_leaves() -> None:
    """All four pass admission before any is placed; the quota holds for two."""
    made = Inventory([VendorRules(PLAIN)])
    made.set_node(NodeFacts("n"), {"X": [Device(f"d{i}", i, 10, 65536, 100, "A", "X") for i in range(4)]})
    made.set_quota("team", "q", {"limits.x.com/mem": "40k"})
    ask = Request("X", 1, 16384)
    pods = [PodRequest(f"u{i}", "team", f"p{i}", (ContainerRequest("c", ContainerKind.APP, (ask,)),)) for i in range(4)]
    assert [made.quota.admission_refusal(one) for one in pods] == [None] * 4
    answers = [made.filter(one, ["n"]) for one in pods[:2]]
    assert [answer.hold_node for answer in answers] == ["n", "n"]
    assert all(isinstance(made.book(one, "n"), Allocation) for one in pods[:2])
    assert dict(made.filter(pods[2], ["n"]).refused) == {"n": "4/4 ResourceQuotaNotFit"}
    told = made.explain_text(pods[3], "n")
    assert "leaves 7232" in told
    assert "ResourceQuota team/q: spec.hard[limits.x.com/mem] is 40000" in told
