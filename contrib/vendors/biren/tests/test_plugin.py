"""The vendor as the core loads it: registers, requests and their errors, and the lists on the pod."""

from __future__ import annotations

import pytest

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import ContainerKind, ContainerSpec, NodeFacts, PodFacts
from hami_core.placement.request import pod_request
from hami_core.plugins import load
from hami_core.wire.pod import allocation_annotations

COUNT, REGISTER = "birentech.com/gpu", "hami.io/node-biren-register"
POD = PodFacts("ns", "p", "u")
CARDS = (
    '[{"id":"card_4","count":1,"devmem":32256,"type":"Biren104P","health":true},{"id":"card_5","index":1,"count":1}]'
)


def loaded(**section: object):
    found = load({"biren": section} if section else {}, only=["biren"])
    assert not found.problems
    return found


def spec(amount: object, name: str = COUNT) -> ContainerSpec:
    return ContainerSpec("c", ContainerKind.APP, {name: str(amount)})


def node(register: str | None = CARDS, offered: str = "2", name: str = COUNT) -> NodeFacts:
    annotations = {} if register is None else {REGISTER: register}
    return NodeFacts("n1", annotations, capacity={name: offered}, allocatable={name: offered})


def test_registered_cards_have_one_slot_and_all_cores():
    first, second = loaded().register(node()).devices["Biren"]
    assert (first.id, first.type, first.slots, first.cores, first.memory_mib) == (
        "card_4", "Biren104P", 1, 100, 32256,
    )  # fmt: skip
    assert first.healthy
    assert not second.healthy, "a register leaves out health that is false"


def test_cards_are_unhealthy_while_their_plugin_is_away():
    (why,) = {card.not_offered for card in loaded().register(node(offered="0")).devices["Biren"]}
    assert why == "the kubelet offers no birentech.com/gpu"


def test_cards_of_another_plugin_are_not_offered_and_say_why():
    found = loaded().register(node(register=None)).devices["Biren"]
    assert [card.healthy for card in found] == [False, False]
    assert REGISTER in found[0].not_offered
    assert "HAMi's biren-device-plugin" in found[0].not_offered
    assert not loaded().register(NodeFacts("n2")).devices["Biren"]


@pytest.mark.parametrize("text", ["{", '[{"id":"a","count":-1}]', '[{"id":"a"},{"id":"a"}]'])
def test_malformed_register_closes_the_node_and_names_the_key(text):
    found = loaded().register(node(text))
    assert found.devices["Biren"] is None
    assert REGISTER in str(found.errors[0])


@pytest.mark.parametrize("amount", ["0.5", "-1", "1Gi", str(2**31)])
def test_wrong_counts_are_refused_by_name(amount):
    with pytest.raises(RequestError, match=r"container c: birentech\.com/gpu: "):
        loaded().parse(spec(amount), POD)


def test_count_of_zero_asks_for_nothing():
    assert loaded().parse(spec(0), POD) == ()
    assert loaded().mutate(spec(0), POD) is None


def asked(found, name: str, amount: int, count: str = COUNT, **annotations: str):
    return pod_request(name, "ns", name, [spec(amount, count)], annotations, found.parse)


def test_cards_are_given_whole_and_no_memory_is_booked():
    found = loaded()
    inventory = Inventory(found.rules(), PolicyDefaults())
    healthy = CARDS.replace('"count":1}', '"count":1,"devmem":32256,"health":true}')
    inventory.set_node(node(healthy), found.register(node(healthy)).devices)
    allocation = inventory.book(asked(found, "p", 1), "n1")
    (piece,) = allocation.containers[0].slices
    assert (piece.memory_mib, piece.cores, piece.type) == (0, 0, "Biren")
    assert not inventory.fits(asked(found, "q", 2))
    assert inventory.fits(asked(found, "q", 1))
    written = allocation_annotations(allocation, found.families, 0, "allocating")
    lists = {key: text for key, text in written.items() if "Biren" in key}
    assert lists == dict.fromkeys(
        (
            "hami.io/Biren-devices-to-allocate",
            "hami.io/Biren-devices-allocated",
            "hami.io/Biren-devices-kept-allocated",
        ),
        f"{piece.device_id},Biren,0,0:;",
    )


def test_svi_instances_are_served_by_their_resource():
    found = loaded(resourceCountName="birentech.com/1-2-gpu")
    (request,) = found.parse(spec(2, "birentech.com/1-2-gpu"), POD)
    assert request.count == 2
    assert found.parse(spec(2), POD) == ()
    assert found.register(node(name="birentech.com/1-2-gpu")).devices["Biren"][0].healthy


def test_cards_are_chosen_by_id():
    found = loaded()
    (rules,) = found.rules()
    wanted = asked(found, "p", 1, **{"birentech.com/use-gpuuuid": "card_4, card_7"}).containers[0].requests[0]
    assert rules.check_uuid(wanted, "card_4") is None
    assert rules.check_uuid(wanted, "card_5").code == "CardUuidMismatch"
