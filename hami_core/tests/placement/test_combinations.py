"""Vendors that give devices in combinations only: the examples of docs/reference/hooks.md, and wrong answers."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from hami_core import Device, Family, NodeFacts, Reason, Request, Resources, hookimpl
from hami_core.inventory import Inventory
from hami_core.kube.objects import ObjectMeta, Pod
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    PodRequest,
    Slice,
)
from hami_core.placement.fit import MAX_QUESTIONS
from hami_core.scheduler.pod_events import PodEvents
from hami_core.tests.plugins.objects import one, wrapper_with

PAGE = (Path(__file__).parents[3] / "docs/reference/hooks.md").read_text("utf-8")
EXAMPLES: dict[str, type] = {}
for block in re.findall(r"^```python\n(from hami_core import .+?)^```$", PAGE, re.MULTILINE | re.DOTALL):
    scope: dict[str, object] = {"__name__": "examples"}
    exec(f"from __future__ import annotations\n{block}", scope)
    EXAMPLES |= {name: made for name, made in scope.items() if getattr(made, "__module__", "") == "examples"}

ACME = Family(
    "ACME", Resources("acme.io/npu", "acme.io/mem", "acme.io/mem-percentage", "acme.io/cores"), "hami.io/acme"
)
PAIRS = ("PairsByFilter", "PairsByChoice")
CARD_MIB = 32768


def acme(rule, **family):
    """A vendor with these hooks beside `families`."""

    class Acme(rule):
        @hookimpl
        def families(self):
            return [replace(ACME, **family)]

    return Acme


def example(name, **family):
    return acme(EXAMPLES[name], depends_on_chosen=name == "PairsByFilter", **family)


def choosing(function, **family):
    return acme(type("Rule", (), {"choose": hookimpl(function)}), **family)


def stage(vendor, *used_mib, wrappers=(), numa=lambda index: 0, mib=CARD_MIB):
    """A node n1 whose cards have these amounts of memory booked."""
    made = Inventory(one(vendor, *wrappers).rules())
    made.set_node(
        NodeFacts("n1"),
        {"ACME": [Device(f"d{i}", i, 4, mib, 100, "NPU", "ACME", numa(i)) for i in range(len(used_mib))]},
    )
    for i, used in enumerate(used_mib):
        if used:
            part = ContainerSlices("c", ContainerKind.APP, (Slice(f"d{i}", "ACME", used, 0),))
            made.set_pod(Booking(f"u{i}", "other", f"p{i}", Allocation("n1", (part,))))
    return made


def pod(*asks, policy="spread", kinds=(), uid="pod"):
    parts = tuple(
        ContainerRequest(f"c{i}", ContainerKind(kinds[i] if kinds else "app"), (ask,)) for i, ask in enumerate(asks)
    )
    return PodRequest(uid, "team", uid, parts, "binpack", policy)


def cards(count, mib=30208, **more):
    return Request("ACME", count, mib, **more)


def placed(made, wanted, name="n1"):
    """Indexes of the cards per container; None: refused. Checks that Filter, explanation, hold and Bind agree."""
    found = made.filter(wanted, [name])
    told = made.explain_text(wanted, name)
    held = made.hold(wanted, name, 1e9)
    made.release_hold(wanted.uid)
    booked = made.book(wanted, name)
    fits = isinstance(booked, Allocation)
    assert bool(found.best) == fits == isinstance(held, Allocation) == (told == "")
    if not fits:
        assert found.refused[name] == booked.short
        return None
    assert booked == held
    made.release(wanted.uid)
    return [sorted(int(piece.device_id[1:]) for piece in part.slices) for part in booked.containers]


def test_examples_of_the_page_are_all_here():
    assert set(EXAMPLES) == {*PAIRS, "Rings"}


# --- pairs and rings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["spread", "binpack", "numa", "binpack,numa"])
@pytest.mark.parametrize("vendor", PAIRS)
@pytest.mark.parametrize(
    ("used", "pair"),
    [
        ((0, 0, 0, 3072), [0, 1]),
        ((3072, 0, 0, 0), [2, 3]),
        ((0, 3072, 0, 0, 0, 3072, 3072, 0), [2, 3]),
        ((3072, 0, 3072, 0, 3072, 0, 0, 0), [6, 7]),
        ((0, 3072, 3072, 0), None),
        ((0, 3072), None),
        ((3072, 3072, 3072, 0), None),
    ],
)
def test_two_cards_are_a_pair_or_none(vendor, policy, used, pair):
    got = placed(stage(example(vendor), *used), pod(cards(2), policy=policy))
    assert got == (None if pair is None else [pair])


@pytest.mark.parametrize("vendor", PAIRS)
@pytest.mark.parametrize("seed", range(15))
def test_pair_is_found_whenever_there_is_one(vendor, seed):
    rng = random.Random(seed)
    for number in range(20):
        used = [rng.choice([0, 0, 3072]) for _ in range(rng.choice([2, 4, 8, 16]))]
        there = any(used[i] == used[i + 1] == 0 for i in range(0, len(used), 2))
        got = placed(stage(example(vendor), *used), pod(cards(2), policy=rng.choice(["spread", "binpack"])))
        assert (got is not None) == there, (number, used)
        assert got is None or got[0][0] + 1 == got[0][1]
        assert got is None or got[0][0] % 2 == 0


@pytest.mark.parametrize(
    ("busy", "count", "wanted"),
    [
        ((), 4, {(0, 1, 2, 3), (4, 5, 6, 7)}),
        ((1,), 4, {(4, 5, 6, 7)}),
        ((1, 6), 4, set()),
        ((1, 6), 3, {(0, 2, 3), (4, 5, 7)}),
        ((0, 2, 4, 6), 2, set()),
        ((0, 2, 4, 7), 2, {(5, 6)}),
        ((1, 2, 4, 6), 2, {(0, 3)}),
        ((), 5, set()),
    ],
)
def test_ring_is_whole_and_neighbours_are_neighbours(busy, count, wanted):
    used = [3072 if i in busy else 0 for i in range(8)]
    got = placed(stage(example("Rings"), *used), pod(cards(count)))
    assert got is None if not wanted else tuple(got[0]) in wanted


def test_single_card_leaves_pairs_whole():
    assert placed(stage(example("PairsByChoice"), 0, 0, 3072, 0), pod(cards(1))) == [[3]]


@pytest.mark.parametrize("vendor", PAIRS)
@pytest.mark.parametrize(
    ("kinds", "asks", "wanted"),
    [
        (("app", "app"), (cards(2), cards(2)), {"01", "23"}),
        (("init", "app"), (cards(2), cards(2)), {"01", "23"}),
        (("sidecar", "app"), (cards(2), cards(2)), {"01", "23"}),
        (("app", "app", "app"), (cards(2), cards(2), cards(2)), None),
        (("init", "init", "app"), (cards(2), cards(2), cards(2)), {"01", "23"}),
    ],
)
def test_each_container_gets_a_pair_of_its_own(vendor, kinds, asks, wanted):
    got = placed(stage(example(vendor), 0, 0, 0, 0), pod(*asks, kinds=kinds))
    if wanted is None:
        assert got is None
    else:
        assert {"".join(map(str, pair)) for pair in got} <= wanted
        running = [tuple(pair) for kind, pair in zip(kinds, got, strict=True) if kind != "init"]
        assert len(set(running)) == len(running)


@pytest.mark.parametrize("vendor", PAIRS)
def test_pair_is_sought_on_every_numa_node(vendor):
    """Cards 0, 2, 4 are on one NUMA node and have no partner there; the pair is on the other."""
    made = stage(example(vendor), 0, 3072, 0, 3072, 0, 3072, 0, 0, numa=lambda i: 1 if i in {0, 2, 4} else 0)
    assert placed(made, pod(cards(2, numa_bind=True))) == [[6, 7]]
    apart = stage(example(vendor), 0, 0, 0, 0, numa=lambda i: i % 2)
    assert placed(apart, pod(cards(2, numa_bind=True))) is None
    assert placed(apart, pod(cards(2))) in ([[0, 1]], [[2, 3]])


@pytest.mark.parametrize("vendor", PAIRS)
def test_nodes_without_a_pair_are_not_among_the_best(vendor):
    made = stage(example(vendor), 0, 3072, 3072, 0)
    for number in range(40):
        row = [Device(f"e{i}", i, 4, CARD_MIB, 100, "NPU", "ACME") for i in range(4)]
        made.set_node(NodeFacts(f"m{number:02}"), {"ACME": row})
        for i in (0, 3) if number % 2 else ():
            part = ContainerSlices("c", ContainerKind.APP, (Slice(f"e{i}", "ACME", 3072, 0),))
            made.set_pod(Booking(f"{number}-{i}", "other", "p", Allocation(f"m{number:02}", (part,))))
    wanted = pod(cards(2))
    found = made.filter(wanted, made.node_names())
    assert [name for name, _ in found.best] == [f"m{number:02}" for number in range(0, 32, 2)]
    assert all("AcmeNotAPair" in reason for reason in found.refused.values())
    assert all(isinstance(made.hold(wanted, name, 1e9), Allocation) for name, _ in found.best)


def last_two(self, request, candidates):
    return tuple(range(len(candidates)))[-request.count :]


@pytest.mark.parametrize(
    ("vendor", "limit", "wanted"),
    [
        (example("PairsByChoice"), 40000, [2, 3]),
        (example("PairsByChoice"), 36000, None),
        (choosing(last_two), 40000, [2, 3]),
        (choosing(last_two), 100000, [0, 1]),
        (choosing(last_two), 36000, None),
        (choosing(lambda self, candidates: (2, 3) if len(candidates) > 2 else Reason("No")), 40000, None),
        (choosing(last_two, choose_is_preference=True), 40000, [2, 3]),
    ],
)
def test_quota_that_forbids_the_choice_leaves_no_half_pair(vendor, limit, wanted):
    """Half of each card, in order of index: 32768, 32768, 4096 and 32768 MiB; the last card comes first."""
    made = Inventory(one(vendor).rules())
    row = [Device(f"d{i}", i, 4, mib, 100, "NPU", "ACME") for i, mib in enumerate((65536, 65536, 8192, 65536))]
    made.set_node(NodeFacts("n1"), {"ACME": row})
    made.set_quota("team", "q", {"limits.acme.io/mem": str(limit)})
    got = placed(made, pod(Request("ACME", 2, 0, 50)))
    assert got == (None if wanted is None else [wanted])


# --- what depends_on_chosen costs ---------------------------------------------------------------------------------


def counted_rule(refuses, *, depends):
    asked = []

    def custom_filter(self, device, chosen):
        asked.append(len(chosen))
        return Reason("Lonely") if refuses(device, chosen) else None

    rule = type("Rule", (), {"custom_filter": hookimpl(custom_filter)})
    return acme(rule, depends_on_chosen=depends), asked


def test_search_for_a_combination_is_bounded_and_says_so():
    vendor, asked = counted_rule(lambda device, chosen: bool(chosen), depends=True)
    made = stage(vendor, *[0] * 40)
    assert isinstance(made.hold(pod(cards(2)), "n1", 1e9).combination, Reason)
    assert len(asked) == 40 + 40 + MAX_QUESTIONS
    assert "gave up after 256 questions" in made.explain_text(pod(cards(2)), "n1")
    assert "`choose`" in made.explain_text(pod(cards(2)), "n1")


def test_bound_leaves_room_to_take_many_devices():
    vendor, _ = counted_rule(lambda device, chosen: False, depends=True)
    assert placed(stage(vendor, *[0] * 400), pod(cards(390)))[0] == sorted(range(10, 400))


def test_vendor_without_the_flag_is_asked_once_a_card():
    vendor, asked = counted_rule(lambda device, chosen: False, depends=False)
    assert isinstance(stage(vendor, *[0] * 16).hold(pod(cards(4)), "n1", 1e9), Allocation)
    assert asked == [0] * 4


# --- what choose may answer ----------------------------------------------------------------------------------------

BAD = [(0, 0), (99, 100), (0,), (0, 1, 2), (-1, 0), "01", (0.0, 1.0), 3, [True, False], {0, 1}]


def raising(self):
    raise ValueError("boom")


def named(answer) -> str:
    """A test id that is the same in every process."""
    return repr(answer).partition(" at 0x")[0]


@pytest.mark.parametrize("answer", [*BAD, raising], ids=named)
def test_wrong_choice_refuses_the_node_by_name(answer):
    vendor = choosing(answer if callable(answer) else lambda self: answer)
    made = stage(vendor, 0, 0, 3072)
    assert placed(made, pod(cards(2))) is None
    assert made.filter(pod(cards(2)), ["n1"]).refused["n1"] == "1/3 CardInsufficientMemory, 2/3 VendorPluginFailed"
    assert "no 2 of them together: VendorPluginFailed" in made.explain_text(pod(cards(2)), "n1")


@pytest.mark.parametrize("answer", [*BAD, raising, Reason("No")], ids=named)
def test_wrong_preference_takes_devices_in_order(answer):
    vendor = choosing(answer if callable(answer) else lambda self: answer, choose_is_preference=True)
    assert placed(stage(vendor, 0, 0, 3072), pod(cards(2))) == [[0, 1]]


@pytest.mark.parametrize("preference", [True, False])
@pytest.mark.parametrize(("answer", "wanted"), [(None, [2, 3]), ((2, 3), [0, 1]), ((3, 0), [0, 3])])
def test_choice_is_taken_and_none_means_in_order(answer, wanted, preference):
    vendor = choosing(lambda self: answer, choose_is_preference=preference)
    assert placed(stage(vendor, 0, 0, 0, 0), pod(cards(2))) == [wanted]


def test_choose_is_not_asked_without_enough_devices():
    asked = []
    made = stage(choosing(lambda self, candidates: asked.append(candidates)), 0, 3072)
    assert placed(made, pod(cards(2))) is None
    assert asked == []


def test_choose_is_asked_of_exactly_as_many_as_needed():
    made = stage(choosing(lambda self: Reason("Never", detail="the two are far apart")), 0, 0)
    assert placed(made, pod(cards(2))) is None
    assert "2 would serve alone, but no 2 of them together: Never: the two are far apart" in made.explain_text(
        pod(cards(2)), "n1"
    )


def test_choose_sees_every_device_that_fits_alone():
    """A rule about already chosen devices does not remove devices from the arguments of `choose`."""
    seen = []

    def choose(self, request, candidates):
        seen.append(sorted(usage.device.index for usage in candidates))
        return tuple(range(request.count))

    def custom_filter(self, chosen):
        return Reason("Alone") if chosen else None

    rule = type("Rule", (), {"choose": hookimpl(choose), "custom_filter": hookimpl(custom_filter)})
    made = stage(acme(rule, depends_on_chosen=True), 0, 0, 3072, 0)
    assert placed(made, pod(cards(1))) == [[3]]
    assert placed(made, pod(cards(2))) is None
    assert set(map(tuple, seen)) == {(0, 1, 3)}
    assert "no 2 of them together: Alone" in made.explain_text(pod(cards(2)), "n1")


def test_none_from_choose_leaves_the_rule_on_chosen_devices():
    rule = type("Both", (EXAMPLES["PairsByFilter"],), {"choose": hookimpl(lambda self: None)})
    assert placed(stage(acme(rule, depends_on_chosen=True), 0, 0, 0, 3072), pod(cards(2))) == [[0, 1]]


def test_policies_that_ask_for_choose_alone_are_under_its_rule():
    vendor = example("PairsByChoice", choose_policies=frozenset({"topology-aware"}))
    made = stage(vendor, 0, 3072, 3072, 0)
    assert placed(made, pod(cards(2), policy="topology-aware")) is None
    assert placed(made, pod(cards(2))) == [[0, 3]]


def returning(value):
    def hook(self):
        yield
        return value

    return hook


@pytest.mark.parametrize(
    ("inner", "outer", "wanted"),
    [
        (Reason("No"), (0, 1), None),
        (Reason("No"), None, None),
        ((0, 1), Reason("Closed"), None),
        ((0, 1), (2, 3), [2, 3]),
        (None, (2, 3), [0, 1]),
        (None, Reason("Closed"), None),
    ],
)
@pytest.mark.parametrize("preference", [True, False])
def test_wrapper_may_refuse_a_choice_but_make_none(inner, outer, wanted, preference):
    if preference and isinstance(inner, Reason):
        inner = (0, 0)  # no answer of a family that refuses nothing
    vendor = choosing(lambda self: inner, choose_is_preference=preference)
    made = stage(vendor, 0, 0, 0, 0, wrappers=[wrapper_with(choose=returning(outer))])
    got = placed(made, pod(cards(2)))
    assert got == (None if wanted is None else [wanted])


# --- holds ---------------------------------------------------------------------------------------------------------


def idle_pair(self, request, candidates):
    """Two neighbouring idle cards. By amounts alone, a card could serve several pods."""
    idle = {usage.device.index: at for at, usage in enumerate(candidates) if not usage.used_slots}
    pairs = [(at, idle[index ^ 1]) for index, at in idle.items() if index ^ 1 in idle]
    return pairs[0][: request.count] if pairs else Reason("NoIdlePair")


def is_in_use(self, device):
    return Reason("InUse") if device.used_slots else None


@pytest.mark.parametrize(
    "vendor",
    [choosing(idle_pair), acme(type("Rule", (), {"custom_filter": hookimpl(is_in_use)}))],
    ids=["choose", "custom_filter"],
)
def test_bind_asks_the_vendor_about_a_hold_that_others_displaced(vendor):
    made = stage(vendor, 0, 0, 0, 0)
    small = cards(2, 1000)
    for uid in "ab":
        assert isinstance(made.hold(pod(small, uid=uid), "n1", 1e9), Allocation)
    assert isinstance(made.book(pod(small, uid="c"), "n1"), Allocation), "it takes the place of a hold"
    assert [isinstance(made.book(pod(small, uid=uid), "n1"), Allocation) for uid in "ab"].count(True) == 1
    assert all(usage.used_slots == 1 for usage in made.usage("n1"))
    assert made.drift() == 0


# --- what the pod is told ------------------------------------------------------------------------------------------

NEEDS = "container c0 needs 30208 MiB on"


@pytest.mark.parametrize(
    ("vendor", "used", "count", "told"),
    [
        (
            "PairsByFilter",
            (0, 3072, 0, 3072),
            2,
            (
                "each of 2 cards; of n1's 4 cards 2 with at most 29696 MiB free, 2 would serve alone, but no 2 of them"
                " together: AcmeNotAPair"
            ),
        ),
        (
            "PairsByChoice",
            (0, 3072, 0, 9000),
            2,
            (
                "each of 2 cards; of n1's 4 cards 2 with at most 29696 MiB free, 2 would serve alone, but no 2 of them"
                " together: AcmeNotAPair: 2 cards are asked for, cards are given in pairs"
            ),
        ),
        (
            "PairsByChoice",
            (0, 0, 0),
            3,
            (
                "each of 3 cards; of n1's 3 cards 3 would serve alone, but no 3 of them together: AcmeNotAPair:"
                " 3 cards are asked for, cards are given in pairs"
            ),
        ),
        (
            "PairsByFilter",
            (0, 3072, 4000, 5000),
            2,
            "each of 2 cards; of n1's 4 cards 3 with at most 29696 MiB free, only 1 would serve",
        ),
        ("PairsByFilter", (3072, 4000), 2, "each of 2 cards; of n1's 2 cards the freest has 29696 MiB free"),
        ("PairsByFilter", (3072, 4000), 1, "one card; of n1's 2 cards the freest has 29696 MiB free"),
    ],
)
def test_event_tells_why_there_is_no_combination(vendor, used, count, told):
    assert stage(example(vendor), *used).explain_text(pod(cards(count)), "n1") == f"{NEEDS} {told}"


@pytest.mark.parametrize("vendor", [*PAIRS, "Rings"])
@pytest.mark.parametrize("seed", range(20))
def test_amounts_in_the_event_are_those_of_the_cards(vendor, seed):
    rng = random.Random(seed)
    for _ in range(15):
        used = [rng.choice([0, 3072, 10000, 32768]) for _ in range(rng.choice([2, 4, 8]))]
        count, mib = rng.choice([1, 2, 3, 4]), rng.choice([20000, 30208, 32768])
        made = stage(example(vendor), *used)
        told = made.explain_text(pod(cards(count, mib)), "n1")
        free = [usage.device.memory_mib - usage.used_memory_mib for usage in made.usage("n1")]
        short, enough = [mib_free for mib_free in free if mib_free < mib], [f for f in free if f >= mib]
        for most in re.findall(r"the freest has (\d+) MiB", told):
            assert int(most) == max(free)
        for number, most in re.findall(r"(\d+) with (?:at most )?(\d+) MiB free", told):
            assert (int(number), int(most)) == (len(short), max(short))
        for number in re.findall(r"(?:only )?(\d+) would serve", told):
            assert int(number) == len(enough)
        assert "only" not in told or "has only" in told or len(enough) < count, told
        assert ("together" in told or "by the vendor" in told) <= (len(enough) >= count), told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            ((0, 3072, 3072, 0), (0, 3072, 9000, 0)),
            "of the 8 cards on 2 nodes 4 with at most 29696 MiB free, 4 would serve alone, but no 2 of them together",
        ),
        (
            ((0, 3072), (3072, 0)),
            "of the 4 cards on 2 nodes 2 with at most 29696 MiB free, 2 would serve, but not enough on one node",
        ),
        (
            ((0, 3072), (0, 9000, 3072, 0)),
            (
                "of the 6 cards on 2 nodes 3 with at most 29696 MiB free, 1 would serve, but not enough on one node,"
                " 2 would serve alone, but no 2 of them together"
            ),
        ),
        (((3072, 9000), (4000, 5000)), "of the 4 cards on 2 nodes the freest has 29696 MiB free"),
        (((3072, 9000), (4000,)), "of the 3 cards on 2 nodes 2 with at most 29696 MiB free; 1 of 2 nodes: has only 1"),
    ],
)
def test_sentence_over_several_nodes_is_true_of_each(rows, told):
    made = stage(example("PairsByFilter"), *rows[0])
    made.set_node(
        NodeFacts("n2"), {"ACME": [Device(f"e{i}", i, 4, CARD_MIB, 100, "NPU", "ACME") for i in range(len(rows[1]))]}
    )
    for i, used in enumerate(rows[1]):
        if used:
            part = ContainerSlices("c", ContainerKind.APP, (Slice(f"e{i}", "ACME", used, 0),))
            made.set_pod(Booking(f"v{i}", "other", "p", Allocation("n2", (part,))))
    assert f"{NEEDS} each of 2 cards; {told}" in made.explain_text(pod(cards(2)))


def test_least_busy_card_is_named_among_all_only():
    made = stage(example("PairsByChoice"), 0, 0, 0, 0)
    part = ContainerSlices("c", ContainerKind.APP, tuple(Slice(f"d{i}", "ACME", 0, 60 + i) for i in range(2)))
    made.set_pod(Booking("busy", "other", "busy", Allocation("n1", (part,))))
    told = made.explain_text(pod(replace(cards(3, 0), cores=50)), "n1")
    assert "of n1's 4 cards only 2 would serve, 2 with at most 40 % of the cores free" in told


def test_event_names_what_earlier_containers_take():
    """The second container finds less than the node has, because the first one has taken its part."""
    made = stage(example("PairsByFilter"), 0, 0)
    told = made.explain_text(pod(cards(2), cards(1)), "n1")
    assert told == (
        "container c1 needs 30208 MiB on one card; of n1's 2 cards, beside what the pod's earlier containers take,"
        " the freest has 2560 MiB free"
    )


def test_pods_events_name_the_reason_of_the_vendor():
    made, events = stage(example("PairsByChoice"), 0, 3072, 3072, 0), []
    recorder = SimpleNamespace(record=lambda about, kind, reason, message: events.append(message))
    wanted = pod(cards(2))
    about = Pod(metadata=ObjectMeta(name="pod", namespace="team", uid="pod"))
    cluster = SimpleNamespace(inventory=made, families={word: rules.family for word, rules in made.rules.items()})
    PodEvents(recorder, cluster).nothing_fits(about, wanted, made.filter(wanted, ["n1"]))
    assert events[:2] == ["1 nodes AcmeNotAPair(n1)", "1 nodes CardInsufficientMemory(n1)"]
    assert events[-1].endswith("AcmeNotAPair: 2 cards are asked for, cards are given in pairs")


def test_explanation_of_a_combination_has_one_reason_a_card():
    made = stage(example("PairsByChoice"), 0, 3072, 0, 3072)
    reasons = made.explain(pod(cards(2)), "n1")
    assert [(reason.device, reason.code) for reason in reasons] == [
        ("d0", "AcmeNotAPair"),
        ("d1", "CardInsufficientMemory"),
        ("d2", "AcmeNotAPair"),
        ("d3", "CardInsufficientMemory"),
    ]
    assert "cards are given in pairs" in reasons[0].detail


def test_no_pair_is_missed_that_brute_force_finds():
    """A rule without any pattern: devices go together if the sum of their indexes is a prime number."""

    def rule(device, chosen):
        return any(device.device.index + other.device.index not in {2, 3, 5, 7, 11, 13} for other in chosen)

    for seed in range(60):
        rng = random.Random(seed)
        vendor, _ = counted_rule(rule, depends=True)
        used = [rng.choice([0, 0, 0, 3072]) for _ in range(8)]
        free = [i for i in range(8) if not used[i]]
        count = rng.choice([2, 3])
        there = any(
            all(a + b in {2, 3, 5, 7, 11, 13} for a, b in combinations(some, 2)) for some in combinations(free, count)
        )
        assert (placed(stage(vendor, *used), pod(cards(count))) is not None) == there


# --- containers that share devices, and what `choose` and `score_node` see -----------------------------------------


def sharing(**more):
    return acme(type("Rule", (), {}), one_choice_per_pod=True, **more)


@pytest.mark.parametrize("policy", ["spread", "binpack"])
@pytest.mark.parametrize(
    ("used", "wanted", "got"),
    [
        ((0, 0), (cards(1, 8192), cards(1, 8192)), 1),
        ((24576, 0), (cards(1, 8192), cards(1, 8192)), 1),
        ((0, 24576), (cards(1, 8192), cards(1, 8192)), 0),
        ((16384, 24576, 28672), (cards(1, 4096), cards(1, 8192), cards(1, 4096)), 0),
    ],
)
def test_containers_share_a_card_with_room_for_all(policy, used, wanted, got):
    found = placed(stage(sharing(), *used), pod(*wanted, policy=policy))
    assert found is not None
    assert {tuple(card) for card in found} == {(found[0][0],)}
    if used != (0, 0):
        assert found[0] == [got]


def test_containers_that_find_no_common_card_are_refused():
    made = stage(sharing(), 20480, 20480)
    assert placed(made, pod(cards(1, 8192), cards(1, 8192))) is None
    told = made.filter(pod(cards(1, 8192), cards(1, 8192)), ["n1"]).refused["n1"]
    assert told == "1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule"
    assert placed(made, pod(cards(1, 8192))) is not None


def test_shared_cards_follow_the_count_and_the_init_container():
    made = stage(sharing(), 0, 0, 0)
    assert placed(made, pod(cards(2, 8192), cards(2, 8192))) in ([[1, 2], [1, 2]], [[0, 1], [0, 1]])
    first, second = placed(made, pod(cards(1), cards(1), kinds=("init", "app")))
    assert first == second
    assert placed(made, pod(cards(1, 8192), cards(2, 8192))) is None, "the second container needs a card more"


def test_random_pods_share_cards_wherever_a_common_card_exists():
    rng = random.Random(7)
    for _ in range(200):
        used = [rng.choice([0, 8192, 16384, 24576]) for _ in range(3)]
        asks = [cards(1, rng.choice([4096, 8192, 12288, 16384])) for _ in range(rng.choice([2, 3]))]
        found = placed(stage(sharing(), *used), pod(*asks, policy=rng.choice(["spread", "binpack"])))
        total = sum(ask.memory_mib for ask in asks)
        assert (found is not None) == any(mib + total <= CARD_MIB for mib in used), (used, asks)
        assert found is None or len({tuple(each) for each in found}) == 1


def test_choose_sees_devices_that_do_not_fit():
    def choose(self, request, candidates, devices):
        seen.append((len(candidates), [device.used_memory_mib for device in devices]))

    seen = []
    placed(stage(choosing(choose), 3072, 0, 0), pod(cards(1)))
    assert seen[0][0] == 2
    assert sorted(seen[0][1]) == [0, 0, 3072]


def test_score_sees_what_was_in_use_before_the_pod():
    def score_node(self, allocation, devices):
        seen.append([device.used_memory_mib for device in devices])

    seen = []
    rule = type("Rule", (), {"score_node": hookimpl(score_node)})
    stage(acme(rule), 3072, 0).filter(pod(cards(1)), ["n1"])
    assert seen == [[3072, 0]]


def test_vendor_of_two_families_scores_a_pod_once():
    class Two:
        @hookimpl
        def families(self):
            return [
                replace(ACME, word=word, resources=Resources(f"acme.io/{word}"), allocated_key=f"hami.io/{word}")
                for word in ("a", "b")
            ]

        @hookimpl
        def score_node(self, devices):
            seen.append([device.device.family for device in devices])

    seen = []
    made = Inventory(one(Two).rules())
    made.set_node(NodeFacts("n1"), {w: [Device(f"{w}0", 0, 1, 10, 100, "NPU", w)] for w in ("a", "b")})
    both = ContainerRequest("c", ContainerKind.APP, (Request("a", 1), Request("b", 1)))
    made.filter(PodRequest("u", "team", "p", (both,)), ["n1"])
    assert seen == [["a", "b"]]
