"""A pod with policy mutex that keeps later pods off its cards, if the administrator says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_core.inventory import Inventory, PolicyDefaults, Rejection
from hami_core.model import Allocation, Booking, NodeFacts, PodRequest

from .test_inventory import devices, pod
from .worlds import rules

REFUSED = "1/1 ExclusiveDeviceAllocateConflict"


def inventory(*, keeps: bool = True, device_policy: str = "spread", cards: int = 1) -> Inventory:
    made = Inventory(rules(), PolicyDefaults("binpack", device_policy, keep_idle_only=keeps))
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", cards)})
    return made


def mutex(uid: str, policy: str = "mutex") -> PodRequest:
    return replace(pod(uid, 1000), device_policy=policy)


def answer(made: Inventory, request: PodRequest) -> str:
    """The node that Filter ranks first, or the reason."""
    outcome = made.filter(request, ["n1"])
    return outcome.hold_node or dict(outcome.refused)["n1"]


@pytest.mark.parametrize(("keeps", "expected"), [(True, REFUSED), (False, "n1")])
@pytest.mark.parametrize("policy", ["mutex", "mutex,spread"])
def test_later_pod_is_refused_only_if_the_setting_is_on(keeps: bool, expected: str, policy: str):
    made = inventory(keeps=keeps)
    assert isinstance(made.book(mutex("alone", policy), "n1"), Allocation)
    assert answer(made, pod("intruder", 1000)) == expected
    assert isinstance(made.book(pod("intruder", 1000), "n1"), Allocation) is not keeps


def test_pod_that_names_no_policy_follows_the_default_policy():
    made = inventory(device_policy="mutex")
    made.book(pod("alone", 1000), "n1")
    assert answer(made, mutex("intruder", "spread")) == REFUSED


def test_hold_keeps_others_off_like_a_booking():
    made = inventory()
    made.hold(mutex("alone"), "n1", until=15.0)
    assert answer(made, pod("intruder", 1000)) == REFUSED
    made.expire_holds(15.0)
    assert answer(made, pod("intruder", 1000)) == "n1"


def test_card_is_open_again_when_the_pod_ends():
    made = inventory()
    made.book(mutex("alone"), "n1")
    made.remove_pod("alone")
    assert answer(made, pod("next", 1000)) == "n1"


def test_bookings_read_from_the_api_give_the_same_answers():
    made, read = inventory(cards=2), inventory(cards=2)
    for uid in ("alone", "filler"):
        made.book(mutex(uid) if uid == "alone" else pod(uid, 16000), "n1")
    for booking in made.bookings():
        read.set_pod(booking)
    refused = "1/2 CardInsufficientMemory, 1/2 ExclusiveDeviceAllocateConflict"
    assert [answer(each, pod("intruder", 1000)) for each in (made, read)] == [refused, refused]
    assert made.drift() == read.drift() == 0


def test_pod_that_names_mutex_later_closes_no_shared_card():
    made = inventory()
    first = made.book(mutex("first", ""), "n1")
    made.book(mutex("second", ""), "n1")
    assert isinstance(first, Allocation)
    made.set_pod(Booking("first", "team", "first", first, "mutex"))
    assert answer(made, pod("third", 1000)) == "n1"
    made.remove_pod("second")
    assert answer(made, pod("third", 1000)) == REFUSED
    assert made.drift() == 0


def test_pod_that_names_mutex_no_more_frees_its_card():
    made = inventory()
    placed = made.book(mutex("alone"), "n1")
    assert isinstance(placed, Allocation)
    assert made.set_pod(Booking("alone", "team", "alone", placed, "spread")), "waiting pods are tried again"
    assert answer(made, pod("next", 1000)) == "n1"


def test_mutex_pod_that_displaces_a_hold_ends_it():
    made = inventory()
    made.hold(pod("held", 1000), "n1", until=15.0)
    assert isinstance(made.book(mutex("alone"), "n1"), Allocation)
    assert made.hold_count == 0
    assert isinstance(made.book(pod("held", 1000), "n1"), Rejection)


def test_explanation_says_who_keeps_the_card():
    made = inventory(cards=2)
    made.book(mutex("alone"), "n1")
    made.book(pod("filler", 16000), "n1")
    told = made.explain_text(pod("intruder", 4000))
    assert told == (
        "container c0 needs 4000 MiB on one card; of n1's 2 cards 1 with 0 MiB free, 1 kept by a pod with policy mutex"
    )
