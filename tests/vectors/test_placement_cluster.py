"""Clusters: Filter, quota, usage, peaks, against the vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.inventory import Inventory
from hami_core.model import Allocation, ContainerKind, Family, MigPlacement, NodeFacts, Resources, Slice, VendorRules
from hami_core.placement import Plan, QuotaBook, uses
from hami_core.placement.pod_usage import PeakUsage
from hami_core.policies import node_policy
from hami_core.wire.node import decode_devices_json, encode_devices_json

from .cases import Case, cases, value
from .placing import booking, device, nvidia_rules, pod, register, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.model import Reason
    from hami_core.placement.fit import Ask

pytestmark = pytest.mark.vectors

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


def _kinds(init: int, count: int) -> list[ContainerKind]:
    return [ContainerKind.INIT if i < init else ContainerKind.APP for i in range(count)]


def _containers(case: Mapping[str, Any], key: str = "raw") -> list[tuple[ContainerKind, list[Slice]]]:
    """The containers of a record. The first ``init`` are init containers. ``devices`` means the same as ``raw``."""
    slices = rows(case[key] if key in case else case.get("devices", []))
    return list(zip(_kinds(case.get("init", 0), len(slices)), slices, strict=True))


@pytest.mark.parametrize("case", cases("node_order"))
def test_node_order_matches_hami(case: Case) -> None:
    """HAMi chooses the last node of the sorted list, so the better node must not come before the other."""
    policy = case.get("policy", "binpack")
    rank = node_policy(policy).rank
    worse_first = rank(case["a"]) < rank(case["b"])
    assert worse_first is case["a_before_b"]
    inventory = Inventory([nvidia_rules()])
    for name in "ab":
        full = {"id": f"{name}-0", "count": 30, "totalmem": 30, "totalcore": 30}
        used = {"used": case[name] // 3 + 1, "usedmem": case[name], "usedcores": case[name]}
        register(inventory, name, [full | used])
    asked = pod([], [{"nums": 1, "type": "NVIDIA", "mem": 1, "pct": 101, "cores": 1}], node_policy=policy)
    assert inventory.filter(asked, ["a", "b"]).hold_node == ("b" if case["a_before_b"] else "a")


@pytest.mark.parametrize("case", cases("filter_end_to_end"))
def test_filter_matches_hami(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    nodes = case.get("nodes", case.head.get("nodes", {}))
    for name, records in nodes.items():
        register(inventory, name, records)
    asked = pod(
        case.get("init", []),
        case.get("app", []),
        node_policy=case.get("node_policy", ""),
        device_policy=case.get("gpu_policy", ""),
    )
    outcome = inventory.filter(asked, list(nodes))
    case.verdict("fit", bool(outcome.best), *outcome.refused.values())
    assert outcome.hold_node == case.get("node", outcome.hold_node)
    if "first_device" in case:
        placed = inventory.book(asked, case["node"])
        assert isinstance(placed, Allocation)
        assert placed.containers[0].slices[0].device_id in case["first_device"]


@pytest.mark.parametrize("case", cases("filter_quota"))
def test_filter_with_quota_matches_hami(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    register(inventory, "node1", case.get("devices", case.head.get("node1_devices", [])))
    limits = {"mem": MEMORY, "cores": CORES, "core": CORES}
    inventory.set_quota("default", "q", {limits[key]: str(amount) for key, amount in case.get("quota", {}).items()})
    outcome = inventory.filter(pod(listed(case, "init"), listed(case, "app")), ["node1"])
    case.verdict("fit", bool(outcome.best), *outcome.refused.values())
    if "failed" in case:
        assert outcome.refused["node1"] == case["failed"]


def listed(case: Case, key: str) -> list[Any]:
    """Request records by container. A single record is one container."""
    found = case.get(key, [])
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("case", cases("filter_simulation"))
def test_simulation_matches_hami(case: Case) -> None:
    """Devices come from the Node object in the request, and nothing is booked."""
    inventory = Inventory([nvidia_rules()])
    text = case.get("annotation", encode_devices_json([device(case.get("device", case.head.get("device", {})), 0)]))
    devices = {} if text is None else {"NVIDIA": decode_devices_json(text, key="register", family="NVIDIA")}
    asked = pod(listed(case, "init"), listed(case, "app"))
    outcome = inventory.simulate(asked, [(NodeFacts("n1"), devices)])
    case.verdict("fit", bool(outcome.best), *outcome.refused.values())
    answered = {"returns": "Nodes", "node_names_null": True, "side_effects": False, "nodes_null": not outcome.best}
    assert {key: case[key] for key in answered if key in case}.items() <= answered.items()
    if outcome.best:
        assert [name for name, _ in outcome.best] == ["n1"]
    else:
        assert outcome.refused["n1"] == case.get("failed", outcome.refused["n1"])
        assert case.get("failed_contains", "") in outcome.refused["n1"]
    assert not list(inventory.bookings())
    assert not list(inventory.holds())


@pytest.mark.parametrize("case", cases("collapse"))
def test_peak_matches_hami(case: Case) -> None:
    allocation = booking("p", "n1", _containers(case)).allocation
    for init_done, key in ((False, "effective"), (True, "app_only")):
        taken = [
            [u.device_id, u.memory_mib, u.cores, u.slots] for u in uses(allocation.containers, init_done=init_done)
        ]
        assert taken == case.get(key, taken)


@pytest.mark.parametrize("row", value("vendors/initContainers"))
def test_peak_of_the_vendor_tables_matches_hami(row: dict[str, list[Any]]) -> None:
    assert value("vendors/initContainersColumns") == ["mem", "cores", "slots"]
    init, app = row.get("init", []), row.get("app", [])
    record = {"init": len(init), "raw": [[["gpu0", *amounts]] for amounts in (*init, *app)]}
    (use,) = uses(booking("p", "n1", _containers(record)).allocation.containers)
    assert [use.memory_mib, use.cores, use.slots] == row["out"]


@pytest.mark.parametrize("case", cases("nvidia_fit_quota_helper"))
def test_quota_while_devices_are_chosen_matches_hami(case: Case) -> None:
    rules = nvidia_rules()
    quota = QuotaBook([rules.family])
    quota.set("default", "q", {MEMORY: str(case.get("quota_mem_limit", case.head["quota_mem_limit"]))})
    peak = PeakUsage()
    for kind, slices in _containers(case, "allocated"):
        peak.add(kind, slices)
    plan = Plan(pod([], [{"nums": 1, "type": "NVIDIA", "mem": 1, "pct": 101, "cores": 1}]), {"NVIDIA": rules})
    ask: Ask = plan.asks[0][0]
    admits = plan.quota_check(ask, peak, quota)
    assert admits is not None
    (pieces,) = rows([*case.get("current", []), case["candidate"]])
    case.verdict("ok", admits(pieces), "ResourceQuotaNotFit")


def _quota(rules: VendorRules, limits: dict[str, dict[str, int] | None]) -> QuotaBook:
    quota = QuotaBook([rules.family])
    names = {"mem": rules.family.resources.memory, "core": rules.family.resources.cores}
    hard = {f"limits.{names[key]}": str(entry["limit"]) for key, entry in limits.items() if entry and "limit" in entry}
    if hard:
        quota.set("default", "q", hard)
    used = {key: entry.get("used", 0) if entry else 0 for key, entry in limits.items()}
    quota.add("default", rules.family.word, used["mem"], used["core"])
    return quota


@pytest.mark.parametrize("case", cases("quota_manager"))
def test_quota_matches_hami(case: Case) -> None:
    rules = nvidia_rules(memory_factor=case.get("factor", 1))
    quota = _quota(rules, {"mem": case.get("mem"), "core": case.get("core")})
    refusal = quota.refusal("default", "NVIDIA", case.get("req_mem", 0), case.get("req_core", 0))
    case.verdict("ok", refusal is None, *told(refusal))


def told(reason: Reason | None) -> tuple[str, ...]:
    """The texts by which a case may name a refusal."""
    return () if reason is None else (reason.code, reason.detail, str(reason))


@pytest.mark.parametrize("case", cases("webhook_quota"))
def test_quota_at_admission_matches_hami(case: Case) -> None:
    """Amounts are in the resource's units. The factor converts memory to MiB."""
    word, factor = case.get("vendor", "NVIDIA"), case.get("factor", 1)
    family = Family(word, Resources("x/n", "x/mem", "", "x/core"), "a", memory_factor=factor)
    rules = VendorRules(family)
    quota = _quota(rules, {"mem": case.get("mem"), "core": case.get("core")})

    def record(entry: list[int | None] | None) -> dict[str, Any] | None:
        if entry is None:
            return None
        count, memory, cores = (*entry, None, None)[:3]
        return {"nums": count, "type": word, "mem": (memory or 0) * factor, "pct": 101, "cores": cores or 0}

    asked = pod([record(entry) for entry in case.get("init", [])], [record(entry) for entry in case.get("app", [])])
    refusal = quota.admission_refusal(asked)
    case.verdict("ok", refusal is None, *told(refusal))


@pytest.mark.parametrize("case", cases("usage_from_cache"))
def test_usage_matches_hami(case: Case) -> None:
    inventory = Inventory([nvidia_rules()])
    pods = case.get("pods", [])
    named = [piece.device_id for one in pods for _, slices in _containers(one) for piece in slices]
    gpu = case.get("gpu", next(iter(named), "GPU0"))
    records = [{"id": name, "count": 10, "totalmem": 80000, "totalcore": 100} for name in dict.fromkeys([gpu, *named])]
    inventory.set_node(NodeFacts("n1"), {"NVIDIA": [device(record, i) for i, record in enumerate(records)]})
    for number, one in enumerate(pods):
        unknown = one.keys() - {"init", "raw", "devices", "init_succeeded"}
        assert not unknown, f"{case.name}: pod keys unknown to the runner: {unknown}"
        running = booking(f"p{number}", "n1", _containers(one))
        inventory.set_pod(running, init_done=one.get("init_succeeded", False))
    usage = next(usage for usage in inventory.usage("n1") if usage.device.id == gpu)
    found = {"used": usage.used_slots, "usedmem": usage.used_memory_mib, "usedcores": usage.used_cores}
    assert {key: case.get(key, 0) for key in found} == found


@pytest.mark.parametrize("case", cases("mig_restore"))
def test_mig_use_after_a_restart_matches_hami(case: Case) -> None:
    """HAMi merges the entries of one card before it counts. Here every instance stays a separate entry.

    ``booked_mem`` and ``booked_cores`` are the card's totals over all entries.
    """
    inventory = Inventory([nvidia_rules()])
    record = {
        "id": "GPU-0",
        "count": 7,
        "totalmem": 40960,
        "totalcore": 100,
        "mode": case.get("device_mode", case.head.get("device_mode", "mig")),
    }
    inventory.set_node(NodeFacts("n1"), {"NVIDIA": [device(record, 0)]})
    cached, reserved = case.get("cached_entries", 0), case.get("reservations", 0)
    entries = max(cached, reserved)
    plain = Slice("GPU-0", "NVIDIA", 5120, 14)
    slices = [
        replace(plain, mig_profile="1g.5gb", mig_placement=MigPlacement(i, 1)) if i < reserved else plain
        for i in range(entries)
    ]
    inventory.set_pod(booking("p", "n1", [(ContainerKind.APP, slices)]))
    (usage,) = inventory.usage("n1")
    case.verdict("healthy", usage.device.healthy, "CardNotHealth")
    assert len(usage.mig_in_use) == case.get("in_use", len(usage.mig_in_use) if case.get("healthy", True) else 0)
    assert usage.used_memory_mib == case.get("booked_mem", usage.used_memory_mib)
    assert usage.used_cores == case.get("booked_cores", usage.used_cores)
