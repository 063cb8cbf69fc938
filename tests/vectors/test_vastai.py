"""Vastai: which dies are chosen, mutex on cards with several dies, and the cores of registered devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hami_core.inventory.nodes import FamilyDevices
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    Device,
    NodeFacts,
    PodRequest,
    Request,
    Slice,
)
from hami_core.placement import Plan, place
from hami_core.plugins import load

from .test_vendors import vendor

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.vectors

WORD = "Vastai"


def dies(*cards: int) -> list[Device]:
    """Dies on so many cards, each with so many of them."""
    places = [(card, die) for card, size in enumerate(cards) for die in range(size)]
    return [
        Device(f"{card}-{die}", i, 2, 0, 100, WORD, WORD, custom={"DeviceStrategy": "die", "AIC": str(card)})
        for i, (card, die) in enumerate(places)
    ]


def chosen(devices: Sequence[Device], count: int, policy: str = "", used: Sequence[str] = ()) -> list[str] | str:
    """The cards of the chosen dies, or why there are none. One pod is on each used die."""
    rules = {rule.family.word: rule for rule in load({}, only=["vastai"]).rules()}
    cards = FamilyDevices(devices).cards()
    for card in cards:
        if card.device.id in used:
            card.take(Slice(card.device.id, WORD, 0, 0))
    container = ContainerRequest("c", ContainerKind.APP, (Request(WORD, count),))
    placed = place("n1", {WORD: cards}, Plan(PodRequest("u", "ns", "p", (container,), device_policy=policy), rules))
    if isinstance(placed, Allocation):
        return sorted(piece.device_id.split("-")[0] for piece in placed.containers[0].slices)
    return placed.short


@pytest.mark.parametrize(("count", "cards"), [(3, "000"), (4, "0001")])
def test_best_combination_of_dies_matches_hami(count: int, cards: str) -> None:
    assert chosen(dies(3, 2, 1), count) == list(cards)


def test_more_dies_than_there_are_do_not_fit() -> None:
    """HAMi answers with the three dies that there are, and the container gets too few."""
    assert chosen(dies(2, 1), 5) == "NodeInsufficientDevice"


def test_mutex_rejects_idle_dies_on_an_occupied_card() -> None:
    assert chosen(dies(2, 1), 1, "mutex", used=["0-0"]) == ["1"]
    assert "ExclusiveDeviceAllocateConflict" in chosen(dies(2), 1, "mutex", used=["0-0"])


def test_registered_devices_have_all_cores() -> None:
    plugin, family = vendor(WORD)
    text = '[{"id":"7-0","count":1,"devmem":32768,"type":"Vastai","health":true,"devicepairscore":{}}]'
    (device,) = plugin.register(NodeFacts("n1", {family.register_key: text})) or ()
    assert (device.cores, device.memory_mib, device.slots) == (100, 32768, 1)
