"""The vendor as the core loads it: registers, rules, admission and annotations for the node plugin."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hami_core.errors import RequestError
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    Device,
    DeviceKind,
    DeviceUsage,
    NodeFacts,
    PodFacts,
    Request,
    Slice,
)
from hami_core.plugins import load

SOFT_POD = {"huawei.com/vnpu-mode": "hami-core"}
B3 = "Ascend910B3"


def loaded(**section: object):
    found = load({"vnpus": section} if section else {}, only=["ascend"])
    assert not found.problems
    return found


def chip(word: str = B3, **more: object) -> dict[str, object]:
    names = {
        "commonWord": word,
        "resourceName": f"huawei.com/{word}",
        "resourceMemoryName": f"huawei.com/{word}-memory",
    }
    return {**names, "memoryAllocatable": 65536, **more}


def spec(word: str = B3, **amounts: str) -> ContainerSpec:
    names = {"n": f"huawei.com/{word}", "mem": f"huawei.com/{word}-memory", "cores": f"huawei.com/{word}-core"}
    return ContainerSpec("train", ContainerKind.APP, {names[k]: v for k, v in amounts.items()})


def node(word: str = B3, **annotations: str) -> NodeFacts:
    device = {"id": "d0", "count": 4, "devmem": 65536, "devcore": 20, "type": word, "health": True}
    text = json.dumps([{**device, "custominfo": {"NetworkID": 1}}])
    offered = {f"huawei.com/{word}": "4"}
    return NodeFacts("n1", {f"hami.io/node-register-{word}": text, **annotations}, allocatable=offered)


def test_each_chip_is_a_family_and_hamis_table_is_the_default():
    assert len(loaded().families) == 7
    assert list(loaded(configs=[chip("Ascend910X")]).families) == ["Ascend910X"]


def test_one_word_twice_is_reported_and_not_loaded():
    found = load({"vnpus": {"configs": [chip(), chip()]}}, only=["ascend"])
    assert not found.vendors
    assert "commonWord Ascend910B3 occurs twice" in str(found.problems[0])


def test_devices_come_from_the_register_of_their_own_chip():
    found = loaded().register(node("Ascend910B4-1"))
    assert {word: len(devices or ()) for word, devices in found.devices.items() if devices} == {"Ascend910B4-1": 1}
    (device,) = found.devices["Ascend910B4-1"] or ()
    assert (device.cores, device.mode, device.custom) == (20, "", {"NetworkID": 1})


def test_a_broken_register_closes_the_vendors_families():
    found = loaded().register(NodeFacts("n1", {f"hami.io/node-register-{B3}": '[{"id":"d0","devmem":-1}]'}))
    assert found.devices[B3] is None
    assert f"hami.io/node-register-{B3} at 0" in str(found.errors[0])


@pytest.mark.parametrize(
    ("everywhere", "here", "soft"),
    [(False, None, False), (False, "true", True), (True, None, True), (True, "false", False), (True, "yes", False)],
)
def test_the_nodes_annotation_overrides_the_soft_split_setting(everywhere, here, soft):
    found = loaded(hamiVnpuCore=everywhere)
    annotations = {} if here is None else {"hami-vnpu-core": here}
    (device,) = found.register(node(**annotations)).devices[B3] or ()
    assert (device.mode, device.cores) == (("hami-core", 100) if soft else ("", 20))
    (rules,) = [r for r in found.rules() if r.family.word == B3]
    refusal = rules.check_type(Request(B3, 1, annotations=SOFT_POD), device.kind)
    assert (refusal is None) == soft
    assert refusal is None or refusal.code == "ModeNotFit"
    assert rules.check_type(Request(B3, 1), device.kind) is None


def test_another_chip_is_another_type():
    (rules,) = [r for r in loaded().rules() if r.family.word == "Ascend910B4"]
    refusal = rules.check_type(Request("Ascend910B4", 1), DeviceKind("Ascend910B4-1", "Ascend910B4-1"))
    assert refusal is not None
    assert refusal.code == "CardTypeMismatch"


def test_devices_are_chosen_by_the_chips_own_annotations():
    (rules,) = [r for r in loaded().rules() if r.family.word == B3]
    request = Request(B3, 1, annotations={f"hami.io/use-{B3}-uuid": "d0,d1", f"hami.io/no-use-{B3}-uuid": "d1"})
    assert rules.check_uuid(request, "d0") is None
    assert rules.check_uuid(request, "d1") is not None


def test_admission_writes_size_and_runtime_class():
    found = loaded(configs=[chip(runtimeClassName="ascend", templates=[{"name": "t", "memory": 8192}])])
    mutation = found.mutate(spec(n="1", mem="5k"), PodFacts("ns", "p", "u"))
    assert mutation is not None
    assert mutation.limits == mutation.requests == {f"huawei.com/{B3}-memory": "8192"}
    assert mutation.runtime_class == "ascend"
    kept = found.mutate(spec(n="1"), PodFacts("ns", "p", "u", runtime_class="own"))
    assert kept is not None
    assert kept.runtime_class == ""


def test_npus_are_hidden_only_from_containers_without_npus():
    found = loaded(configs=[chip("A", overwriteEnv=True), chip("B", overwriteEnv=True)])
    mutation = found.mutate(spec("other"), PodFacts("ns", "p", "u"))
    assert mutation is not None
    assert (mutation.uses_devices, mutation.env) == (False, (("ASCEND_VISIBLE_DEVICES", ""),))
    asked = found.mutate(spec("B", n="1"), PodFacts("ns", "p", "u"))
    assert asked is not None
    assert asked.env == ()
    assert {"ASCEND_VISIBLE_DEVICES", "ASCEND_VNPU_SPECS", "NPU_MEM_QUOTA"} <= asked.env_removed


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"n": "-1"}, "-1 is negative"),
        ({"n": "1", "mem": "16Gi"}, "'16Gi' has a unit"),
        ({"n": "1", "mem": "70000"}, "70000 is invalid .ask for up to 65536; sizes: 16384, 32768, 65536 .whole"),
        ({"n": "1", "cores": "10"}, "only supported in hami-core .soft split. mode"),
        ({"n": "2", "mem": "100"}, "vNPU not supported for multiple devices .ask for one device, or for 65536 of"),
        ({"n": "1.5"}, "1.5"),
        ({"n": "4294967296"}, "4294967296"),
        ({"n": "1", "mem": "-1"}, "-1 is negative"),
    ],
)
def test_impossible_requests_are_denied_by_name(amounts, words):
    with pytest.raises(RequestError, match=f"container train: .*{words}"):
        loaded().mutate(spec(**amounts), PodFacts("ns", "p", "u"))


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"n": "3"}, "Ascend910C device request must be 1 or 2.n, got 3 .ask for 2 or 4"),
        ({"n": "1", "mem": "16384"}, "vNPU not supported .* in pairs of whole devices: leave .*-memory out"),
    ],
)
def test_super_pods_give_whole_npus_in_pairs(amounts, words):
    """One 910C becomes two. Ascend's runtime makes no vNPU for a container with two NPUs, so HAMi's would not start."""
    with pytest.raises(RequestError, match=words):
        loaded().mutate(spec("Ascend910C", **amounts), PodFacts("ns", "p", "u"))


@pytest.mark.parametrize(("amounts", "count"), [({"n": "3"}, None), ({"n": "1", "mem": "16384"}, None)])
def test_910c_outside_a_super_pod_is_given_singly(amounts, count):
    found = loaded(configs=[chip("Ascend910C", templates=[{"name": "t", "memory": 16384}])])
    mutation = found.mutate(spec("Ascend910C", **amounts), PodFacts("ns", "p", "u"))
    assert mutation is not None
    assert mutation.limits.get("huawei.com/Ascend910C") == count
    (rules,) = found.rules()
    npus = tuple(DeviceUsage(Device(f"d{i}", i, 4, 65536, 20, "Ascend910C", "Ascend910C")) for i in (0, 2, 4, 5))
    assert rules.choose is not None
    assert rules.choose(Request("Ascend910C", 3), npus, "binpack", npus) is None


def test_container_may_ask_for_two_chips():
    limits = {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "1", f"huawei.com/{B3}": "1"}
    container = ContainerSpec("train", ContainerKind.APP, limits)
    mutation = loaded().mutate(container, PodFacts("ns", "p", "u"))
    assert mutation is not None
    assert mutation.limits == {"huawei.com/Ascend310P-memory": "3072", f"huawei.com/{B3}-memory": "65536"}
    both = replace(container, limits={**limits, **mutation.limits})
    assert {r.family: r.memory_mib for r in loaded().parse(both, PodFacts("ns", "p", "u"))} == {
        "Ascend310P": 3072, B3: 65536,
    }  # fmt: skip


def test_soft_split_names_no_vnpu_size():
    piece = Slice("d0", B3, 16384, 20)
    allocation = Allocation("n1", (ContainerSlices("c", ContainerKind.APP, (piece,)),))
    pod = PodFacts("ns", "p", "u", SOFT_POD, decided_at_ns=7 * 10**9)
    assert loaded().patch_annotations(pod, allocation) == {
        f"huawei.com/{B3}": '[{"UUID":"d0","memory":16384,"core":20}]',
        "predicate-time": "7",
    }


def test_hamis_plugin_needs_the_node_lock():
    family = loaded().families[B3]
    assert (family.foreign_lock, family.foreign_lock_protocol) == ("hami.io/mutex.lock", "hami")
    assert {family.foreign_lock for family in loaded().families.values()} == {"hami.io/mutex.lock"}


@pytest.mark.parametrize("allocatable", [{}, {f"huawei.com/{B3}": "0"}, {"huawei.com/Ascend910B4": "4"}])
def test_npus_that_the_kubelet_does_not_offer_take_no_pods(allocatable):
    (device,) = loaded().register(replace(node(), allocatable=allocatable)).devices[B3] or ()
    assert (device.healthy, device.not_offered) == (False, f"the kubelet offers no huawei.com/{B3}")


OLDER = {
    "without custominfo": ({"custominfo": None}, {}),
    "unknown keys": ({"devicevendor": B3, "driver": "x"}, {}),
    "dotted handshake": ({}, {f"hami.io/node-handshake-{B3}": "Reported_2024.07.03 15:35:10"}),
    "handshake of HAMi's scheduler": ({}, {f"hami.io/node-handshake-{B3}": "Requesting_2024-07-03 15:35:10"}),
}


@pytest.mark.parametrize(("entry", "annotations"), OLDER.values(), ids=OLDER)
def test_registers_of_older_plugins_are_read(entry, annotations):
    key = f"hami.io/node-register-{B3}"
    (written,) = json.loads(node().annotations[key])
    text = json.dumps([{k: v for k, v in {**written, **entry}.items() if v is not None}])
    (device,) = loaded().register(node(**{key: text, **annotations})).devices[B3] or ()
    assert (device.id, device.healthy, device.memory_mib) == ("d0", True, 65536)
