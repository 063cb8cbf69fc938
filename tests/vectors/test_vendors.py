"""Requests, admission, nodes and annotations of every vendor but NVIDIA, against the groups that all vendors share.

Groups of one vendor have modules of their own, except those of Ascend and Cambricon, which are below.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hami_ascend import AscendConfig, Chip, topology
from hami_ascend.admission import POD_MODE, asked_of
from hami_ascend.node import slots_of
from hami_ascend.plugin import NODE_MODE
from hami_cambricon import Cambricon
from hami_cambricon.plugin import ASSIGNED_VENDOR_SPELLING
from hami_nvidia import rules

from hami_core.errors import RequestError
from hami_core.inventory.nodes import FamilyDevices
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    ContainerSpec,
    Device,
    Family,
    NodeFacts,
    PodFacts,
    PodRequest,
    Request,
    Slice,
)
from hami_core.placement import Plan, place
from hami_core.plugins import load
from hami_core.vendorkit import ceil_div, template_named_for
from hami_core.wire import keys, pod

from .cases import Case, cases, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.plugins.vendor import LoadedVendor

pytestmark = pytest.mark.vectors

NOW = 1_700_000_000
BY_WORD = {word: vendor.name for vendor in load({}).vendors for word in vendor.words}
"""Common word → vendor."""
SECTIONS = {
    "nvidia": "NVIDIA", "cambricon": "MLU", "ascend": "Ascend310P", "hygon": "DCU", "iluvatar": "BI-V100",
    "mthreads": "Mthreads", "metax-gpu": "Metax-GPU", "metax-sgpu": "Metax-SGPU", "kunlun": "kunlun", "xpu": "XPU",
    "enflame-gcu": "GCU", "enflame-drs": "Enflame", "awsneuron": "AWSNeuron", "amd": "AMD", "vastai": "Vastai",
    "biren": "Biren",
}  # fmt: skip
"""Name in ``vendors.json`` → common word, one of several for vendors with a word for each chip."""
UNBOOKED = frozenset({"Biren", "Vastai"})
"""Vendors for which HAMi asks for 100 percent of a device's memory and then books none. We ask for none."""


def vendor(word: str, **chip: Any) -> tuple[LoadedVendor, Family]:
    """The vendor and family of a common word; an Ascend chip is configured as a case asks."""
    sections = {}
    if word.startswith("Ascend"):
        (base,) = [c for c in AscendConfig().configs if c.common_word == word] or [other(word)]
        sections = {"vnpus": AscendConfig(configs=(base.model_copy(update=chip),)).model_dump(by_alias=True)}
    plugin = BY_WORD.get(word, "ascend")
    loaded = load(sections, only=[plugin])
    assert not loaded.problems
    return loaded.vendor(plugin), loaded.families[word]


def other(word: str) -> Chip:
    """A chip that the built-in table lacks."""
    return Chip(
        common_word=word,
        resource_name=f"huawei.com/{word}",
        resource_memory_name=f"huawei.com/{word}-memory",
        resource_core_name=f"huawei.com/{word}-core",
        memory_allocatable=65536,
    )


def container(case: Case, family: Family) -> ContainerSpec:
    names = {"count": family.resources.count, "mem": family.resources.memory, "core": family.resources.cores}

    def named(amounts: Mapping[str, Any]) -> dict[str, str]:
        assert set(amounts) <= set(names), f"{case.name}: amounts unknown to the runner: {amounts}"
        return {names[key]: str(amount) for key, amount in amounts.items()}

    return ContainerSpec("c", ContainerKind.APP, named(case.get("limits", {})), named(case.get("requests", {})))


def refusal(plugin: LoadedVendor, spec: ContainerSpec, facts: PodFacts, family: Family) -> str:
    """Why a container gets nothing: our refusal, or that it asks for nothing."""
    try:
        found = plugin.parse_request(spec, facts, family)
    except RequestError as error:
        return str(error)
    return "container c: asks for nothing" if found is None else f"granted {found}"


@pytest.mark.parametrize("case", cases("request_other_vendors"))
def test_requests_match_hami(case: Case) -> None:
    """HAMi returns an empty request for amounts that it can't read. We refuse them by name."""
    options = {"memory_factor": case["memoryFactor"]} if "memoryFactor" in case else {}
    plugin, family = vendor(case["vendor"], **options)
    spec, facts = container(case, family), PodFacts("ns", "p", "uid")
    assert case.get("coresPerDevice", 2) == 2
    wanted = case.get("request", {})
    found = case.ask(lambda: plugin.parse_request(spec, facts, family)) if wanted or case.fails else None
    if not wanted:
        assert refusal(plugin, spec, facts, family).startswith("container c: ")
        return
    assert found is not None
    assert found.family == case["vendor"]
    described = {"nums": found.count, "mem": found.memory_mib, "pct": found.memory_percent or 0, "cores": found.cores}
    described["cores"] = found.custom.get("cores_percent", found.cores)
    if "whole" in found.custom:  # AWS Neuron: all cores of the device, however many it has
        described["cores"] = case.get("coresPerDevice", 2)
    if case["vendor"] in UNBOOKED:
        assert found.memory_percent is None
        described["pct"] = 100
    assert described == {"nums": 1, "mem": 0, "pct": 0, "cores": 0, **wanted}


@pytest.mark.parametrize("case", cases("webhook_other_vendors"))
def test_admission_matches_hami(case: Case) -> None:
    """If HAMi has an error, its "has" adds nothing: the pod is denied either way."""
    options = {"super_pod": case["superPod"]} if "superPod" in case else {}
    plugin, family = vendor(case["vendor"], **options)
    spec = container(case, family)
    facts = PodFacts("ns", "p", "uid", case.get("pod_annos", {}))
    has = case.get("has")
    mutation = case.ask(lambda: plugin.mutate_admission(spec, facts))
    assert has is None or (mutation is not None and mutation.uses_devices) is has
    after = {**spec.limits, **(mutation.limits if mutation else {})}
    for key, told in (("limits_out", mutation and mutation.limits), ("requests_out", mutation and mutation.requests)):
        if key in case:
            kinds = {"count": family.resources.count, "mem": family.resources.memory, "core": family.resources.cores}
            assert {k: (told or {}).get(kinds[k]) for k in case[key]} == {k: str(v) for k, v in case[key].items()}
    names = {
        "count_out": family.resources.count,
        "mem_out": family.resources.memory,
        "core_out": family.resources.cores,
    }
    for key, name in names.items():
        if key in case:
            assert after[name] == str(case[key])
            assert key != "mem_out" or mutation is None or mutation.requests.get(name) == str(case[key])


@pytest.mark.parametrize("case", cases("patch_annotations"))
def test_annotations_match_hami(case: Case) -> None:
    word = case["vendor"]
    parts = tuple(
        ContainerSlices(f"c{n}", ContainerKind.APP, tuple(Slice(i, word, m, c, t) for i, t, m, c in rows))
        for n, rows in enumerate(case["devices"])
    )
    allocation = Allocation("n1", parts)
    if word == "NVIDIA":
        families = {word: Family(word, vendor("MLU")[1].resources, rules.ALLOCATED, rules.TO_ALLOCATE)}
        own: Mapping[str, str] = {}
    else:
        plugin, family = vendor(word)
        families = {word: family}
        facts = PodFacts("ns", "p", "uid", decided_at_ns=NOW * 10**9)
        own = plugin.patch_annotations(facts, allocation)
    generic = case.ask(lambda: pod.allocation_annotations(allocation, families, NOW, keys.PHASE_ALLOCATING))
    written = {k: v for k, v in generic.items() if k not in keys.SYSTEM_POD_KEYS} | dict(own)
    if word == "MLU":  # besides HAMi's key, the one that Cambricon's plugin reads
        assert written.pop(ASSIGNED_VENDOR_SPELLING) == "false"
    if word.startswith("Ascend"):  # ours, so that a restarted scheduler knows how the pod shares its NPUs
        del written[families[word].mode_key]
    wanted = {k: str(NOW) if v == "<unix seconds>" else v for k, v in case["out"].items()}
    assert written == wanted


# --- vendors.json: Ascend --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("vendors/ascend.chips"))
def test_chip_table_matches_hami(case: Case) -> None:
    (chip,) = [c for c in AscendConfig().configs if c.common_word == case["commonWord"]]
    assert slots_of(chip) == case["pluginVCount"]
    assert chip.model_dump(by_alias=True) == {
        "commonWord": chip.common_word,
        "chipName": case["chipName"],
        "resourceName": case["resource"],
        "resourceMemoryName": case["memory"],
        "resourceCoreName": case["core"],
        "memoryAllocatable": case["memoryAllocatable"],
        "memoryCapacity": case["memoryCapacity"],
        "memoryFactor": case["memoryFactor"],
        "aiCore": case["aiCore"],
        "aiCPU": case["aiCPU"],
        "runtimeClassName": "",
        "overwriteEnv": False,
        "superPod": case["superPod"],
        "templates": tuple(case["templates"]),
    }


@pytest.mark.parametrize("case", cases("vendors/ascend.trimMemory"))
def test_memory_is_rounded_to_a_template_size(case: Case) -> None:
    (chip,) = [c for c in AscendConfig().configs if c.common_word == case["chip"]]
    limits = {chip.resource_name: "1", chip.resource_memory_name: str(case["request"])}
    spec = ContainerSpec("c", ContainerKind.APP, limits)
    asked = case.ask(lambda: asked_of(spec, chip, soft=False))
    assert asked is not None
    assert asked.memory == case.get("memory", asked.memory)
    if "template" in case:
        assert template_named_for(chip.sizes, asked.memory) == case["template"]


@pytest.mark.parametrize("case", cases("vendors/ascend.admission910C"))
def test_super_pod_requests_are_admitted_in_pairs(case: Case) -> None:
    plugin, family = vendor("Ascend910C", super_pod=case.get("superPod", False))
    amounts = {family.resources.count: str(case["req"])}
    if "memory" in case:
        amounts[family.resources.memory] = str(case["memory"])
    spec = ContainerSpec("c", ContainerKind.APP, amounts, {family.resources.count: str(case["req"])})
    mutation = case.ask(lambda: plugin.mutate_admission(spec, PodFacts("ns", "p", "u")))
    assert mutation is not None
    for before, after in ((spec.limits, mutation.limits), (spec.requests, mutation.requests)):
        assert {**before, **after}[family.resources.count] == str(case["out"])


@pytest.mark.parametrize("case", cases("ascend910c_pairs"))
def test_910c_npus_are_given_in_pairs(case: Case) -> None:
    word, count = "Ascend910C", case.get("nums", 1)
    npus = [Device(str(i), i, 4, 65536, 20, word, word) for i in case.get("indexes", [])]
    rules = {rule.family.word: rule for rule in load({}, only=["ascend"]).rules()}
    wanted = PodRequest("u", "ns", "p", (ContainerRequest("c", ContainerKind.APP, (Request(word, count),)),))
    placed = place("n1", {word: FamilyDevices(npus).cards()}, Plan(wanted, rules))
    refused = () if isinstance(placed, Allocation) else (placed.short,)
    case.verdict("fit", not refused, *refused)
    assert case.get("reason_contains", "") in "".join(refused)
    if isinstance(placed, Allocation) and "pick_set" in case:
        assert {int(piece.device_id) for piece in placed.containers[0].slices} == set(case["pick_set"])


def test_ascend_network_weight_matches_hami() -> None:
    assert value("vendors/ascend.scoreWeight") == topology.NETWORK_WEIGHT


def test_ascend_annotation_names_match_hami() -> None:
    names = value("vendors/ascend.annotations")
    _, family = vendor("Ascend910B3")
    (selectors,) = family.uuid_selectors
    ours = {
        "register": family.register_key,
        "handshake": family.handshake_key,
        "useUuid": selectors.use,
        "noUseUuid": selectors.nouse,
        "toAllocate": family.to_allocate_key,
        "allocated": family.allocated_key,
        "runtime": "huawei.com/Ascend910B3",
        "predicateTime": "predicate-time",
        "podMode": f"{POD_MODE}=hami-core",
        "nodeMode": f"{NODE_MODE}=true|false",
    }
    assert {k: v.replace("<CW>", "Ascend910B3") for k, v in names.items()} == {k: ours[k] for k in names}


def test_ascend_runtime_keys_match_hami() -> None:
    plugin, _ = vendor("Ascend910A")
    pieces = (Slice("u", "Ascend910A", 8738, 1), Slice("v", "Ascend910A", 8738, 0))
    allocation = Allocation("n1", (ContainerSlices("c", ContainerKind.APP, pieces),))
    full, lean = json.loads(plugin.patch_annotations(PodFacts("ns", "p", "u"), allocation)["huawei.com/Ascend910A"])
    assert list(full) == value("vendors/ascend.runtimeInfo.keys")
    assert "core" not in lean


# --- vendors.json: all vendors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("vendors/capacityNodes"))
def test_devices_out_of_capacity_match_hami(case: Case) -> None:
    """``count`` is the node's capacity of whole devices, or if it has amounts too, the slots of one device."""
    plugin, family = vendor(SECTIONS[case["vendor"]])
    names = family.resources
    amounts = {names.cores: ("vcore", "core", "neuroncore"), names.memory: ("vmemory", "memory")}
    sizes = {name: str(case[key]) for name, keys in amounts.items() for key in keys if key in case}
    devices_are_counted = "count" in case and not sizes
    if devices_are_counted or "neuron" in case:
        sizes[names.count] = str(case["neuron"] if "neuron" in case else case["count"])
    annotations = {family.register_key: case["annotation"]} if "annotation" in case else {}
    facts = NodeFacts("n1", annotations, capacity=sizes, allocatable=dict.fromkeys(names.names(), "1"))
    devices = case.ask(lambda: plugin.register(facts))
    assert devices is not None
    assert len(devices) == case.get("devices", case["count"] if devices_are_counted else len(devices))
    seen: dict[str, Device] = {device.id: device for device in devices}
    first = devices[0] if devices else Device("", 0, 0, 0, 0, "", "MLU")
    assert first.memory_mib == case.get("devmem", first.memory_mib)
    if "id" in case:
        assert case["id"].replace("<node>", "n1") in seen
    if "numa" in case:
        assert [device.numa for device in devices] == case["numa"]
    cores = case.get("devcore", first.cores)
    if family.word == "Enflame":  # slices of whole percents: six of 17 percent make 102
        cores = first.slots * ceil_div(cores, first.slots)
    assert first.cores == cores
    assert first.slots == case.get("deviceCount", first.slots)
    assert first.slots == (first.slots if devices_are_counted else case.get("count", first.slots))


@pytest.mark.parametrize("case", cases("vendors/cambriconProfile"))
def test_cambricon_profile_matches_hami(case: Case) -> None:
    amounts = (case.get("usedmem", 0), case.get("cores", 0))
    piece = Slice("n1-cambricon-mlu-7", "MLU", *amounts, index=case.get("idx", 0))
    written = Cambricon().patch_annotations(Allocation("n1", (ContainerSlices("c", ContainerKind.APP, (piece,)),)))
    assert written["CAMBRICON_DSMLU_PROFILE"] == case["CAMBRICON_DSMLU_PROFILE"]


@pytest.mark.parametrize("name", sorted(value("vendors/memoryUnits")))
def test_memory_units_match_hami(name: str) -> None:
    unit = value("vendors/memoryUnits")[name]
    match name:
        case "cambricon":
            assert vendor("MLU")[1].memory_factor == unit
        case "ascend":
            assert unit == "memoryFactor"
            assert vendor("Ascend910A", memory_factor=7)[1].memory_factor == 7
        case "nvidia":
            assert unit == "memoryFactor"  # that vendor's own groups define it
        case "hygon":
            assert unit == "memoryFactor"  # tests/vectors/test_hygon.py
        case "metax-sgpu-bare":
            assert unit == 1024  # the group metaxVmemory defines it
        case _:
            assert vendor(SECTIONS[name])[1].memory_factor == unit


OWN_KEYS = {
    "cambricon": {"nodeRegister": None, "nodeSource": "capacity"},  # our agent writes a register for MLUs, HAMi none
    "mthreads": {"toAllocate": "hami.io/mthreads-vgpu-devices-to-allocate"},  # HAMi names it and never writes it
}
"""What we have otherwise than HAMi."""


@pytest.mark.parametrize("name", sorted(value("vendors/vendorAnnotations")))
def test_vendor_annotations_match_hami(name: str) -> None:
    told, word = value("vendors/vendorAnnotations")[name], SECTIONS[name]
    _, family = vendor(word)
    ours = {
        "typeWord": word,
        "toAllocate": family.to_allocate_key or None,
        "allocated": family.allocated_key,
        "nodeRegister": family.register_key or None,
        "handshake": family.handshake_key or None,
        "useUuid": " & ".join(pair.use for pair in family.uuid_selectors) or None,
        "noUseUuid": " & ".join(pair.nouse for pair in family.uuid_selectors) or None,
        "lock": family.foreign_lock or None,
        "nodeSource": "annotation" if family.register_key else "capacity",
    }
    wanted = {k: v.replace("<CW>", word) if v else v for k, v in told.items()}
    wanted["nodeSource"] = wanted["nodeSource"].partition("+")[0]
    assert wanted == ours | OWN_KEYS.get(name, {})
