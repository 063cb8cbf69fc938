"""The vendor as the core loads it: registers, requests and their errors, and what is booked in compute units."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import (
    ContainerKind,
    ContainerSpec,
    Device,
    DeviceKind,
    DeviceUsage,
    NodeFacts,
    PodFacts,
    Reason,
    Request,
    Slice,
)
from hami_core.placement.request import pod_request
from hami_core.plugins import load

COUNT, MEMORY, CORES = "amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"
REGISTER = "hami.io/node-amd-register"
POD = PodFacts("ns", "p", "u")
RDNA = yaml.safe_load((Path(__file__).parent / "data/rdna/rx9060.yaml").read_text())["metadata"]["annotations"]


def loaded(**section: object):
    found = load({"amd": section} if section else {}, only=["amd"])
    assert not found.problems
    return found


def spec(name: str = "c", **limits: object) -> ContainerSpec:
    names = {"n": COUNT, "mem": MEMORY, "cores": CORES}
    return ContainerSpec(name, ContainerKind.APP, {names[k]: str(v) for k, v in limits.items()})


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_registered_gpus_keep_product_name_and_compute_units():
    first, second = loaded().register(NodeFacts("n1", RDNA)).devices["AMD"]
    assert (first.type, first.cores, first.memory_mib, first.slots) == ("AMD Radeon RX 9060 XT", 32, 16304, 10)
    assert (second.type, second.index) == ("amd-gpu", 1)


def test_gpus_of_another_plugin_are_not_offered_and_say_why():
    """AMD's own plugin offers whole GPUs under the same name, and writes no register."""
    found = loaded().register(NodeFacts("rocm", capacity={COUNT: "4"}, allocatable={COUNT: "4"}))
    assert not found.errors
    assert [device.healthy for device in found.devices["AMD"]] == [False] * 4
    (why,) = {device.not_offered for device in found.devices["AMD"]}
    assert REGISTER in why
    assert "amd-device-plugin" in why


def test_gpus_are_unhealthy_while_their_plugin_is_away():
    for allocatable in ({}, {COUNT: "0"}):
        found = loaded().register(NodeFacts("n1", RDNA, capacity={COUNT: "20"}, allocatable=allocatable))
        assert {(d.healthy, d.not_offered) for d in found.devices["AMD"]} == {
            (False, "the kubelet offers no amd.com/gpu")
        }


@pytest.mark.parametrize("capacity", [{}, {COUNT: "0"}, {"nvidia.com/gpu": "8"}])
def test_node_without_gpus_has_no_devices(capacity):
    assert not loaded().register(NodeFacts("n1", capacity=capacity)).devices["AMD"]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id":"a","devcore":-1}]', '[{"id":"a"},{"id":"a"}]'])
def test_malformed_register_closes_the_node_and_names_the_key(text):
    found = loaded().register(NodeFacts("n1", {REGISTER: text}, capacity={COUNT: "10"}))
    assert found.devices["AMD"] is None
    assert REGISTER in str(found.errors[0])


# --- requests --------------------------------------------------------------------------------------------------------


def test_amounts_left_out_are_the_whole_gpu():
    def ask(**limits: object) -> Request:
        (request,) = loaded().parse(spec(**limits), POD)
        return request

    whole = ask(n=1)
    assert (whole.memory_mib, whole.memory_percent, whole.cores) == (0, 100, 0)
    assert whole.custom == {"cores_percent": 100}
    part = ask(n=2, mem=4096, cores=33)
    assert (part.count, part.memory_mib, part.custom["cores_percent"]) == (2, 4096, 33)
    assert ask(n=1, mem=0).memory_percent == 100


def test_only_limits_count():
    requests = {COUNT: "3", MEMORY: "99", CORES: "9"}
    assert loaded().parse(ContainerSpec("c", ContainerKind.APP, requests=requests), POD) == ()
    assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, requests=requests), POD) is None
    (request,) = loaded().parse(ContainerSpec("c", ContainerKind.APP, {COUNT: "1"}, requests), POD)
    assert (request.count, request.memory_mib, request.custom["cores_percent"]) == (1, 0, 100)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"mem": 4096}, r"container c: amd.com/gpumem: stands alone in the limits \(write amd.com/gpu: 1 beside it\)"),
        ({"cores": 10}, r"container c: amd.com/gpucores: stands alone"),
        ({"n": 1, "cores": 0}, "amd.com/gpucores: 0: amd.com/gpucores must be an integer percentage between 1 and 100"),
        ({"n": 1, "cores": 101}, "101: .* between 1 and 100 .leave it out to get all compute units"),
        ({"n": 1, "cores": "0.5"}, "between 1 and 100"),
        ({"n": 1, "cores": "1Ki"}, "between 1 and 100"),
        ({"n": "0.5"}, "amd.com/gpu: "),
        ({"n": -1}, "amd.com/gpu: -1 is negative"),
        ({"n": 2**31}, "amd.com/gpu: .* above the largest amount"),
        ({"n": 1, "mem": "16Gi"}, "amd.com/gpumem: .*16384"),
        ({"n": 1, "mem": -1}, "amd.com/gpumem: -1 is negative"),
    ],
)
def test_wrong_amounts_are_refused_with_the_legal_ones(limits, told):
    with pytest.raises(RequestError, match=told):
        loaded().parse(spec(**limits), POD)


def test_a_count_of_zero_asks_for_nothing_but_is_ours():
    assert loaded().parse(spec(n=0, mem=1), POD) == ()
    assert loaded().mutate(spec(n=0, mem=1), POD).uses_devices


# --- compute units ---------------------------------------------------------------------------------------------------


def gpu(units: int, **custom: object) -> Device:
    return Device("u0", 0, 10, 1000, units, "AMD Instinct MI300X", "AMD", custom=custom)


def booked(device: Device, percent: int, used: int = 0) -> Slice | Reason:
    (rules,) = loaded().rules()
    assert rules.account is not None
    request = Request("AMD", 1, memory_percent=100, custom={"cores_percent": percent})
    return rules.account(request, DeviceUsage(device, 1, 0, used), Slice("u0", "AMD", 1000, 0), ())


@pytest.mark.parametrize(
    ("units", "group", "percent", "cores"),
    [
        (304, 1, 25, 76),
        (64, 1, 1, 1),
        (304, 1, 100, 304),
        (32, 2, 10, 4),
        (32, 2, 1, 2),
        (33, 2, 100, 33),
        (32, "2", 10, 3),
        (32, True, 10, 3),
        (32, -2, 10, 3),
        (32, 10**9, 10, 3),
    ],
)
def test_percent_become_compute_units_in_whole_groups(units, group, percent, cores):
    piece = booked(gpu(units, cuPerWGP=group), percent)
    assert isinstance(piece, Slice)
    assert piece.cores == cores


def test_too_few_free_compute_units_refuse_the_gpu():
    refusal = booked(gpu(304), 50, used=200)
    assert isinstance(refusal, Reason)
    assert (refusal.code, refusal.needed, refusal.available) == ("CardInsufficientCore", 50, 34)
    assert "152 of 304 compute units asked for, 104 free" in refusal.detail


def test_gpu_without_compute_units_serves_no_pod():
    refusal = booked(gpu(0), 100)
    assert isinstance(refusal, Reason)
    assert refusal.code == "CardInsufficientCore"


def cluster(node: NodeFacts):
    found = loaded()
    inventory = Inventory(found.rules(), PolicyDefaults())
    inventory.set_node(node, found.register(node).devices)
    return found, inventory


def asked(found, name: str, **limits: object):
    return pod_request(name, "ns", name, [spec(**limits)], {}, found.parse)


def test_pods_share_a_gpu_until_its_compute_units_are_gone():
    found, inventory = cluster(NodeFacts("n1", RDNA, allocatable={COUNT: "20"}))
    given = [inventory.book(asked(found, f"p{i}", n=1, mem=2000, cores=45), "n1") for i in range(4)]
    pieces = [allocation.containers[0].slices[0] for allocation in given]
    assert sorted((p.type, p.memory_mib, p.cores) for p in pieces) == [
        ("AMD Radeon RX 9060 XT", 2000, 14),
        ("AMD Radeon RX 9060 XT", 2000, 14),
        ("amd-gpu", 2000, 49),
        ("amd-gpu", 2000, 49),
    ]
    wanted = asked(found, "p4", n=1, mem=2000, cores=45)
    assert not inventory.fits(wanted)
    assert "the least busy has 12 % of its cores free" in inventory.explain_text(wanted)
    inventory.release("p0")
    assert inventory.fits(wanted)


def test_whole_gpu_takes_all_memory_and_compute_units():
    found, inventory = cluster(NodeFacts("n1", RDNA, allocatable={COUNT: "20"}))
    (pieces,) = inventory.book(asked(found, "p", n=2), "n1").of("AMD")
    assert {(p.memory_mib, p.cores) for p in pieces} == {(16304, 32), (65520, 110)}
    assert not inventory.fits(asked(found, "q", n=1, mem=1, cores=1))


def test_pod_for_a_node_without_register_learns_why():
    found, inventory = cluster(NodeFacts("rocm", capacity={COUNT: "8"}, allocatable={COUNT: "8"}))
    wanted = asked(found, "p", n=2)
    assert not inventory.fits(wanted)
    told = inventory.explain_text(wanted)
    assert (
        "8 not offered: the node annotation hami.io/node-amd-register is missing: another plugin than HAMi's amd-"
        in told
    )


# --- models and containers -------------------------------------------------------------------------------------------


def refusal_of(kind: DeviceKind, *, askers: int = 1, annotations: dict[str, str] | None = None, **section: object):
    (rules,) = loaded(**section).rules()
    return rules.check_type(Request("AMD", 1, annotations=annotations or {}, askers=askers), kind)


def test_product_names_are_chosen_by_annotation():
    kind = DeviceKind("AMD", "AMD Instinct MI300X VF")
    assert refusal_of(kind, annotations={"amd.com/use-gputype": "mi250, mi300x"}) is None
    assert refusal_of(kind, annotations={"amd.com/use-gputype": "MI250"}).code == "CardTypeMismatch"
    assert refusal_of(kind, annotations={"amd.com/nouse-gputype": "vf"}).code == "CardTypeMismatch"


def test_pods_with_several_gpu_containers_are_refused():
    """The plugin finishes a pod at its first container. The kubelet then rejects the pod at the second."""
    kind = DeviceKind("AMD", "AMD Instinct MI300X VF")
    refusal = refusal_of(kind, askers=2)
    assert refusal.code == "ModeNotFit"
    assert "serves one container of a pod, and 2 ask for GPUs" in refusal.detail
    assert "amd.severalContainers" in refusal.detail
    assert refusal_of(kind, askers=2, severalContainers=True) is None


def test_resource_names_are_settings():
    found = loaded(resourceCountName="example.com/gpu", resourceMemoryName="example.com/mem")
    family = found.families["AMD"]
    assert family.resources.names() == ("example.com/gpu", "example.com/mem", CORES)
    assert load({"amd": {"resourceCountName": ""}}, only=["amd"]).problems
