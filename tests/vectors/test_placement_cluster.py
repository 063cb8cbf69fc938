"""Clusters: Filter, quota, usage, peaks, against the vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.inventory import Inventory
from hami_core.model import Allocation, ContainerKind, Family, MigPlacement, NodeFacts, Resources, Slice, VendorRules
from hami_core.placement import Plan, QuotaBook, prefers_low_score, uses
from hami_core.placement.peak import Peak
from hami_core.wire.node import decode_devices_json, encode_devices_json

from .cases import Case, cases, head, value
from .placing import booking, device, nvidia_rules, pod, register

if TYPE_CHECKING:
    from hami_core.placement.fit import Ask

pytestmark = pytest.mark.vectors

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


def _kinds(init: int, count: int) -> list[ContainerKind]:
    return [ContainerKind.INIT if i < init else ContainerKind.APP for i in range(count)]


def _containers(init: int, raw: list[list[list[Any]]]) -> list[tuple[ContainerKind, list[Slice]]]:
    slices = [[Slice(uuid, "NVIDIA", memory, cores) for uuid, memory, cores in container] for container in raw]
    return list(zip(_kinds(init, len(raw)), slices, strict=True))


@pytest.mark.parametrize("case", cases("node_order"))
def test_node_order(case: Case) -> None:
    """The last of the sorted list is chosen: the better node is not the one before."""
    worse_first = case["a"] > case["b"] if prefers_low_score(case["policy"]) else case["a"] < case["b"]
    assert worse_first is case["a_before_b"]
    inventory = Inventory([nvidia_rules()])
    for name in "ab":
        full = {"id": f"{name}-0", "count": 30, "totalmem": 30, "totalcore": 30}
        used = {"used": case[name] // 3 + 1, "usedmem": case[name], "usedcores": case[name]}
        register(inventory, name, [full | used])
    asked = pod([], [{"nums": 1, "type": "NVIDIA", "mem": 1, "pct": 101, "cores": 1}], node_policy=case["policy"])
    assert inventory.filter(asked, ["a", "b"]).hold_node == ("b" if case["a_before_b"] else "a")


@pytest.mark.parametrize("case", cases("filter_end_to_end"))
def test_filter(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    for name, records in case.head["nodes"].items():
        register(inventory, name, records)
    asked = pod(case["init"], case["app"], node_policy=case["node_policy"], device_policy=case["gpu_policy"])
    outcome = inventory.filter(asked, list(case.head["nodes"]))
    assert outcome.hold_node == case["node"]
    placed = inventory.book(asked, case["node"])
    assert isinstance(placed, Allocation)
    assert placed.containers[0].slices[0].device_id in case["first_device"]


@pytest.mark.parametrize("case", cases("filter_quota"))
def test_filter_with_quota(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    register(inventory, "node1", case.head["node1_devices"])
    limits = {"mem": MEMORY, "cores": CORES}
    inventory.set_quota("default", "q", {limits[key]: str(amount) for key, amount in case["quota"].items()})
    outcome = inventory.filter(pod([], [case["app"]]), ["node1"])
    assert bool(outcome.best) is case["fit"]
    if not case["fit"]:
        assert outcome.refused["node1"] == case["failed"]


@pytest.mark.parametrize("case", cases("filter_simulation"))
def test_simulation(case: Case) -> None:
    """Devices come from the Node object of the request; nothing is booked."""
    inventory = Inventory([nvidia_rules()])
    registered = "annotation" not in case
    text = encode_devices_json([device(case.head["device"], 0)])
    devices = {"NVIDIA": decode_devices_json(text, key="register", family="NVIDIA")} if registered else {}
    outcome = inventory.simulate(pod([], [case["app"]]), [(NodeFacts("n1"), devices)])
    assert bool(outcome.best) is case["fit"]
    if case["fit"]:
        assert (case["returns"], case["node_names_null"]) == ("Nodes", True)
        assert not case["side_effects"]
        assert [name for name, _ in outcome.best] == ["n1"]
    elif "failed" in case:
        assert outcome.refused["n1"] == case["failed"]
        assert case["annotation"] is None
    else:
        assert case["failed_contains"] in outcome.refused["n1"]
        assert case["nodes_null"]
    assert not list(inventory.bookings())
    assert not list(inventory.holds())


@pytest.mark.parametrize("case", cases("collapse"))
def test_peak(case: Case) -> None:
    allocation = booking("p", "n1", _containers(case["init"], case["raw"])).allocation
    for init_done, key in ((False, "effective"), (True, "app_only")):
        taken = [[u.device_id, u.memory_mib, u.cores, u.slots] for u in uses(allocation, init_done=init_done)]
        assert taken == case[key]


@pytest.mark.parametrize("row", value("vendors/initContainers"))
def test_peak_of_the_vendor_tables(row: dict[str, list[Any]]) -> None:
    assert value("vendors/initContainersColumns") == ["mem", "cores", "slots"]
    raw = [[["gpu0", *amounts]] for amounts in (*row["init"], *row["app"])]
    (use,) = uses(booking("p", "n1", _containers(len(row["init"]), raw)).allocation)
    assert [use.memory_mib, use.cores, use.slots] == row["out"]


@pytest.mark.parametrize("case", cases("nvidia_fit_quota_helper"))
def test_quota_while_devices_are_chosen(case: Case) -> None:
    rules = nvidia_rules()
    quota = QuotaBook([rules.family])
    quota.set("default", "q", {MEMORY: str(case.head["quota_mem_limit"])})
    peak = Peak()
    for kind, slices in _containers(case["init"], case["allocated"]):
        peak.add(kind, slices)
    plan = Plan(pod([], [{"nums": 1, "type": "NVIDIA", "mem": 1, "pct": 101, "cores": 1}]), {"NVIDIA": rules})
    ask: Ask = plan.asks[0][0]
    admits = plan.quota_check(ask, peak, quota)
    assert admits is not None
    pieces = [Slice(uuid, "NVIDIA", memory, cores) for uuid, memory, cores in (*case["current"], case["candidate"])]
    assert admits(pieces) is case["ok"]


def _quota(rules: VendorRules, limits: dict[str, dict[str, int] | None]) -> QuotaBook:
    quota = QuotaBook([rules.family])
    names = {"mem": rules.family.resources.memory, "core": rules.family.resources.cores}
    hard = {f"limits.{names[key]}": str(entry["limit"]) for key, entry in limits.items() if entry}
    if hard:
        quota.set("default", "q", hard)
    used = {key: entry["used"] if entry else 0 for key, entry in limits.items()}
    quota.add("default", rules.family.word, used["mem"], used["core"])
    return quota


@pytest.mark.parametrize("case", cases("quota_manager"))
def test_quota(case: Case) -> None:
    rules = nvidia_rules(memory_factor=case["factor"])
    quota = _quota(rules, {"mem": case["mem"], "core": case["core"]})
    assert (quota.refusal("default", "NVIDIA", case["req_mem"], case["req_core"]) is None) is case["ok"]


@pytest.mark.parametrize("case", cases("webhook_quota"))
def test_quota_at_admission(case: Case) -> None:
    """Amounts are in units of the resource, the factor turns memory into MiB."""
    word, factor = case["vendor"], case["factor"]
    family = Family(word, Resources("x/n", "x/mem", "", "x/core"), "a", memory_factor=factor)
    rules = VendorRules(family)
    quota = _quota(rules, {"mem": case["mem"], "core": case["core"]})

    def record(entry: list[int | None]) -> dict[str, Any]:
        count, memory, cores = entry
        return {"nums": count, "type": word, "mem": (memory or 0) * factor, "pct": 101, "cores": cores or 0}

    asked = pod([record(entry) for entry in case["init"]], [record(entry) for entry in case["app"]])
    assert (quota.admission_refusal(asked) is None) is case["ok"]


@pytest.mark.parametrize("case", cases("usage_from_cache"))
def test_usage(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    record = {"id": case["gpu"], "count": 10, "totalmem": 80000, "totalcore": 100}
    inventory.set_node(NodeFacts("n1"), {"NVIDIA": [device(record, 0)]})
    for number, one in enumerate(case["pods"]):
        running = booking(f"p{number}", "n1", _containers(one["init"], one["raw"]))
        inventory.set_pod(running, init_done=one.get("init_succeeded", False))
    (usage,) = inventory.usage("n1")
    assert (usage.used_slots, usage.used_memory_mib, usage.used_cores) == (
        case["used"],
        case["usedmem"],
        case["usedcores"],
    )


@pytest.mark.parametrize("case", cases("mig_restore"))
def test_mig_restore(case: Case) -> None:
    """HAMi merges the entries of one card before it counts; here every instance stays an entry of its own."""
    inventory = Inventory([nvidia_rules()])
    record = {
        "id": "GPU-0",
        "count": 7,
        "totalmem": 40960,
        "totalcore": 100,
        "mode": head("mig_restore")["device_mode"],
    }
    inventory.set_node(NodeFacts("n1"), {"NVIDIA": [device(record, 0)]})
    plain = Slice("GPU-0", "NVIDIA", 5120, 14)
    entries = max(case["cached_entries"], case["reservations"])
    slices = [
        replace(plain, mig_profile="1g.5gb", mig_placement=MigPlacement(i, 1)) if i < case["reservations"] else plain
        for i in range(entries)
    ]
    inventory.set_pod(booking("p", "n1", [(ContainerKind.APP, slices)]))
    (usage,) = inventory.usage("n1")
    assert usage.device.healthy is case["healthy"]
    assert len(usage.mig_in_use) == case.get("in_use", 0)
