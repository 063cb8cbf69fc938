"""Bind after a hold: the hold becomes the booking unchanged, or the pod is placed again."""

from __future__ import annotations

from dataclasses import replace

from hami_core.inventory import Inventory, Rejection
from hami_core.model import Allocation, Booking, NodeFacts

from .test_inventory import devices, inventory, pod, used


def held(made: Inventory, request, node: str = "n1") -> Allocation:
    allocation = made.hold(request, node, until=15.0)
    assert isinstance(allocation, Allocation)
    return allocation


def test_a_hold_on_another_node_is_not_what_bind_was_asked_for():
    made = inventory("n1", "n2")
    held(made, pod("a", 10000), "n1")
    booked = made.book(pod("a", 10000), "n2")
    assert isinstance(booked, Allocation)
    assert booked.node == "n2"
    assert used(made, "n1") == [0]


def test_a_hold_for_another_request_is_placed_anew():
    made = inventory("n1")
    held(made, pod("a", 10000))
    made.book(pod("a", 12000), "n1")
    assert used(made) == [12000]


def test_a_hold_on_a_node_that_was_closed_since_is_refused():
    made = inventory("n1")
    held(made, pod("a", 10000))
    made.set_node(NodeFacts("n1"), {"NVIDIA": devices("n1", 1)}, closed=True)
    assert isinstance(made.book(pod("a", 10000), "n1"), Rejection)
    assert used(made) == [0]


def test_a_hold_that_a_quota_no_longer_allows_is_refused():
    made = inventory("n1")
    held(made, pod("a", 10000))
    made.set_quota("team", "q", {"limits.nvidia.com/gpumem": "9999"})
    refused = made.book(pod("a", 10000), "n1")
    assert isinstance(refused, Rejection)
    assert "ResourceQuotaNotFit" in refused.short


def test_mutex_hold_is_refused_if_a_pod_took_the_card():
    made = inventory("n1")
    alone = replace(pod("a", 1000), device_policy="mutex")
    held(made, alone)
    made.set_pod(Booking("b", "team", "b", held(inventory("n1"), pod("b", 1000))))
    refused = made.book(alone, "n1")
    assert isinstance(refused, Rejection)
    assert used(made) == [1000]


def test_a_booked_pod_takes_no_hold():
    made = inventory("n1", "n2")
    booked = made.book(pod("a", 10000), "n1")
    assert made.hold(pod("a", 10000), "n1", until=15.0) == booked
    assert isinstance(made.hold(pod("a", 10000), "n2", until=15.0), Rejection)
    assert list(made.holds()) == []
    assert (used(made, "n1"), used(made, "n2")) == ([10000], [0])


def test_what_the_api_server_says_ends_the_hold():
    made = inventory("n1")
    made.set_pod(Booking("a", "team", "a", held(made, pod("a", 10000))))
    assert list(made.holds()) == []
    assert used(made) == [10000]
    held(made, pod("b", 1000))
    made.remove_pod("b")
    assert list(made.holds()) == []
    assert used(made) == [10000]
