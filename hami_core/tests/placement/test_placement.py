"""Requests, peaks and scores as functions: properties against the plainest possible statement of the rule."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hami_core.errors import RequestError
from hami_core.model import (
    INT32_MAX,
    Allocation,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    ContainerSpec,
    Device,
    Family,
    PodFacts,
    PodRequest,
    Request,
    Resources,
    Slice,
    VendorRules,
    Weights,
)
from hami_core.placement import Card, Plan, device_order, device_score, float32, place, pod_request, uses
from hami_core.policies import PolicyDefaults

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
PLAIN = VendorRules(Family("X", Resources("x/n", "x/mem", "", "x/core"), "x"))
"""A vendor without rules of its own."""
amounts = st.integers(0, INT32_MAX)


def _parse(container: ContainerSpec, pod: PodFacts) -> tuple[Request, ...]:
    return tuple(Request("X", int(text)) for text in container.limits.values())


@pytest.mark.parametrize("preloading", [(), ("X",), ("X", "Y"), ("X", "Y", "Z")])
def test_container_has_one_preloaded_library(preloading):
    containers = [ContainerSpec("init", INIT), ContainerSpec("main", APP)]
    answers = {
        "init": (Request("X", 1, preload=True),),
        "main": tuple(Request(w, 1, preload=w in preloading) for w in "XYZ"),
    }

    def ask():
        return pod_request("u", "ns", "p", containers, {}, lambda container, _: answers[container.name])

    if len(preloading) < 2:
        assert len(ask().containers) == 2
        return
    with pytest.raises(RequestError, match=f"container main: {' and '.join(preloading)}: each is limited"):
        ask()


def test_a_pod_keeps_its_containers_and_policies():
    containers = [ContainerSpec("first", INIT, {"x": "2"}), ContainerSpec("second", APP)]
    annotations = {"hami.io/gpu-scheduler-policy": "mutex", "hami.io/device-scoring-weights": "slot=1,core=0,memory=3"}
    request = pod_request("u", "ns", "p", containers, annotations, _parse)
    assert [(c.name, c.kind, len(c.requests)) for c in request.containers] == [("first", INIT, 1), ("second", APP, 0)]
    assert (request.node_policy, request.device_policy) == ("", "mutex")
    plan = Plan(request, {}, PolicyDefaults("spread", "binpack"))
    assert (plan.node_policy, plan.device_policy.text) == ("spread", "mutex")
    assert request.weights == Weights(1, 0, 3)
    assert request.families == ("X",)


@pytest.mark.parametrize(
    "answer",
    [
        (Request("X", 0),),
        (Request("X", 2**31),),
        (Request("X", 1, memory_mib=-1),),
        (Request("X", 1, cores=2**40),),
        (Request("X", 1), Request("X", 2)),
    ],
)
def test_amounts_of_a_vendors_parser_are_checked(answer: tuple[Request, ...]):
    with pytest.raises(RequestError, match="container c: X"):
        pod_request("u", "ns", "p", [ContainerSpec("c", APP)], {}, lambda c, p: answer)


def test_requests_know_how_many_containers_ask_for_their_family():
    def parse(spec: ContainerSpec, _: PodFacts) -> tuple[Request, ...]:
        return tuple(Request(word, 1) for word in spec.name.split("-") if word != "none")

    specs = [ContainerSpec(name, APP) for name in ("A-B", "none", "A", "C")]
    found = pod_request("u", "ns", "p", specs, {}, parse)
    told = [(r.family, r.askers) for c in found.containers for r in c.requests]
    assert told == [("A", 2), ("B", 1), ("A", 2), ("C", 1)]


def test_weights_that_make_no_sense_are_refused():
    with pytest.raises(RequestError, match="at least one weight must be positive"):
        pod_request("u", "ns", "p", [], {"hami.io/device-scoring-weights": "slot=0,core=0,memory=0"}, _parse)


containers = st.lists(
    st.tuples(st.sampled_from([INIT, SIDECAR]), st.integers(0, 3), st.integers(0, 99), st.integers(0, 9)), max_size=5
).flatmap(
    lambda early: st.lists(
        st.tuples(st.just(APP), st.integers(0, 3), st.integers(0, 99), st.integers(0, 9)), max_size=4
    ).map(lambda late: early + late)
)


@given(containers)
def test_the_peak_is_the_greatest_moment(shape: list[tuple[ContainerKind, int, int, int]]):
    """The moments: each init container with the earlier sidecars; in the end all sidecars and app containers."""
    parts = tuple(
        ContainerSlices(f"c{i}", kind, (Slice(f"gpu{card}", "X", memory, cores),))
        for i, (kind, card, memory, cores) in enumerate(shape)
    )
    moments = [
        [s for j, s in enumerate(shape) if j == i or (j < i and s[0] is SIDECAR)]
        for i, (kind, *_) in enumerate(shape)
        if kind is INIT
    ]
    moments.append([s for s in shape if s[0] is not INIT])
    expected = {}
    for card in {s[1] for s in shape}:
        here = [[s for s in moment if s[1] == card] for moment in moments]
        expected[f"gpu{card}"] = (
            max(len(m) for m in here),
            max(sum(s[2] for s in m) for m in here),
            max(sum(s[3] for s in m) for m in here),
        )
    found = {u.device_id: (u.slots, u.memory_mib, u.cores) for u in uses(parts)}
    assert found == expected
    steady = {u.device_id: (u.slots, u.memory_mib) for u in uses(parts, init_done=True)}
    assert all(steady[card][0] <= found[card][0] and steady[card][1] <= found[card][1] for card in steady)
    assert set(steady) == {f"gpu{s[1]}" for s in shape if s[0] is not INIT}


@given(st.tuples(amounts, amounts), st.tuples(amounts, amounts), st.tuples(amounts, amounts), st.integers(0, 9))
def test_scores_are_numpys_float32_bit_for_bit(slots, cores, memory, weight):
    f = np.float32
    weights = Weights(weight, 1, 3)
    plain, weighted = device_score(slots, cores, memory), device_score(slots, cores, memory, weights)
    if not (slots[1] and cores[1] and memory[1]):
        assert plain == weighted == 0
        return
    parts = [f(used) / f(total) for used, total in (slots, cores, memory)]
    assert plain == float(f(10) * ((parts[0] + parts[1]) + parts[2]))
    scaled = [f(w) * part for w, part in zip((weight, 1, 3), parts, strict=True)]
    assert weighted == float(f(10) * ((scaled[0] + scaled[1]) + scaled[2]))


@given(st.floats(-1e30, 1e30))
def test_float32_rounds_as_numpy(value: float):
    assert float32(value) == float(np.float32(value))


def numa_cards(shape: list[tuple[int, int, int]]) -> list[Card]:
    """One card for each (NUMA node, slots in use, percent of memory in use)."""
    return [
        Card(Device(f"gpu{i}", i, 4, 10_000, 100, "X-1", "X", numa), i, used, percent * 100, 0)
        for i, (numa, used, percent) in enumerate(shape)
    ]


def numa_pair(shape: list[tuple[int, int, int]], policy: str, default: str = "spread", count: int = 2) -> list[int]:
    """Cards that a container with NUMA binding gets for ``count`` times 2000 MiB; empty: it does not fit."""
    asked = Request("X", count, 2000, numa_bind=True)
    pod = PodRequest("u", "ns", "p", (ContainerRequest("c", APP, (asked,)),), device_policy=policy)
    placed = place("n", {"X": numa_cards(shape)}, Plan(pod, {"X": PLAIN}, PolicyDefaults(device_policy=default)))
    return sorted(int(s.device_id[3:]) for s in placed.containers[0].slices) if isinstance(placed, Allocation) else []


IDLE_AND_BUSY = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (1, 2, 60)]
"""Two idle cards on NUMA node 0; an idle and a busy one on NUMA node 1."""


@pytest.mark.parametrize(
    ("policy", "default", "taken"),
    [
        ("spread", "spread", [0, 1]),
        ("binpack", "spread", [2, 3]),
        ("numa", "spread", [2, 3]),
        ("spread,numa", "spread", [0, 1]),
        ("numa,spread", "spread", [2, 3]),
        ("", "spread", [2, 3]),
        ("", "binpack", [0, 1]),
    ],
    ids=str,
)
def test_named_policy_ranks_numa_nodes_default_does_not(policy: str, default: str, taken: list[int]):
    assert numa_pair(IDLE_AND_BUSY, policy, default) == taken


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from([0, 30, 70, 90])), min_size=1, max_size=8),
    st.sampled_from(["binpack", "spread", "numa", "topology-aware"]),
    st.integers(1, 3),
)
def test_chosen_numa_node_is_best_of_those_that_fit(shape: list[tuple[int, int, int]], policy: str, count: int):
    rank = {"binpack": 1, "spread": -1, "topology-aware": -1}.get(policy, 0)

    def value(card: int) -> float:
        numa, used, percent = shape[card]
        score = device_score((used + 1, 4), (0, 100), (percent * 100 + 2000, 10_000))
        return rank * score if rank else numa

    fitting = [i for i, (_, used, percent) in enumerate(shape) if used < 4 and percent <= 80]
    by_node = [sorted((value(i) for i in fitting if shape[i][0] == node), reverse=True) for node in range(3)]
    best = max((sum(values[:count]) for values in by_node if len(values) >= count), default=None)
    taken = numa_pair(shape, policy, count=count)
    assert (sum(map(value, taken)) if taken else None) == best
    assert len({shape[i][0] for i in taken}) <= 1


@given(st.text(alphabet="binpackspredumtx,- ", max_size=40))
def test_any_policy_text_is_taken(text: str):
    policy = device_order(text)
    assert policy.keys
    assert policy.idle_only == ("mutex" in [word.strip() for word in text.split(",")])
