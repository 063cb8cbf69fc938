"""The vendor as the core loads it: names from the device-config, registers, requests, and what Hygon's plugin needs."""

from __future__ import annotations

import pytest

from hami_core.errors import RequestError
from hami_core.model import ContainerKind, ContainerSpec, Device, DeviceKind, DeviceUsage, NodeFacts, PodFacts, Request
from hami_core.plugins import load

POD = PodFacts("ns", "p", "u")
REGISTER = "hami.io/node-dcu-register"


def loaded(**section: object):
    found = load({"hygon": section} if section else {}, only=["hygon"])
    assert not found.problems
    return found


def asked(stem: str = "dcu", kind: ContainerKind = ContainerKind.APP, **amounts: str):
    limits = {f"hygon.com/{stem}{name}": text for name, text in amounts.items()}
    return loaded().parse(ContainerSpec("c", kind, limits), POD)


# --- names -----------------------------------------------------------------------------------------------------------


def names(**section: object) -> dict[str, tuple[str, ...]]:
    return {word: family.resources.names() for word, family in loaded(**section).families.items()}


DCUS = ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores")
HCUS = ("hygon.com/hcunum", "hygon.com/hcumem", "hygon.com/hcucores")


def test_both_families_have_hamis_names_by_default():
    assert names() == {"DCU": DCUS, "HCU": HCUS}


def test_a_count_with_hcu_names_the_resources_of_hcus():
    section = {"resourceCountName": "x.example/hcu", "resourceMemoryName": "x.example/memory"}
    assert names(**section) == {"DCU": DCUS, "HCU": ("x.example/hcu", "x.example/memory", "hygon.com/hcucores")}


def test_any_other_count_names_the_resources_of_dcus():
    assert names(resourceCountName="x.example/card") == {"DCU": ("x.example/card", *DCUS[1:]), "HCU": HCUS}


@pytest.mark.parametrize(
    ("section", "told"),
    [({"memoryFactor": -1}, "memoryFactor"), ({"memoryFactor": "a"}, "memoryFactor"), ({"resourceCountName": ""}, "r")],
)
def test_a_wrong_section_is_refused_by_key(section, told):
    (problem,) = load({"hygon": section}, only=["hygon"]).problems
    assert f"hygon.{told}" in str(problem)


@pytest.mark.parametrize(("factor", "mib"), [(0, 2000), (1, 2000), (4, 8000)])
def test_memory_is_counted_in_the_configured_unit(factor, mib):
    spec = ContainerSpec("c", ContainerKind.APP, {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000"})
    (request,) = loaded(memoryFactor=factor).parse(spec, POD)
    assert request.memory_mib == mib


# --- registers -------------------------------------------------------------------------------------------------------


def registered(text: str, key: str = REGISTER, **status: str):
    return loaded().register(NodeFacts("n1", {key: text}, allocatable=status or {"hygon.com/dcunum": "4"}))


def test_registers_of_both_plugin_generations_are_read():
    (old,) = registered("DCU-3,4,65520,100,DCU-K100_AI,0,true:").devices["DCU"]
    (new,) = registered("HCU-T6T8,4,65520,100,HCU-K100_AI,1,true,3,hami:", "hami.io/node-hcu-register").devices["HCU"]
    assert (old.id, old.slots, old.memory_mib, old.type, old.index) == ("DCU-3", 4, 65520, "DCU-K100_AI", 0)
    assert (new.id, new.slots, new.memory_mib, new.numa, new.index, new.mode) == ("HCU-T6T8", 4, 65520, 1, 3, "hami")


@pytest.mark.parametrize(
    "text", ["", "DCU-0", "DCU-0,4,65520:", "DCU-0,x,65520,100,K,0,true:", "DCU-0,4,-1,100,K,0,true:"]
)
def test_a_malformed_register_closes_the_node_and_says_where(text):
    found = registered(text)
    assert found.devices["DCU"] is None
    assert REGISTER in str(found.errors[0])


def test_a_node_without_registers_has_no_cards():
    found = loaded().register(NodeFacts("n1", capacity={"hygon.com/dcunum": "4"}))
    assert not found.devices["DCU"]
    assert not found.errors


def test_an_empty_register_lists_no_cards():
    found = registered(":")
    assert not found.devices["DCU"]
    assert not found.errors


@pytest.mark.parametrize("status", [{"hygon.com/dcunum": "0"}, {"hygon.com/hcunum": "4"}])
def test_cards_are_unhealthy_while_their_plugin_is_away(status):
    (card,) = registered("DCU-0,4,65520,100,DCU-K100_AI,0,true:", **status).devices["DCU"]
    assert (card.healthy, card.not_offered) == (False, "the kubelet offers no hygon.com/dcunum")


# --- requests --------------------------------------------------------------------------------------------------------


def test_amounts_left_out_mean_the_whole_card():
    assert asked(num="1") == (Request("DCU", 1, 0, 100, 100),)
    assert asked(num="2", mem="4096", cores="25") == (Request("DCU", 2, 4096, None, 25),)
    assert asked(num="1", mem="0", cores="0") == (Request("DCU", 1, 0, 100, 0),)
    assert asked(mem="4096") == ()


@pytest.mark.parametrize(
    ("amounts", "told"),
    [
        ({"mem": "16Gi"}, "write 16384"),
        ({"mem": "0.5"}, "is not a whole number"),
        ({"mem": "1048577"}, "above the largest amount 1048576"),
        ({"mem": "-1"}, "write a whole number from 0 up"),
        ({"cores": "12.5"}, "is not a whole number"),
        ({"cores": "-1"}, "write a whole number from 0 up"),
        ({"num": "1.5"}, "is not a whole number"),
        ({"num": "3000000000"}, "above the largest amount"),
    ],
)
@pytest.mark.parametrize("stem", ["dcu", "hcu"])
def test_wrong_amounts_are_refused_by_name(stem, amounts, told):
    with pytest.raises(RequestError) as refused:
        asked(stem, **{"num": "1", **amounts})
    assert str(refused.value).startswith(f"container c: hygon.com/{stem}{next(iter(amounts))}")
    assert told in str(refused.value)


def test_hcus_of_an_init_container_are_refused():
    with pytest.raises(RequestError, match=r"hygon.com/hcunum.*init container.*spec.containers"):
        asked("hcu", ContainerKind.INIT, num="1")
    assert len(asked("dcu", ContainerKind.INIT, num="1")) == 1


@pytest.mark.parametrize("word", ["DCU", "HCU"])
def test_models_are_chosen_by_part_of_their_name(word):
    (rules,) = [one for one in loaded().rules() if one.family.word == word]
    keys = (f"hygon.com/use-{word.lower()}type", f"hygon.com/nouse-{word.lower()}type")
    for chosen, fits in (
        ({}, True),
        ({keys[0]: "k100"}, True),
        ({keys[0]: "Z100, Z200"}, False),
        ({keys[1]: "K100"}, False),
        ({keys[1]: ""}, True),
    ):
        request = Request(word, 1, annotations=chosen)
        assert (rules.check_type(request, DeviceKind(word, f"{word}-K100_AI")) is None) is fits


# --- what Hygon's plugin needs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (Request("HCU", 1, 4096, None, 25), None),
        (Request("HCU", 1, 4096, None, 100), None),
        (Request("HCU", 2, 0, 100, 100), None),
        (Request("HCU", 1, 0, 100, 30), None),
        (Request("HCU", 2, 65520, None, 100), None),
        (Request("HCU", 2, 4096, None, 100), "a part of several HCUs; leave hygon.com/hcumem out"),
        (Request("HCU", 1, 65520, None, 99), "all memory without all hygon.com/hcucores"),
        (Request("DCU", 2, 4096, None, 100), None),
    ],
)
def test_pods_that_hygons_plugin_would_delete_are_refused(request_, told):
    (rules,) = [one for one in loaded().rules() if one.family.word == request_.family]
    card = Device("HCU-T6T8", 0, 4, 65520, 100, "HCU-K100_AI", request_.family)
    reason = rules.custom_filter(request_, DeviceUsage(card), ())
    assert (reason is None) is (told is None)
    assert reason is None or (reason.code == "ModeNotFit" and told in reason.detail)
