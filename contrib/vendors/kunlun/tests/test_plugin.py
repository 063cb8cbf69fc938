"""The vendor as the core loads it: requests, devices, admission, and the choice of cards on a node."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.errors import RequestError
from hami_core.inventory import Inventory
from hami_core.inventory.nodes import FamilyDevices
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    NodeFacts,
    PodFacts,
    Slice,
)
from hami_core.placement import Plan, Rejection, place
from hami_core.placement.request import pod_request
from hami_core.plugins import load

if TYPE_CHECKING:
    from collections.abc import Mapping

XPU, VXPU, MEMORY = "kunlunxin.com/xpu", "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"
QUARTER, HALF, CARD = 24576, 49152, 98304
POD = PodFacts("ns", "p", "u")


def loaded(**section: object):
    found = load({"kunlun": section} if section else {}, only=["kunlun"])
    assert not found.problems
    return found


def container(name: str = "c", kind: ContainerKind = ContainerKind.APP, **limits: object) -> ContainerSpec:
    names = {"xpu": XPU, "vxpu": VXPU, "memory": MEMORY}
    return ContainerSpec(name, kind, {names[key]: str(amount) for key, amount in limits.items()})


def server(cards: int = 8) -> NodeFacts:
    """A node that both plugins serve, to test both families on it."""
    parts = [
        {"id": f"{i:02x}-00.0", "index": i, "count": 1, "devmem": CARD, "devcore": 100, "type": "XPU",
         "health": True}
        for i in range(cards)
    ]  # fmt: skip
    offered = {XPU: str(cards), VXPU: str(cards * 4)}
    return NodeFacts("n1", {"hami.io/node-register-xpu": json.dumps(parts)}, capacity=offered, allocatable=offered)


def placed(
    *containers: ContainerSpec,
    used: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    cards: int = 8,
    settings: Mapping[str, object] = MappingProxyType({}),
    **annotations: str,
) -> list[list[int]] | Rejection:
    """Indexes of the cards that each container gets; ``used`` has index → containers, MiB."""
    found = loaded(**settings)
    asked = pod_request("u", "ns", "p", containers, annotations, found.parse)
    (word,) = asked.families
    family = FamilyDevices(found.register(server(cards)).devices[word] or ())
    for index, (slots, memory) in used.items():
        family.slots[index], family.memory[index] = slots, memory
    there = family.cards()
    answer = place("n1", {word: there}, Plan(asked, {rule.family.word: rule for rule in found.rules()}))
    if not isinstance(answer, Allocation):
        return answer
    index_of = {card.device.id: card.device.index for card in there}
    return [[index_of[piece.device_id] for piece in one.slices] for one in answer.containers]


def refused(*containers: ContainerSpec, **more: Any) -> str:
    """Why the containers get no cards: the cards' reasons, and the reason of the combination."""
    answer = placed(*containers, **more)
    assert isinstance(answer, Rejection), answer
    return f"{answer.short}: {answer.combination.detail if answer.combination else ''}"


def whole(*indexes: int) -> dict[int, tuple[int, int]]:
    """These cards are used as a whole."""
    return dict.fromkeys(indexes, (1, CARD))


# --- devices ---------------------------------------------------------------------------------------------------------


def test_each_half_of_the_cards_is_on_one_numa_node():
    cards = loaded().register(server()).devices["kunlun"] or ()
    assert [(card.id, card.numa) for card in cards] == [(f"n1-kunlun-{i}", i // 4) for i in range(8)]


def test_quarters_share_a_card_whatever_count_it_registers():
    parts = loaded().register(server()).devices["XPU"] or ()
    assert {(part.slots, part.memory_mib) for part in parts} == {(4, CARD)}


@pytest.mark.parametrize("text", ["", "not-json", "{}", '[{"id": "a", "devmem": -1}]', '[{"count": 4}]'])
def test_a_malformed_register_closes_the_family(text):
    found = loaded().register(NodeFacts("n1", {"hami.io/node-register-xpu": text}))
    assert found.devices["XPU"] is None
    assert "hami.io/node-register-xpu" in str(found.errors[0])


@pytest.mark.parametrize("amount", ["-1", "1.5", "2G", "many"])
def test_an_impossible_capacity_closes_the_family(amount):
    found = loaded().register(NodeFacts("n1", capacity={XPU: amount}))
    assert found.devices["kunlun"] is None
    assert f"capacity {XPU}" in str(found.errors[0])


@pytest.mark.parametrize(("word", "resource"), [("kunlun", XPU), ("XPU", VXPU)])
def test_cards_are_unhealthy_while_their_plugin_is_away(word, resource):
    node = server()
    found = loaded().register(replace(node, allocatable={**node.allocatable, resource: "0"}))
    health = {name: {(card.healthy, card.not_offered) for card in cards or ()} for name, cards in found.devices.items()}
    assert health.pop(word) == {(False, f"the kubelet offers no {resource}")}
    assert set(*health.values()) == {(True, "")}


# --- requests and admission ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["xpu", "vxpu"])
@pytest.mark.parametrize("count", [3, 5, 6, 7, 9, 16])
def test_other_counts_are_denied_with_the_legal_ones(name, count):
    with pytest.raises(RequestError, match=f"{count} cards .*write one of 1, 2, 4, 8") as denied:
        loaded().mutate(container(**{name: count}), POD)
    assert str(denied.value).startswith(f"container c: kunlunxin.com/{name}: ")


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"xpu": "1500m"}, XPU),
        ({"xpu": "-1"}, XPU),
        ({"vxpu": "x"}, VXPU),
        ({"vxpu": 1, "memory": "24Gi"}, MEMORY),
        ({"vxpu": 1, "memory": "-1"}, MEMORY),
        ({"vxpu": 1, "memory": "0.5"}, MEMORY),
        ({"vxpu": 1, "memory": "1048577"}, MEMORY),
    ],
)
def test_amounts_that_cannot_be_read_are_denied_by_name(limits, field):
    with pytest.raises(RequestError) as denied:
        loaded().mutate(container(**limits), POD)
    assert denied.value.field == field


@pytest.mark.parametrize("asked", [0, 1, QUARTER, QUARTER + 1, HALF + 1, CARD + 1])
def test_admission_writes_the_size_that_is_booked(asked):
    written = loaded().mutate(container(vxpu=1, memory=asked), POD)
    (request,) = loaded().parse(container(vxpu=1, memory=asked), POD)
    assert written.limits == written.requests == {MEMORY: str(request.memory_mib)}
    assert request.cores * CARD == request.memory_mib * 100


@pytest.mark.parametrize(("limits", "removed"), [({"xpu": 1}, True), ({"vxpu": 1}, True), ({"vxpu": 0}, False)])
def test_containers_with_cards_cannot_name_other_cards(limits, removed):
    found = loaded().mutate(container(**limits, memory=QUARTER), POD)
    assert found.env_removed == ({"CXPU_VISIBLE_DEVICES"} if removed else frozenset())


def test_admission_leaves_other_amounts_as_they_are():
    for one in (container(xpu=2), container(vxpu=2), container(vxpu=0, memory=QUARTER)):
        found = loaded().mutate(one, POD)
        assert (found.uses_devices, found.limits, found.requests) == (True, {}, {})
    assert loaded().mutate(container(), POD) is None


def test_resource_names_are_settings():
    found = loaded(resourceCountName="a.com/x", resourceVCountName="a.com/v", resourceVMemoryName="a.com/m")
    assert [family.resources.names() for family in found.families.values()] == [("a.com/x",), ("a.com/v", "a.com/m")]


# --- whole cards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "count", "cards"),
    [
        ((), 1, [0]),
        ((), 2, [0, 1]),
        ((), 4, [0, 1, 2, 3]),
        ((), 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ((1, 3), 2, [0, 2]),
        ((0, 1), 4, [4, 5, 6, 7]),
        ((5, 6, 7), 1, [4]),
        ((0, 6, 7), 1, [1]),
        ((0, 1, 2, 4, 5, 6), 2, [3, 7]),
        ((0, 3, 4, 7), 4, [1, 2, 5, 6]),
        ((2, 3, 7), 4, [0, 1, 4, 5]),
        ((1, 5), 4, [2, 3, 6, 7]),
    ],
)
def test_cards_of_one_wing_or_linked_cards_are_given(used, count, cards):
    assert placed(container(xpu=count), used=whole(*used)) == [cards]
    assert placed(container(vxpu=count), used=whole(*used)) == [cards], "parts of cards follow the same rule"


@pytest.mark.parametrize(("used", "count"), [((0, 1, 2, 5, 6, 7), 2), ((0, 1, 2, 4), 4), ((1, 2, 7), 4)])
def test_cards_that_are_not_linked_are_not_given_together(used, count):
    told = refused(container(xpu=count), used=whole(*used))
    free = ", ".join(str(card) for card in range(8) if card not in used)
    assert "NumaNotFit" in told
    assert f"no linked group has {count}: {free} fit" in told


def test_eight_cards_need_a_whole_server():
    assert "1/8 CardInsufficientMemory" in refused(container(xpu=8), used=whole(5))
    assert refused(container(xpu=8), cards=4) == "NodeInsufficientDevice: "


def test_cards_are_chosen_by_index_in_whatever_order_they_come():
    """The cards' order follows the policy. HAMi takes the first four of that order for a wing."""
    quarter = dict.fromkeys((0, 2, 5, 7), (1, QUARTER))
    one = container(vxpu=2, memory=QUARTER)
    for policy in ("spread", "binpack"):
        assert placed(one, used=quarter, **{"hami.io/gpu-scheduler-policy": policy}) == [[0, 1]]


def test_cards_beyond_both_wings_are_not_given():
    assert placed(container(xpu=8), cards=16) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert "8/16 CardNotFoundCustomFilterRule" in refused(container(xpu=1), used=whole(*range(8)), cards=16)


def test_two_containers_with_whole_cards_are_refused():
    """HAMi writes the second one's cards over those of the first one."""
    both = container("a", xpu=1), container("b", xpu=1)
    assert refused(*both) == "8/8 ModeNotFit: "
    assert refused(container("i", ContainerKind.INIT, xpu=1), both[0]) == "8/8 ModeNotFit: "
    assert placed(container("i", ContainerKind.INIT, xpu=1), container("a")) == [[0], []]


@pytest.mark.parametrize(
    ("use", "nouse"),
    [("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"), ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid")],
)
def test_cards_are_chosen_among_those_that_the_pod_selects(use, nouse):
    chosen = ",".join(f"n1-kunlun-{i}" for i in (1, 5, 6))
    assert placed(container(xpu=2), **{use: chosen}) == [[5, 6]]
    assert placed(container(xpu=2), **{nouse: "n1-kunlun-0"}) == [[1, 2]]
    assert "CardUuidMismatch" in refused(container(xpu=4), **{use: chosen})


def test_both_pairs_of_selectors_must_accept_a_card():
    keys = {"hami.io/use-xpu-uuid": "n1-kunlun-1,n1-kunlun-2", "baidu.com/nouse-gpuuuid": "n1-kunlun-1"}
    assert placed(container(xpu=1), **keys) == [[2]]


def test_the_plugin_is_told_the_indexes_of_the_cards():
    pieces = tuple(Slice(f"n1-kunlun-{i}", "kunlun", CARD, 100) for i in (4, 6))
    parts = (ContainerSlices("i", ContainerKind.INIT), ContainerSlices("c", ContainerKind.APP, pieces))
    assert loaded().patch_annotations(POD, Allocation("n1", parts)) == {"BAIDU_COM_DEVICE_IDX": "4,6"}


def test_a_pod_with_parts_of_cards_gets_no_indexes():
    part = (Slice("00-00.0", "XPU", QUARTER, 25),)
    found = loaded().patch_annotations(POD, Allocation("n1", (ContainerSlices("c", ContainerKind.APP, part),)))
    assert found == {}


# --- parts of cards --------------------------------------------------------------------------------------------------


def test_only_parts_of_one_size_share_a_card():
    used = {0: (1, HALF), 1: (2, 2 * QUARTER), **whole(2, 3, 4, 5, 6, 7)}
    assert placed(container(vxpu=1, memory=QUARTER), used=used) == [[1]]
    assert placed(container(vxpu=1, memory=HALF), used=used) == [[0]]
    assert "CardInsufficientMemory" in refused(container(vxpu=1), used=used)


def test_containers_of_a_pod_share_a_card_by_the_same_rule():
    assert placed(container("a", vxpu=1, memory=QUARTER), container("b", vxpu=1, memory=HALF)) == [[0], [1]]
    assert placed(*(container(f"c{i}", vxpu=1, memory=QUARTER) for i in range(5))) == [[0]] * 4 + [[1]]


def test_the_parts_of_a_container_are_on_different_cards():
    assert placed(container(vxpu=4, memory=QUARTER)) == [[0, 1, 2, 3]]


def test_policy_mutex_gives_parts_of_unused_cards_only():
    one, policy = container(vxpu=1, memory=QUARTER), {"hami.io/gpu-scheduler-policy": "mutex"}
    assert placed(one, used={0: (1, QUARTER)}) == [[0]]
    assert placed(one, used={0: (1, QUARTER)}, **policy) == [[1]]


def test_parts_are_refused_when_the_driver_has_no_handles_left():
    used = {0: (1, CARD), 1: (2, 2 * HALF), **dict.fromkeys(range(2, 7), (4, 4 * QUARTER))}
    assert placed(container(vxpu=1, memory=QUARTER), container("b", vxpu=1, memory=QUARTER), used=used) == [[7], [7]]
    used[7] = (2, 2 * QUARTER)
    told = refused(container(vxpu=1, memory=QUARTER), used=used)
    assert "1/8 XpuHandlesExhausted" in told
    assert told.endswith("the driver has 32 handles, 8 for the cards and 24 for parts")
    assert placed(container(vxpu=1), used={**used, 0: (0, 0)}) == [[0]], "a whole card needs no further handle"
    assert placed(container(vxpu=1, memory=QUARTER), used=used, settings={"driverHandles": 33}) == [[7]]


# --- nodes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize(
    ("used", "count", "wins"),
    [
        ({"a": [], "b": [0]}, 1, "b"),
        ({"a": [0, 1, 2, 4], "b": [0, 4]}, 2, "a"),
        ({"a": [], "b": [0, 1]}, 2, "b"),
        ({"a": [0, 1, 2, 3], "b": [0, 1]}, 4, "b"),
    ],
)
def test_the_least_fragmented_node_wins_under_each_policy(policy, used, count, wins):
    """HAMi's ``spread`` takes the other node."""
    vendor = loaded()
    books = Inventory(vendor.rules())
    for name, cards in used.items():
        facts = replace(server(), name=name)
        books.set_node(facts, {word: devices or () for word, devices in vendor.register(facts).devices.items()})
        pieces = tuple(Slice(f"{name}-kunlun-{card}", "kunlun", CARD, 100) for card in cards)
        there = Allocation(name, (ContainerSlices("c", ContainerKind.APP, pieces),))
        books.set_pod(Booking(name, "ns", name, there))
    annotations = {"hami.io/node-scheduler-policy": policy}
    request = pod_request("u", "ns", "p", [container(xpu=count)], annotations, vendor.parse)
    assert books.filter(request, list(used)).best[0][0] == wins
