"""Holds, bookings, nodes that come and go, quotas, explanations: the inventory's promises one by one."""

from __future__ import annotations

import random

import pytest

from hami_core.errors import WireError
from hami_core.inventory import Inventory, PolicyDefaults, RawNames, Rejection
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    Device,
    MigPlacement,
    NodeFacts,
    PodRequest,
    Request,
    Slice,
)

from .worlds import rules

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


def devices(node: str, count: int = 2, **changes: object) -> list[Device]:
    return [Device(**{  # type: ignore[arg-type]
        "id": f"{node}-{i}", "index": i, "slots": 4, "memory_mib": 16000, "cores": 100, "type": "NVIDIA-T4",
        "family": "NVIDIA", "mode": "hami-core", **changes,
    }) for i in range(count)]  # fmt: skip


def inventory(*nodes: str, count: int = 1) -> Inventory:
    made = Inventory(rules(), PolicyDefaults("binpack", "binpack"))
    for node in nodes:
        made.set_node(NodeFacts(node), {"NVIDIA": devices(node, count)})
    return made


def pod(
    uid: str, *containers: tuple[ContainerKind, int] | int, cards: int = 1, namespace: str = "team", **more
) -> PodRequest:
    """Containers as MiB (app) or (kind, MiB)."""
    given = [c if isinstance(c, tuple) else (APP, c) for c in containers]
    parts = tuple(
        ContainerRequest(f"c{i}", kind, (Request("NVIDIA", cards, memory, **more),) if memory else ())
        for i, (kind, memory) in enumerate(given)
    )
    return PodRequest(uid, namespace, uid, parts)


def used(made: Inventory, node: str = "n1") -> list[int]:
    return [usage.used_memory_mib for usage in made.usage(node)]


def test_a_hold_counts_until_its_end():
    made = inventory("n1")
    assert isinstance(made.hold(pod("a", 10000), "n1", until=15.0), Allocation)
    assert made.filter(pod("b", 10000), ["n1"]).refused["n1"] == "1/1 CardInsufficientMemory"
    assert made.expire_holds(14.9) == []
    assert made.expire_holds(15.0) == ["a"]
    assert made.filter(pod("b", 10000), ["n1"]).hold_node == "n1"


def test_the_pods_own_hold_ends_at_its_next_filter():
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    assert made.filter(pod("a", 12000), ["n1"]).hold_node == "n1"
    assert used(made) == [0]


def test_bind_turns_the_hold_into_the_booking():
    made = inventory("n1", count=2)
    held = made.hold(pod("a", 10000), "n1", until=15.0)
    made.hold(pod("b", 1000), "n1", until=15.0)
    assert made.book(pod("a", 10000), "n1") == held
    assert made.expire_holds(100.0) == ["b"]
    assert sum(used(made)) == 10000


def test_bind_displaces_holds_but_no_bookings():
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    made.hold(pod("small", 1000), "n1", until=15.0)
    assert isinstance(made.book(pod("b", 12000), "n1"), Allocation)
    assert [hold.uid for hold, _ in made.holds()] == ["small"]
    refused = made.book(pod("a", 10000), "n1")
    assert isinstance(refused, Rejection)
    assert refused.short == "1/1 CardInsufficientMemory"
    assert [booking.uid for booking in made.bookings()] == ["b"]


def test_a_refused_bind_leaves_the_holds_of_others():
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    assert isinstance(made.book(pod("b", 17000), "n1"), Rejection)
    assert [hold.uid for hold, _ in made.holds()] == ["a"]


def test_bind_is_idempotent_and_goes_to_one_node_only():
    made = inventory("n1", "n2")
    first = made.book(pod("a", 10000), "n1")
    assert made.book(pod("a", 10000), "n1") == first
    elsewhere = made.book(pod("a", 10000), "n2")
    assert isinstance(elsewhere, Rejection)
    assert elsewhere.short == "pod is already booked on node n1"
    made.release("a")
    made.release("a")
    assert isinstance(made.book(pod("a", 10000), "n2"), Allocation)


def test_a_hold_is_placed_anew_when_the_card_has_changed():
    made = inventory("n1", count=2)
    held = made.hold(pod("a", 10000), "n1", until=15.0)
    assert isinstance(held, Allocation)
    lost = held.containers[0].slices[0].device_id
    changed = [d if d.id != lost else devices("n1", 2, healthy=False)[d.index] for d in devices("n1", 2)]
    made.set_node(NodeFacts("n1"), {"NVIDIA": changed})
    booked = made.book(pod("a", 10000), "n1")
    assert isinstance(booked, Allocation)
    assert booked.containers[0].slices[0].device_id != lost


def test_hold_ends_if_another_leaders_booking_takes_its_room():
    """Another leader's booking takes the room, so the hold must not overcommit the card."""
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    foreign = ContainerSlices("c", APP, (Slice("n1-0", "NVIDIA", 10000, 0),))
    made.set_pod(Booking("x", "other", "x", Allocation("n1", (foreign,))))
    assert isinstance(made.book(pod("a", 10000), "n1"), Rejection)
    assert used(made) == [10000]


def test_pods_count_again_when_their_node_comes_back():
    made = inventory("n1")
    made.book(pod("a", 10000), "n1")
    made.remove_node("n1")
    assert made.filter(pod("b", 1000), ["n1"]).refused["n1"] == "node unregistered"
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", 1)})
    assert used(made) == [10000]
    made.remove_pod("a")
    made.remove_pod("a")
    assert used(made) == [0]
    assert made.drift() == 0


def test_a_node_that_cannot_be_read_is_closed_and_keeps_its_pods():
    made = inventory("n1")
    made.book(pod("a", 10000), "n1")
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", 1)}, closed=True)
    assert dict(made.filter(pod("b", 100), ["n1"]).refused) == {"n1": "node usage unavailable"}
    assert isinstance(made.book(pod("b", 100), "n1"), Rejection)
    assert used(made) == [10000]
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", 1)})
    assert made.filter(pod("b", 100), ["n1"]).hold_node == "n1"


def test_a_node_gives_nothing_of_a_family_whose_agent_is_away():
    made = inventory("n1", "n2")
    both = {"NVIDIA": devices("n1", 1), "OTHER": devices("o", 1, family="OTHER", type="OTHER-1")}
    made.set_node(NodeFacts("n1"), both)
    made.book(pod("a", 10000), "n1")
    assert isinstance(made.hold(pod("b", 100), "n1", until=15.0), Allocation)
    made.bar_node("n1", {"NVIDIA": "its agent is away"})
    outcome = made.filter(pod("c", 100), ["n1", "n2", "n3"])
    assert outcome.hold_node == "n2"
    assert dict(outcome.refused) == {"n1": "its agent is away", "n3": "node unregistered"}
    assert len(outcome.refused) == 2
    for uid in ("b", "c"):
        assert made.book(pod(uid, 100), "n1") == Rejection("n1", word="its agent is away"), "a hold guarantees nothing"
    assert made.bar("n1", ["NVIDIA"]) == "its agent is away"
    assert "its agent is away" in made.explain_text(pod("c", 100), "n1")
    other = PodRequest("d", "team", "d", (ContainerRequest("c0", APP, (Request("OTHER", 1, 100),)),))
    assert made.filter(other, ["n1"]).hold_node == "n1", "other vendors' agents are there"
    assert used(made) == [10000, 0], "running pods keep counting"
    assert made.drift() == 0

    made.set_node(NodeFacts("n1"), {**both, "NVIDIA": devices("n1", 3)})
    assert made.filter(pod("c", 100), ["n1"]).refused["n1"] == "its agent is away", "with other devices too"
    made.bar_node("n1", {})
    made.bar_node("nobody", {"NVIDIA": "?"})
    assert made.filter(pod("c", 100), ["n1"]).hold_node == "n1"
    made.bar_node("n1", {"NVIDIA": "its agent is away"})
    made.remove_node("n1")
    made.set_node(NodeFacts("n4"), {"NVIDIA": devices("n4", 1)})
    assert made.filter(pod("c", 100), ["n4"]).hold_node == "n4", "its place in the tables is clean"


def test_a_node_without_devices_is_not_registered():
    made = inventory("n1")
    made.set_node(NodeFacts("n1"), {"NVIDIA": None})
    assert made.node_names() == []
    assert made.filter(pod("b", 100), ["n1", "n2"]).refused.by_reason() == {"node unregistered": ["n1", "n2"]}


def test_peak_usage_follows_kubernetes_rule():
    """An init container runs together with earlier sidecars; a sidecar runs together with everything after it."""
    made = inventory("n1")
    wanted = pod("a", (INIT, 9000), (SIDECAR, 3000), (INIT, 11000), (APP, 5000))
    placed = made.book(wanted, "n1")
    assert isinstance(placed, Allocation)
    assert used(made) == [14000]
    made.set_pod(Booking("a", "team", "a", placed), init_done=True)
    assert used(made) == [8000]
    made.set_pod(Booking("a", "team", "a", placed))
    assert used(made) == [8000], "once ended, init containers stay ended"
    assert isinstance(made.book(pod("b", (SIDECAR, 3000), (INIT, 6000)), "n1"), Rejection)


def test_absurd_allocations_are_bounded_by_the_device():
    made = inventory("n1")
    absurd = ContainerSlices("c", APP, (Slice("n1-0", "NVIDIA", 2**31 - 1, 2**31 - 1), Slice("gone", "NVIDIA", 5, 5)))
    made.set_pod(Booking("x", "other", "x", Allocation("n1", (absurd,))))
    (usage,) = made.usage("n1")
    assert (usage.used_slots, usage.used_memory_mib, usage.used_cores) == (1, 16000, 100)
    assert made.drift() == 0
    made.remove_pod("x")
    assert used(made) == [0]


def test_card_with_an_impossible_mig_instance_is_closed():
    made = inventory("n1")
    odd = Slice("n1-0", "NVIDIA", 5120, 14, mig_profile="1g.5gb", mig_placement=MigPlacement(0, 1))
    made.set_pod(Booking("x", "other", "x", Allocation("n1", (ContainerSlices("c", APP, (odd,)),))))
    assert made.filter(pod("a", 100), ["n1"]).refused["n1"] == "1/1 CardNotHealth"
    made.remove_pod("x")
    assert made.filter(pod("a", 100), ["n1"]).hold_node == "n1"


def test_quotas_take_the_smallest_of_several_objects():
    made = inventory("n1", "n2")
    made.set_quota("team", "one", {"limits.nvidia.com/gpumem": "12000", "requests.nvidia.com/gpu": "1", "pods": "5"})
    made.set_quota("team", "two", {"limits.nvidia.com/gpumem": "9k"})
    assert made.filter(pod("a", 9001), ["n1"]).refused["n1"] == "1/1 ResourceQuotaNotFit"
    assert made.filter(pod("a", 9001, namespace="free"), ["n1"]).hold_node == "n1"
    made.remove_quota("team", "two")
    assert isinstance(made.book(pod("a", 9001), "n1"), Allocation)
    assert made.filter(pod("b", 3000), ["n2"]).refused["n2"] == "1/1 ResourceQuotaNotFit"
    refusal = made.quota.admission_refusal(pod("b", 3000))
    assert refusal is not None
    assert (refusal.needed, refusal.available) == (3000, 2999)
    made.remove_pod("a")
    assert made.quota.admission_refusal(pod("b", 3000)) is None
    made.remove_quota("team", "one")
    made.remove_quota("team", "unknown")
    assert [row.limit for row in made.quota.rows()] == []


def test_names_as_raw_json():
    made = inventory("n1", "n2")
    raw = RawNames(b'["n2", "n1", "n2", "nobody"]')
    outcome = made.filter(pod("a", 100), raw)
    assert outcome.best == [("n1", 0.0), ("n2", 0.0)]
    assert dict(outcome.refused) == {"nobody": "node unregistered"}
    made.set_node(NodeFacts("nobody"), {"NVIDIA": devices("nobody")})
    assert len(made.filter(pod("a", 100), raw).best) == 3
    with pytest.raises(WireError, match="NodeNames"):
        made.filter(pod("a", 100), RawNames(b'["n2", 1]'))


def test_refusals_as_json_whatever_the_names():
    made = inventory("n1")
    outcome = made.filter(pod("a", 17000), ["n1", 'we"ird\n', "é"])
    import json

    assert json.loads(outcome.refused.json()) == dict(outcome.refused)
    assert len(outcome.refused) == 3


def test_a_pod_that_asks_for_nothing_fits_everywhere():
    made = inventory("n1", "n2")
    assert [name for name, _ in made.filter(pod("a", 0), ["n1", "n2"]).best] == ["n1", "n2"]


def test_a_family_nobody_serves_is_refused():
    made = inventory("n1")
    asked = PodRequest("a", "team", "a", (ContainerRequest("c", APP, (Request("TPU", 1),)),))
    assert made.filter(asked, ["n1"]).refused["n1"] == "Device type not found"
    assert isinstance(made.book(asked, "n1"), Rejection)


def test_more_cards_than_counters():
    """Nodes beyond what the columns count reasons for are walked."""
    made = inventory("n1")
    made.set_node(NodeFacts("big"), {"NVIDIA": devices("big", 40)})
    assert made.filter(pod("a", 17000), ["big"]).refused["big"] == "40/40 CardInsufficientMemory"
    two = made.filter(pod("b", 9000, 9000, cards=30), ["big", "n1"])
    assert dict(two.refused) == {
        "big": "10/40 AllocatedCardsInsufficientRequest, 30/40 CardInsufficientMemory",
        "n1": "NodeInsufficientDevice",
    }


def test_explanations_name_amounts():
    made = inventory("n1", "n2", count=2)
    made.book(pod("a", 4000), "n1")
    text = made.explain_text(pod("b", 30000, cores=30), "n1")
    needs = "container c0 needs 30000 MiB and 30 % of the cores on one card"
    assert text == f"{needs}; of n1's 2 cards the freest has 16000 MiB free"
    reasons = made.explain(pod("b", 30000), "n1")
    assert [(r.code, r.device, r.needed, r.available) for r in reasons] == [
        ("CardInsufficientMemory", "n1-0", 30000, 16000),
        ("CardInsufficientMemory", "n1-1", 30000, 12000),
    ]
    everywhere = made.explain_text(pod("b", 30000, cards=2))
    assert (
        everywhere
        == "container c0 needs 30000 MiB on each of 2 cards; of the 4 cards on 2 nodes the freest has 16000 MiB free"
    )
    assert made.explain_text(pod("b", 100)) == ""
    assert "has only 2 cards" in made.explain_text(pod("b", 100, cards=3), "n1")
    assert "node unregistered" in made.explain_text(pod("b", 100), "n9")
    made.set_quota("team", "q", {"limits.nvidia.com/gpumem": "5000"})
    assert "quota leaves 1000" in made.explain_text(pod("b", 2000), "n1")


def test_node_without_the_family_is_said_to_have_none():
    made = inventory("n1")
    made.set_node(NodeFacts("other"), {"ACME": devices("other", family="ACME")})
    made.set_node(NodeFacts("single"), {"NVIDIA": devices("single", 1)})
    assert made.explain_text(pod("b", 100), "other").endswith("; other: has no NVIDIA cards")
    assert made.explain_text(pod("b", 100, cards=2), "single").endswith("; single: has only 1 card")


def test_unregistered_node_names_what_to_check():
    told = inventory("n1").explain_text(pod("b", 100), "bare")
    assert told.startswith("bare: refuses: node unregistered (no agent has registered devices there: ")
    assert "kubectl get ds" in told
    assert "hami doctor" in told


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ({"nvidia.com/use-gputype": "NVIDIA-T4X, A100"}, "the pod takes NVIDIA-T4X, A100 (nvidia.com/use-gputype)"),
        ({"nvidia.com/nouse-gputype": "t4"}, "the pod refuses t4 (nvidia.com/nouse-gputype)"),
        ({"nvidia.com/use-gputype": "x" * 500}, f"the pod takes {'x' * 80} (nvidia.com/use-gputype)"),
    ],
)
def test_model_mismatch_names_the_model_and_the_rule(selector, told):
    made = inventory("n1", count=2)
    text = made.explain_text(pod("b", 100, annotations=selector), "n1")
    assert text.endswith(f"of n1's 2 cards 2 not matching the pod: model NVIDIA-T4; {told}")


def test_nearest_miss_has_the_most_memory_free():
    made = inventory("a", "b", "c", "d")
    made.set_node(NodeFacts("wrong-model"), {"NVIDIA": devices("wrong-model", memory_mib=20000, type="NVIDIA-A100")})
    made.set_node(NodeFacts("broken"), {"NVIDIA": devices("broken", memory_mib=20000, healthy=False)})
    for node, taken in (("a", 9000), ("b", 3000), ("d", 1000)):
        made.book(pod(node, taken), node)
    picky = pod("p", 18000, annotations={"nvidia.com/use-gputype": "T4"})
    refused = made.filter(picky, [*made.node_names(), "bare"]).refused
    assert len(refused) == 7
    assert refused.nearest(3) == ["c", "d", "b"]
    assert refused.nearest(9) == ["c", "d", "b", "a", "broken", "wrong-model"]


def test_nearest_misses_include_closed_nodes_last():
    made = inventory("a", "b", "c")
    made.bar_node("a", {"NVIDIA": "its agent is away"})
    made.set_node(NodeFacts("b"), {"NVIDIA": devices("b")}, closed=True)
    refused = made.filter(pod("p", 99000), ["a", "b", "c", "bare"]).refused
    assert refused.nearest(2) == ["c", "a"]
    assert refused.nearest(5) == ["c", "a", "b"]
    assert made.filter(pod("p", 99000, cards=5), ["c"]).refused.nearest(3) == ["c"]


def test_explaining_changes_nothing():
    made = inventory("n1")
    made.hold(pod("a", 10000), "n1", until=15.0)
    assert made.explain(pod("a", 12000)) == []
    assert used(made) == [10000]
    assert made.explain(pod("b", 12000))[0].available == 6000


def test_usage_shows_every_card():
    made = inventory("n2", "n1")
    made.book(pod("a", 4000), "n1")
    assert [(node, u.device.id, u.pods) for node in made.node_names() for u in made.usage(node)] == [
        ("n1", "n1-0", ("team/a",)),
        ("n2", "n2-0", ()),
    ]


def test_a_watcher_is_told_which_nodes_changed():
    made = inventory("n1", "n2", "n3")
    changed = made.watch_changes()
    assert changed == {"n1", "n2", "n3"}
    changed.clear()
    made.filter(pod("a", 4000), ["n1", "n2"])
    assert changed == set()
    made.hold(pod("a", 4000), "n1", until=15.0)
    assert changed == {"n1"}
    changed.clear()
    made.expire_holds(16.0)
    assert changed == {"n1"}
    made.remove_node("n2")
    assert changed == {"n1", "n2"}
    assert (made.hold_count, made.booking_count) == (0, 0)
    changed.clear()
    made._nodes["n3"].families["NVIDIA"].memory[0] += 1
    made.drift(["n3"])
    assert changed == {"n3"}


def test_drift_is_found_and_put_right():
    made = inventory("n1")
    made.book(pod("a", 4000), "n1")
    made._nodes["n1"].families["NVIDIA"].memory[0] += 1
    assert made.drift() > 0
    assert made.drift() == 0
    assert used(made) == [4000]


def test_columns_follow_a_thousand_changes():
    """Nodes come and go in any order, and their columns are reused."""
    rng = random.Random(1)
    made = inventory()
    for _ in range(1000):
        name = f"n{rng.randrange(150)}"
        if rng.random() < 0.6:
            made.set_node(NodeFacts(name), {"NVIDIA": devices(name, rng.randint(1, 9))})
        else:
            made.remove_node(name)
    names = made.node_names()
    assert [name for name, _ in made.filter(pod("a", 100), names, limit=1000).best] == names
    assert made.drift() == 0


@pytest.mark.parametrize(
    ("key", "text", "fits"),
    [
        ("nvidia.com/use-gpuuuid", ",,", False),
        ("nvidia.com/use-gpuuuid", "nowhere,,;", False),
        ("nvidia.com/use-gpuuuid", ",n1-0", True),
        ("nvidia.com/nouse-gpuuuid", ",", True),
        ("nvidia.com/nouse-gpuuuid", "nowhere,, ", True),
        ("nvidia.com/nouse-gpuuuid", ",n1-0,n1-1", False),
    ],
)
def test_empty_entries_of_id_lists_match_no_device(key, text, fits):
    made = inventory("n1", count=2)
    asked = pod("a", 1000, annotations={key: text})
    assert [name for name, _ in made.filter(asked, ["n1"]).best] == (["n1"] if fits else [])
    assert isinstance(made.book(asked, "n1"), Allocation) is fits
