"""The vendor as the core loads it: devices from capacity, requests, and annotations for Cambricon's plugin."""

from __future__ import annotations

import pytest

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    Device,
    DeviceKind,
    NodeFacts,
    PodFacts,
    Request,
    Slice,
)
from hami_core.placement.request import pod_request
from hami_core.plugins import load
from hami_core.vendorkit.node import encode_devices_json

CORES, MEMORY, COUNT = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/vmlu"
POD = PodFacts("ns", "p", "u")


def loaded(**section: object):
    found = load({"cambricon": section} if section else {}, only=["cambricon"])
    assert not found.problems
    return found


def devices(**capacity: str):
    names = {"cores": CORES, "memory": MEMORY}
    return loaded().register(NodeFacts("n1", capacity={names[k]: v for k, v in capacity.items()}))


def test_memory_is_shared_out_over_the_cards():
    found = devices(cores="250", memory="480").devices["MLU"] or ()
    assert [d.id for d in found] == [f"n1-cambricon-mlu-{i}" for i in range(3)]
    assert {d.memory_mib for d in found} == {480 * 256 * 100 // 250}


@pytest.mark.parametrize("capacity", [{}, {"cores": "0"}, {"memory": "5"}])
def test_a_node_without_cores_has_no_cards(capacity):
    found = devices(**capacity)
    assert not found.devices["MLU"]
    assert not found.errors


@pytest.mark.parametrize("capacity", [{"cores": "-5"}, {"cores": "1G"}, {"cores": "x"}, {"cores": "1", "memory": "1G"}])
def test_impossible_capacity_closes_the_family_and_says_where(capacity):
    found = devices(**capacity)
    assert found.devices["MLU"] is None
    assert "capacity cambricon.com/mlu.smlu." in str(found.errors[0])


def test_requests_count_memory_in_units_and_default_to_all_cores():
    def ask(**limits: str) -> tuple[Request, ...]:
        names = {"n": COUNT, "mem": MEMORY, "cores": CORES}
        return loaded().parse(ContainerSpec("c", ContainerKind.APP, {names[k]: v for k, v in limits.items()}), POD)

    assert ask(n="1", mem="16", cores="25") == (Request("MLU", 1, 4096, None, 25),)
    assert ask(n="1") == (Request("MLU", 1, 0, 100, 100),)
    assert ask(mem="16") == ()
    with pytest.raises(RequestError, match="above the largest amount 4096, in units of 256 MiB"):
        ask(n="1", mem="4097")


def mutation(**limits: str):
    names = {"n": COUNT, "mem": MEMORY, "cores": CORES}
    return loaded().mutate(ContainerSpec("c", ContainerKind.APP, {names[k]: v for k, v in limits.items()}), POD)


def test_admission_sends_pods_with_a_count_to_our_scheduler():
    found = mutation(n="1")
    assert (found.uses_devices, found.limits, found.env) == (True, {}, ())
    assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, requests={COUNT: "1"}), POD) is None


@pytest.mark.parametrize(
    ("limits", "cores"),
    [({"mem": "16"}, "100"), ({"mem": "16", "cores": "25"}, None), ({"cores": "250"}, "100"), ({"mem": "0"}, None)],
)
def test_admission_makes_the_cores_explicit(limits, cores):
    found = mutation(n="1", **limits)
    assert found.limits == found.requests == ({CORES: cores} if cores else {})


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"mem": "16Gi"}, "vmemory"),
        ({"mem": "0.5"}, "vmemory"),
        ({"mem": "4097"}, "above the largest amount 4096, in units of 256 MiB"),
        ({"mem": "-1"}, "vmemory"),
        ({"cores": "-1"}, "vcore"),
        ({"cores": "12.5"}, "vcore"),
    ],
)
def test_admission_refuses_wrong_amounts(limits, told):
    with pytest.raises(RequestError, match=told) as refused:
        mutation(n="1", **limits)
    assert str(refused.value).startswith("container c: cambricon.com/mlu.smlu.")


@pytest.mark.parametrize("both", [True, False])
def test_the_spelling_cambricons_plugin_waits_for_is_a_setting(both):
    piece = Slice("n1-cambricon-mlu-3", "MLU", 4096, 25)
    parts = (ContainerSlices("init", ContainerKind.INIT), ContainerSlices("c", ContainerKind.APP, (piece,)))
    written = loaded(vendorSpelling=both).patch_annotations(POD, Allocation("n1", parts))
    assert written.pop("CAMBRICON_DSMLU_ASSIGHED", None) == ("false" if both else None)
    assert written == {"CAMBRICON_DSMLU_ASSIGNED": "false", "CAMBRICON_DSMLU_PROFILE": "3_25_16"}


def test_the_lock_is_cambricons_own_and_holds_a_time():
    (family,) = loaded().families.values()
    assert (family.foreign_lock, family.foreign_lock_protocol) == ("cambricon.com/dsmlu.lock", "time")
    assert family.lock_timeouts_s == {"cambricon.com/dsmlu.lock": 120.0}
    assert loaded().lock_annotations("n1", POD, ["MLU"]) == {}


def test_ids_are_chosen_by_annotation():
    (rules,) = loaded().rules()
    request = Request("MLU", 1, annotations={"cambricon.com/use-gpuuuid": "n1-cambricon-mlu-1"})
    assert rules.check_uuid(request, "n1-cambricon-mlu-1") is None
    assert rules.check_uuid(request, "n1-cambricon-mlu-0") is not None


# --- models and modes ------------------------------------------------------------------------------------------------

REGISTERED = encode_devices_json([Device(f"MLU-{i}", i, 10, 49152, 100, "MLU590-M9", "MLU", numa=i) for i in range(2)])


def test_the_register_of_our_agent_wins_over_the_capacity():
    node = NodeFacts("n1", {"hami.io/node-mlu-register": REGISTERED}, capacity={CORES: "800", MEMORY: "768"})
    found = loaded().register(node).devices["MLU"]
    assert [(d.id, d.type, d.numa, d.mode) for d in found] == [
        ("MLU-0", "MLU590-M9", 0, ""),
        ("MLU-1", "MLU590-M9", 1, ""),
    ]


@pytest.mark.parametrize(("label", "model"), [("MLU370-X8", "MLU370-X8"), ("", "MLU"), ("PowerEdge", "MLU")])
def test_the_label_of_cambricons_plugin_names_the_model(label, model):
    node = NodeFacts("n1", labels={"Model": label}, capacity={CORES: "100", MEMORY: "96"})
    (card,) = loaded().register(node).devices["MLU"]
    assert (card.type, card.mode, card.slots, card.memory_mib) == (model, "dynamic-smlu", 100, 24576)


def refusal(limits: dict[str, str], kind: DeviceKind, *others: dict[str, str], kinds=ContainerKind.APP, **annotations):
    """Why a pod is refused whose first container has these limits, and which has further containers; empty: it fits."""
    found = loaded()
    specs = [ContainerSpec("c", kinds, limits)]
    specs += [ContainerSpec(f"o{i}", ContainerKind.APP, more) for i, more in enumerate(others)]
    keys = {f"cambricon.com/{key}-mlutype": value for key, value in annotations.items()}
    (request,) = pod_request("u", "ns", "p", specs, keys, found.parse).containers[0].requests
    (rules,) = found.rules()
    reason = rules.check_type(request, kind)
    return "" if reason is None else f"{reason.code}: {reason.detail}"


@pytest.mark.parametrize(
    ("annotations", "fits"),
    [
        ({"use": "mlu370"}, {"MLU370-X8"}),
        ({"use": "MLU370, MLU590"}, {"MLU370-X8", "MLU590-M9"}),
        ({"nouse": "MLU370"}, {"MLU590-M9"}),
        ({"use": "MLU"}, {"MLU370-X8", "MLU590-M9"}),
        ({"use": " "}, {"MLU370-X8", "MLU590-M9", "MLU"}),
        ({}, {"MLU370-X8", "MLU590-M9", "MLU"}),
    ],
)
def test_models_are_chosen_and_unknown_models_refused(annotations, fits):
    models = {"MLU370-X8", "MLU590-M9", "MLU"}
    assert {m for m in models if not refusal({COUNT: "1"}, DeviceKind("MLU", m), **annotations)} == fits


THEIRS = DeviceKind("MLU", "MLU370-X8", "dynamic-smlu")
PART = {COUNT: "1", MEMORY: "16", CORES: "25"}


@pytest.mark.parametrize(
    ("limits", "others", "why"),
    [
        (PART, [], ""),
        ({COUNT: "1", MEMORY: "16"}, [], ""),
        (PART, [{"cpu": "1"}], ""),
        (PART, [PART], "serves one container of a pod, and 2 ask for MLUs"),
        ({**PART, COUNT: "2"}, [], "gives a pod one MLU, and the container asks for 2"),
        ({COUNT: "1"}, [], "gives a container no MLU without cambricon.com/mlu.smlu.vmemory; write it in units of 256"),
        ({COUNT: "1", MEMORY: "0", CORES: "5"}, [], "without cambricon.com/mlu.smlu.vmemory"),
        ({**PART, CORES: "0"}, [], "without cambricon.com/mlu.smlu.vcore; write 1 to 100"),
    ],
)
def test_cambricons_nodes_refuse_what_their_plugin_cannot_do(limits, others, why):
    told = refusal(limits, THEIRS, *others)
    assert told.startswith("ModeNotFit: Cambricon's device plugin, which serves the node, ") if why else told == ""
    assert why in told
    assert refusal(limits, DeviceKind("MLU", "MLU370-X8"), *others) == "", "nodes with our agent take it"


@pytest.mark.parametrize("kind", [ContainerKind.INIT, ContainerKind.SIDECAR])
def test_cambricons_nodes_refuse_init_containers(kind):
    assert "no init containers and no sidecars" in refusal(PART, THEIRS, kinds=kind)


@pytest.mark.parametrize(("containers", "nodes"), [((PART,), {"theirs", "ours"}), ((PART, PART), {"ours"})])
def test_pods_beyond_the_plugin_go_to_nodes_with_our_agent(containers, nodes):
    found = loaded()
    inventory = Inventory(found.rules(), PolicyDefaults())
    for node in (
        NodeFacts("theirs", capacity={CORES: "200", MEMORY: "192"}),
        NodeFacts("ours", {"hami.io/node-mlu-register": REGISTERED}),
    ):
        inventory.set_node(node, {"MLU": found.register(node).devices["MLU"]})
    specs = [ContainerSpec(f"c{i}", ContainerKind.APP, limits) for i, limits in enumerate(containers)]
    outcome = inventory.filter(pod_request("u", "ns", "p", specs, {}, found.parse), ["theirs", "ours"])
    assert {"theirs", "ours"} - dict(outcome.refused).keys() == nodes


def test_capacity_without_memory_gives_no_memory():
    (card,) = devices(cores="100").devices["MLU"]
    assert card.memory_mib == 0
