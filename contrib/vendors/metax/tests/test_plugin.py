"""The vendor as the core loads it: devices, requests, who shares a card, which cards and nodes are taken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.errors import RequestError
from hami_core.inventory import Inventory
from hami_core.model import (
    UNKNOWN_MODE,
    Allocation,
    Booking,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    NodeFacts,
    PodFacts,
    PodRequest,
    Slice,
)
from hami_core.placement.request import pod_request
from hami_core.plugins import load

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU, SGPU = "metax-tech.com/gpu", "metax-tech.com/sgpu"
MEMORY, CORES = "metax-tech.com/vmemory", "metax-tech.com/vcore"
REGISTER = "metax-tech.com/node-gpu-devices"
QOS, CLASS, LINKS = (f"metax-tech.com/sgpu-{name}" for name in ("qos-policy", "app-class", "topology-aware"))
ONLINE, OFFLINE = {CLASS: "online"}, {CLASS: "offline"}
POD = PodFacts("ns", "p", "u")


def loaded(**section: object) -> Any:
    found = load({"metax": section} if section else {}, only=["metax"])
    assert not found.problems
    return found


VENDOR = loaded()


def card(name: str, **more: object) -> dict[str, object]:
    amounts = {"totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536}
    return {"uuid": name, "model": "C500", **amounts, "healthy": True, **more}


def node(*cards: dict[str, object], name: str = "n1", gpus: int = 0, **annotations: str) -> NodeFacts:
    found = {REGISTER: json.dumps(cards)} if cards else {}
    found |= {f"metax-tech.com/gpu.topology.{key}": text for key, text in annotations.items()}
    sizes = {SGPU: str(16 * len(cards)), GPU: str(gpus)}
    return NodeFacts(name, found, capacity=sizes, allocatable=sizes)


def inventory(*nodes: NodeFacts, vendor: Any = VENDOR) -> Inventory:
    made = Inventory(vendor.rules())
    for facts in nodes:
        made.set_node(facts, vendor.register(facts).devices)
    return made


def pod(name: str, *limits: Mapping[str, str], vendor: Any = VENDOR, **more: Any) -> PodRequest:
    specs = [ContainerSpec(f"c{n}", ContainerKind.APP, amounts) for n, amounts in enumerate(limits)]
    asked: PodRequest = pod_request(name, "ns", name, specs, more.pop("annotations", {}), vendor.parse)
    return replace(asked, **more)


def part(cores: int = 20, memory: int = 4, count: int = 1) -> dict[str, str]:
    return {SGPU: str(count), CORES: str(cores), MEMORY: str(memory)}


def taken(books: Inventory, request: PodRequest, where: str = "n1") -> list[str]:
    """The ids of the devices that a pod gets; empty: none fit. Filter and Bind agree."""
    fits = books.filter(request, [where]).best
    booked = books.book(request, where)
    assert isinstance(booked, Allocation) is bool(fits)
    return [s.device_id for c in booked.containers for s in c.slices] if isinstance(booked, Allocation) else []


def best(books: Inventory, request: PodRequest, nodes: list[str]) -> str:
    return books.filter(request, nodes).best[0][0]


def refusal(books: Inventory, request: PodRequest) -> str:
    assert not taken(books, request)
    return f"{books.filter(request, ['n1']).refused['n1']} {books.explain_text(request)}"


# --- devices -----------------------------------------------------------------------------------------------------


def test_cards_come_from_the_register_and_gpus_from_the_capacity():
    found = VENDOR.register(node(card("a", numa=1, linkZone=3, qosPolicy="fixed-share"), card("b"), gpus=2)).devices
    assert [(d.id, d.memory_mib, d.slots) for d in found["Metax-GPU"]] == [
        ("n1-metax-0", 65536, 1),
        ("n1-metax-1", 65536, 1),
    ]
    first, second = found["Metax-SGPU"]
    assert (first.id, first.index, first.numa, first.mode, first.type) == ("a", 0, 1, "fixed-share", "C500")
    assert (second.id, second.index, second.numa, second.mode) == ("b", 1, 0, "")


def test_registers_of_older_plugins_are_read():
    (found,) = VENDOR.register(NodeFacts("n1", {REGISTER: '[{"uuid": "a", "numa": -1}]'})).devices["Metax-SGPU"]
    assert (found.slots, found.memory_mib, found.cores, found.healthy, found.numa) == (0, 0, 0, False, 0)
    assert (found.type, found.mode) == ("Metax-SGPU", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "JSON"),
        ("null", "valid array"),
        ("{}", "valid array"),
        ('[{"model": "C500"}]', "uuid: Field required"),
        ('[{"uuid": "a,b"}]', "uuid: String should match"),
        ('[{"uuid": "a"}, {"uuid": "a"}]', "'a' is listed twice"),
        ('[{"uuid": "a", "totalVRam": -1}]', "totalVRam: Input should be greater"),
        ('[{"uuid": "a", "totalVRam": 1e99}]', "totalVRam: Input should be a valid integer"),
        ('[{"uuid": "a", "totalCompute": "100"}]', "totalCompute: Input should be a valid integer"),
        ('[{"uuid": "a", "healthy": 1}]', "healthy: Input should be a valid boolean"),
    ],
)
def test_a_broken_register_closes_the_node_and_says_where(text, told):
    found = VENDOR.register(NodeFacts("n1", {REGISTER: text}))
    assert found.devices["Metax-SGPU"] is None
    assert REGISTER in str(found.errors[0])
    assert told in str(found.errors[0])


def test_a_node_without_metax_cards_does_not_concern_us():
    assert not VENDOR.register(NodeFacts("n1", capacity={"cpu": "4"})).devices["Metax-GPU"]


@pytest.mark.parametrize(("limits", "resource"), [({GPU: "1"}, GPU), (part(), SGPU)])
def test_a_node_whose_plugin_is_away_takes_no_pods(limits, resource):
    facts = node(card("a"), gpus=1)
    away = replace(facts, allocatable={**facts.allocatable, resource: "0"})
    assert taken(inventory(facts), pod("p", limits))
    assert f"the kubelet offers no {resource}" in refusal(inventory(away), pod("p", limits))


def test_unhealthy_cards_take_no_pods():
    assert "CardNotHealth" in refusal(inventory(node(card("a", healthy=False))), pod("p", part()))


# --- requests ----------------------------------------------------------------------------------------------------


def mutation(limits: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Any:
    spec = ContainerSpec("c", ContainerKind.APP, limits)
    (vendor,) = VENDOR.vendors
    return vendor.mutate_admission(spec, replace(POD, annotations=annotations or {}))


@pytest.mark.parametrize(
    ("text", "mib"),
    [("16", 16384), ("1024Mi", 1024), ("1Gi", 1024), ("1G", 953), ("1536Ki", 1), ("0", 65536), ("2097151", None)],
)
def test_bare_memory_counts_gib_and_units_count_bytes(text, mib):
    ((request,),) = (c.requests for c in pod("p", {SGPU: "1", MEMORY: text}).containers)
    assert request.memory_on(65536) == (mib or 2097151 * 1024)


@pytest.mark.parametrize(
    ("limits", "annotations", "told"),
    [
        ({SGPU: "1", MEMORY: "2100001"}, {}, "2100001 is above the largest amount 2097151"),
        ({SGPU: "1", MEMORY: "1k"}, {}, "it must be from 1Mi to 2097151Gi .*write GiB without a unit"),
        ({SGPU: "1", MEMORY: "500m"}, {}, "it must be from 1Mi"),
        ({SGPU: "1", MEMORY: "-1Gi"}, {}, "it must be from 1Mi"),
        ({SGPU: "1", MEMORY: "1Ei"}, {}, "it must be from 1Mi to 2097151Gi"),
        ({SGPU: "1", MEMORY: "-1"}, {}, "-1 is negative"),
        ({SGPU: "1", MEMORY: "16GB"}, {}, "write 16 for 16 GiB, or 16Gi"),
        ({SGPU: "1", CORES: "101"}, {}, "101 is above the largest amount 100"),
        ({SGPU: "1", CORES: "-1"}, {}, "-1 is negative"),
        ({SGPU: "2200000000"}, {}, "2200000000 is above the largest amount"),
        ({SGPU: "-1"}, {}, "-1 is negative"),
        ({GPU: "-1"}, {}, "-1 is negative"),
        ({GPU: "1.5"}, {}, "not a whole number"),
        ({SGPU: "1"}, {QOS: "best"}, r"must be set one of \[best-effort, fixed-share, burst-share\]: it is 'best'"),
        ({SGPU: "1"}, {QOS: ""}, "must be set one of"),
        ({SGPU: "1"}, {CLASS: "Online"}, r"must be set one of \[online, offline\]"),
        ({SGPU: "2"}, ONLINE, "app-class pod must request single device .ask for 1"),
        ({SGPU: "2"}, OFFLINE, "app-class pod must request single device"),
        ({SGPU: "1"}, {LINKS: "yes"}, "sgpu-topology-aware is 'yes' .write true or false"),
    ],
)
def test_wrong_requests_are_denied_with_the_legal_values(limits, annotations, told):
    with pytest.raises(RequestError, match=told):
        mutation(limits, annotations)
    with pytest.raises(RequestError, match=told):
        pod("p", limits, annotations=annotations)


@pytest.mark.parametrize(
    ("limits", "annotations", "written"),
    [
        ({SGPU: "1"}, {}, {QOS: "best-effort"}),
        ({SGPU: "1"}, OFFLINE, {QOS: "best-effort"}),
        ({SGPU: "1"}, {QOS: "fixed-share"}, {}),
        ({SGPU: "1"}, ONLINE, {}),
        ({SGPU: "1"}, ONLINE | {QOS: "wrong"}, {}),
        ({GPU: "1"}, {QOS: "wrong"}, {}),
    ],
)
def test_admission_writes_the_default_policy_of_sgpus(limits, annotations, written):
    found = mutation(limits, annotations)
    assert found.uses_devices
    assert found.pod_annotations == written


def test_other_containers_are_left_alone():
    assert mutation({"cpu": "1"}, {QOS: "wrong"}) is None


def test_resource_names_are_settings():
    vendor = loaded(
        resourceCountName="a/g", resourceVCountName="a/s", resourceVMemoryName="a/m", resourceVCoreName="a/c"
    )
    ((request,),) = (c.requests for c in pod("p", {"a/s": "2", "a/m": "1", "a/c": "5"}, vendor=vendor).containers)
    assert (request.count, request.memory_mib, request.cores) == (2, 1024, 5)
    assert vendor.families["Metax-GPU"].resources.count == "a/g"


@pytest.mark.parametrize(
    ("program", "is_metax"),
    [
        ("cr.metax-tech.com/cloud/gpu-device:0.9.2", True),
        ("harbor.example.com/mximages/gpu-device@sha256:b43d", True),
        ("cr.metax-tech.com/cloud/gpu-label:0.9.2", False),
        ("example.com/gpu-device-plugin:1.0", False),
        ("nvidia-gpu-device-plugin", False),
    ],
)
def test_only_metaxs_plugin_is_taken_for_it(program, is_metax):
    for family in VENDOR.families.values():
        (plugin,) = family.doctor.neighbours
        assert any(mark in program for mark in plugin.marks) == is_metax


# --- whole GPUs --------------------------------------------------------------------------------------------------


def test_each_container_gets_gpus_of_its_own():
    got = taken(inventory(node(gpus=4)), pod("p", {GPU: "1"}, {GPU: "2"}, {GPU: "1"}))
    assert sorted(got) == [f"n1-metax-{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("policy", "annotation", "amounts", "wins"),
    [
        ("binpack", "losses", ("321", "123"), "b"),
        ("binpack", "losses", ("123", "321"), "a"),
        ("spread", "scores", ("100", "600"), "b"),
        ("spread", "scores", ("600", "100"), "a"),
    ],
)
def test_least_loss_or_best_links_win(policy, annotation, amounts, wins):
    a, b = (
        node(name=name, gpus=4, **{annotation: json.dumps({"2": int(amount)})})
        for name, amount in zip("ab", amounts, strict=True)
    )
    assert best(inventory(a, b), pod("p", {GPU: "2"}, node_policy=policy), ["a", "b"]) == wins


@pytest.mark.parametrize("text", ["", "[]", "{", '{"2": "5"}', '{"2": -5}', '{"2": 1e9}', "[" * 5000])
def test_unreadable_losses_count_as_none(text):
    nodes = node(name="a", gpus=4, losses=text), node(name="b", gpus=4, losses='{"2": 1}')
    assert best(inventory(*nodes), pod("p", {GPU: "2"}, node_policy="binpack"), ["a", "b"]) == "a"


# --- who shares a card -------------------------------------------------------------------------------------------

PLAIN = {QOS: "best-effort"}
BURST = {QOS: "burst-share"}


@pytest.mark.parametrize(
    ("there", "comes", "told"),
    [
        (PLAIN, PLAIN, ""),
        ({}, PLAIN, ""),
        (PLAIN, BURST, "CardQosPolicyMismatch"),
        (BURST, {}, "CardQosPolicyMismatch"),
        (PLAIN, ONLINE, "CardAppClassMismatch"),
        (ONLINE, PLAIN, "CardAppClassMismatch"),
        (OFFLINE, PLAIN, "CardAppClassMismatch"),
        (PLAIN, OFFLINE, "CardAppClassMismatch"),
        (OFFLINE, OFFLINE, ""),
        (OFFLINE, OFFLINE | BURST, "CardQosPolicyMismatch"),
        (OFFLINE | BURST, ONLINE, ""),
        (ONLINE, ONLINE, ""),
        (ONLINE, OFFLINE, "CardAppClassMismatch"),
        (PLAIN | {LINKS: "true"}, PLAIN, ""),
    ],
)
def test_containers_share_a_card_by_class_and_policy(there, comes, told):
    books = inventory(node(card("a", qosPolicy="fixed-share")))
    assert taken(books, pod("first", part(), annotations=there)) == ["a"], "an idle card takes every policy"
    second = pod("second", part(), annotations=comes)
    if told:
        assert told in refusal(books, second)
        books.remove_pod("first")
    assert taken(books, second) == ["a"]


@pytest.mark.parametrize(
    ("reported", "comes", "told"),
    [
        ("burst-share", BURST, ""),
        ("burst-share", PLAIN, "CardQosPolicyMismatch"),
        ("", PLAIN, "CardQosPolicyMismatch"),
        ("best-effort", ONLINE, "CardAppClassMismatch"),
        ("best-effort", OFFLINE, "CardAppClassMismatch"),
    ],
)
def test_reported_policy_counts_beside_pods_of_other_schedulers(reported, comes, told):
    books = inventory(node(card("a", qosPolicy=reported)))
    piece = Slice("a", "Metax-SGPU", 1024, 10, mode=UNKNOWN_MODE)
    theirs = Allocation("n1", (ContainerSlices("c", ContainerKind.APP, (piece,)),))
    books.set_pod(Booking("theirs", "ns", "theirs", theirs))
    request = pod("p", part(), annotations=comes)
    assert told in refusal(books, request) if told else taken(books, request) == ["a"]


def test_online_pods_book_no_compute_and_join_a_busy_card():
    books = inventory(node(card("a")))
    assert taken(books, pod("offline", part(100), annotations=OFFLINE)) == ["a"]
    assert taken(books, pod("online", part(100), annotations=ONLINE)) == ["a"]
    (usage,) = books.usage("n1")
    assert (usage.used_cores, usage.used_memory_mib) == (100, 8192)
    assert "CardInsufficientMemory" in refusal(books, pod("large", part(memory=60), annotations=ONLINE))


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (part(10), part(100), "CardInsufficientCore"),
        (part(0), part(100), "ExclusiveDeviceAllocateConflict"),
        (part(100), part(0), "CardComputeUnitsExhausted"),
        (part(60), part(50), "CardInsufficientCore"),
        (part(60, memory=40), part(20, memory=30), "CardInsufficientMemory"),
    ],
)
def test_whole_and_sold_out_cards_are_not_shared(first, second, told):
    books = inventory(node(card("a")))
    assert taken(books, pod("p", first)) == ["a"]
    assert told in refusal(books, pod("q", second))


def test_cards_are_chosen_by_id():
    books = inventory(node(card("a"), card("b")))
    assert taken(books, pod("p", part(), annotations={"metax-tech.com/use-gpuuuid": "b"})) == ["b"]
    assert taken(books, pod("q", part(), annotations={"metax-tech.com/nouse-gpuuuid": "b"})) == ["a"]


# --- which cards and nodes are taken -----------------------------------------------------------------------------


def zones(*numbers: int, name: str = "n1") -> NodeFacts:
    return node(*(card(f"{name}{at}-z{zone}", linkZone=zone) for at, zone in enumerate(numbers)), name=name)


@pytest.mark.parametrize(
    ("numbers", "count", "zones_taken"),
    [
        ((1, 1, 1, 2, 2), 2, [2, 2]),
        ((1, 1, 1, 2, 2), 3, [1, 1, 1]),
        ((1, 1, 1, 2, 2, 0), 4, [1, 1, 2, 2]),
        ((0, 0, 0, 2, 2), 3, [0, 2, 2]),
        ((0, 0, 0), 2, [0, 0]),
        ((0, -1, 3), 1, [3]),
    ],
)
def test_whole_cards_come_from_the_smallest_zone_that_suffices(numbers, count, zones_taken):
    got = taken(inventory(zones(*numbers)), pod("p", {SGPU: str(count)}))
    assert sorted(int(name.partition("-z")[2]) for name in got) == zones_taken


def test_online_pods_take_the_card_with_the_fewest_online_ones():
    books = inventory(node(card("a"), card("b"), card("c")))
    first, second = (taken(books, pod(f"on{n}", part(), annotations=ONLINE)) for n in range(2))
    assert first != second
    assert taken(books, pod("off", part(), annotations=OFFLINE)) == list({"a", "b", "c"} - {*first, *second})
    (third,) = taken(books, pod("on2", part(), annotations=ONLINE))
    assert [third] in [first, second], "rather beside an online pod than where an offline one would stop"


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize(("annotation", "everywhere"), [("true", False), (None, True)])
def test_linked_cards_win_under_every_node_policy(policy, annotation, everywhere):
    vendor = loaded(sgpuTopologyAware=everywhere)
    books = inventory(zones(1, 2, 3, 4, name="a"), zones(1, 1, 2, 2, name="b"), vendor=vendor)
    annotations = {LINKS: annotation} if annotation else {}
    request = pod("p", {SGPU: "2"}, vendor=vendor, annotations=annotations, node_policy=policy)
    assert best(books, request, ["a", "b"]) == "b"


def test_a_pods_annotation_turns_links_off():
    vendor = loaded(sgpuTopologyAware=True)
    books = inventory(zones(1, 1, 1, 1, name="a"), zones(1, 1, name="b"), vendor=vendor)
    request = pod("p", {SGPU: "1"}, vendor=vendor, node_policy="binpack")
    assert best(books, request, ["a", "b"]) == "b", "one broken link costs less than three"
    request = pod("p", {SGPU: "1"}, vendor=vendor, annotations={LINKS: "false"}, node_policy="binpack")
    assert best(books, request, ["a", "b"]) == "a", "of equal nodes the first"


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_online_pods_avoid_nodes_with_offline_ones(policy):
    books = inventory(node(card("a"), name="a"), node(card("b"), name="b"))
    assert taken(books, pod("off", part(), annotations=OFFLINE), "a")
    assert best(books, pod("on", part(), annotations=ONLINE, node_policy=policy), ["a", "b"]) == "b"


# --- the plugin's annotations ------------------------------------------------------------------------------------


def test_bind_tells_the_plugin_each_containers_cards():
    pieces = (Slice("a", "Metax-SGPU", 4096, 25), Slice("b", "Metax-SGPU", 4096, 0))
    parts = (ContainerSlices("c0", ContainerKind.APP, pieces), ContainerSlices("c1", ContainerKind.APP))
    written = VENDOR.patch_annotations(replace(POD, decided_at_ns=5_000_000_001), Allocation("n1", parts))
    entries = [[{"uuid": "a", "compute": 25, "vRam": 4096}, {"uuid": "b", "vRam": 4096}], []]
    assert json.loads(written["metax-tech.com/gpu-devices-allocated"]) == entries
    assert written["metax-tech.com/predicate-time"] == "5000000001"


def test_bind_writes_nothing_for_whole_gpus():
    parts = (ContainerSlices("c", ContainerKind.APP, (Slice("n1-metax-0", "Metax-GPU", 65536, 100),)),)
    assert VENDOR.patch_annotations(POD, Allocation("n1", parts)) == {}
