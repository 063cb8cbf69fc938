"""Devices of one node: order, score, fit, topology, MIG, against the vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hami_nvidia import links, mig, rules, topology
from hami_nvidia.config import NvidiaConfig
from hami_nvidia.nvml import Card as GpuCard
from hami_nvidia.nvml import Link

from hami_core.model import (
    Allocation,
    Device,
    DeviceKind,
    DeviceUsage,
    MigPlacement,
    MigProfile,
    Request,
    Slice,
    Weights,
)
from hami_core.placement import Card, Plan, device_order, device_score, node_score, place
from hami_core.placement.fit import Ask, walk
from hami_core.policies import DEFAULT_DEVICE_POLICY, PolicyDefaults
from hami_core.wire.node import decode_cordon
from hami_core.wire.quantity import parse_bool_go
from hami_core.wire.reasons import MIG_INFEASIBLE, WORDS

from .cases import Case, cases, head, value
from .placing import UNSET, card, device, node, nvidia_rules, pod, request

if TYPE_CHECKING:
    from hami_core.placement.place import Rejection

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("gpu_less"))
def test_device_order_matches_hami(case: Case) -> None:
    policy = device_order(case.get("policy", ""))
    pair = [card(case[name], position) for position, name in enumerate("ab")]
    for one, name in zip(pair, "ab", strict=True):
        one.score = case[name].get("score", 0)
    keys = [policy.sort_key(one, numa_bind=case.get("numa_bind", False)) for one in pair]
    assert (keys[0] < keys[1]) is case["a_before_b"]


@pytest.mark.parametrize("case", cases("gpu_score"))
def test_device_score_matches_hami(case: Case) -> None:
    """The product scores one request of a container. For none or several, this test adds up the amounts itself."""
    used = case["device"]
    one = card(used)
    device, weights = one.device, Weights(**case.get("weights", {}))
    asked = [request(r) for r in case.get("requests", []) if r.get("type", "NVIDIA") == device.type]
    if len(asked) == 1:
        score = Ask(asked[0], nvidia_rules(), device_order(""), weights).score(one)
    else:
        score = device_score(
            (one.used_slots + len(asked), device.slots),
            (one.used_cores + sum(r.cores for r in asked), device.cores),
            (one.used_memory + sum(r.scored_memory_on(device.memory_mib) for r in asked), device.memory_mib),
            weights,
        )
    assert score == pytest.approx(case["score"], abs=1e-4)


def allocated(case: Case, placed: Allocation | Rejection) -> Allocation:
    """The allocation. A case may expect a refusal as an error."""
    case.verdict("fit", isinstance(placed, Allocation), *(() if isinstance(placed, Allocation) else (placed.short,)))
    assert isinstance(placed, Allocation), f"{case!r}: {placed}"
    return placed


@pytest.mark.parametrize("case", cases("gpu_pick_end_to_end"))
def test_pick_matches_hami(case: Case) -> None:
    """The policy is the cluster's default. If the pod itself names it, it also ranks NUMA nodes, unlike in HAMi."""
    pairs, numa = case.get("pair_scores", {}), case.get("numa", {})
    cards = [
        card(record, i, pair_scores=pairs.get(record["id"], {}), numa=numa.get(record["id"], 0))
        for i, record in enumerate(case.get("devices", case.head.get("devices", [])))
    ]
    asked = pod(
        [],
        [case.get("request", case.head.get("request"))],
        weights=case.get("weights"),
        numa_bind=case.get("numa_bind", False),
    )
    defaults = PolicyDefaults(device_policy=case.get("policy", DEFAULT_DEVICE_POLICY))
    placed = allocated(case, place("n1", {"NVIDIA": cards}, Plan(asked, {"NVIDIA": nvidia_rules()}, defaults)))
    assert [piece.device_id for piece in placed.containers[0].slices] == case["pick"]


@pytest.mark.parametrize("case", cases("node_default_score"))
def test_node_score_matches_hami(case: Case) -> None:
    assert node_score(*node(case.get("devices", [])).totals()) == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("case", cases("nvidia_fit"))
def test_fit_matches_hami(case: Case) -> None:
    """The case gives devices in the order of the search."""
    cordoned = decode_cordon(case.get("node_annos", {}).get("hami.io/device-cordon", ""))
    records = case.get("devices", [])
    cards = [card(r, i, cordoned=r.get("id", f"device-{i}") in cordoned) for i, r in enumerate(records)]
    annotations = case.get("annos", {})
    numa_bind = parse_bool_go(annotations.get("nvidia.com/numa-bind", "")) is True
    asked = request(case["request"], annotations, numa_bind=numa_bind)
    policy = device_order(annotations.get("hami.io/gpu-scheduler-policy", "binpack"))
    fit = walk(cards, Ask(asked, nvidia_rules(), policy, Weights()))
    reason = ", ".join(sorted(f"{n}/{fit.total} {word}" for word, n in fit.counts.items()))
    case.verdict("fit", fit.fits, reason)
    if not fit.fits:
        assert reason == case.get("reason", reason)
        return
    slices = [piece for _, piece in fit.picks]
    assert [piece.device_id for piece in slices] == case.get("pick", [piece.device_id for piece in slices])
    assert [piece.cores for piece in slices] == case.get("result_cores", [piece.cores for piece in slices])
    assert [piece.memory_mib for piece in slices] == case.get("result_mem", [piece.memory_mib for piece in slices])


@pytest.mark.parametrize("case", cases("topology_select"))
def test_topology_matches_hami(case: Case) -> None:
    scores = case.get("pair_scores", {})
    record = {"count": 10, "totalmem": 8000, "totalcore": 100}
    cards = [card(record, i, id=name, pair_scores=scores.get(name, {})) for i, name in enumerate(case["devices"])]
    asked = Request("NVIDIA", case.get("nums", 1))
    fit = walk(cards, Ask(asked, nvidia_rules(), device_order("topology-aware"), Weights()))
    case.verdict("fit", fit.fits, ", ".join(f"{n}/{fit.total} {word}" for word, n in fit.counts.items()))
    picked = [piece.device_id for _, piece in fit.picks]
    if "pick" in case:
        assert picked == case["pick"]
    elif "pick_set" in case:
        assert sorted(picked) == sorted(case["pick_set"])


LEVELS = {
    "P2PLinkSameBoard": 0,
    "P2PLinkSingleSwitch": 10,
    "P2PLinkMultiSwitch": 20,
    "P2PLinkHostBridge": 30,
    "P2PLinkSameCPU": 40,
    "P2PLinkCrossCPU": 50,
}
"""NVML's topology level (``nvmlGpuTopologyLevel_t``) behind each of HAMi's words."""
NUMBERS = {"Single": 1, "Two": 2, "Three": 3, "Four": 4, "Five": 5, "Six": 6}


@pytest.mark.parametrize("case", cases("topology_pair_score"))
def test_pair_score_matches_hami(case: Case) -> None:
    if "points" in case:
        points = dict(case["points"])
        assert points.pop("NVLINK_per_link") == links.NVLINK_POINTS
        assert points.pop("NVLINK_max_links") == links.MAX_NVLINKS
        assert {LEVELS[path]: number for path, number in points.items()} == links.PCIE_POINTS
        return
    there, back = case.get("links_ab", []), case.get("links_ba", [])
    paths = [LEVELS[link] for link in there if link in LEVELS]
    scores, uneven = _scored({(0, 1): _nvlinks(there), (1, 0): _nvlinks(back)}, *paths)
    assert scores["gpu0"]["gpu1"] == scores["gpu1"]["gpu0"] == case.get("score", 0)
    assert bool(uneven) is case.get("asymmetric", False)


def _nvlinks(names: list[str]) -> int:
    return sum(number for name in names for word, number in NUMBERS.items() if name.startswith(word + "NVLINK"))


def _scored(nvlinks: dict[tuple[int, int], int], level: int = -1) -> tuple[dict[str, dict[str, int]], list[Any]]:
    """The link scores that a node publishes for cards with these numbers of NVLinks, by direction."""
    count = max(max(pair) for pair in nvlinks) + 1
    cards = [GpuCard(i, f"gpu{i}", "x", i, 1, f"00000000:0{i}:00.0") for i in range(count)]
    found: dict[str, list[Link]] = {card.uuid: [] for card in cards}
    for (one, other), number in nvlinks.items():
        found[f"gpu{one}"] += [Link(cards[other].bus_id, switch=False)] * number
    return links.pair_scores(cards, lambda _one, _other: level, found)


def _profiles(case: Case) -> tuple[MigProfile, ...]:
    return tuple(
        MigProfile(
            p["name"],
            p.get("memoryMB", 0),
            p.get("core", 0),
            p.get("sliceCount", 0),
            tuple(_place(place) for place in p.get("placements", [])),
        )
        for p in case.head.get("profiles", head("mig_placement")["profiles"])
    )


def _place(entry: Any) -> MigPlacement:
    return MigPlacement(entry.get("start", 0), entry["size"]) if isinstance(entry, dict) else MigPlacement(*entry)


@pytest.mark.parametrize("case", cases("mig_placement"))
def test_mig_placement_matches_hami(case: Case) -> None:
    by_name = {profile.name: profile for profile in _profiles(case)}
    occupied = [_place(place) for place in case.get("occupied", [])]
    if case["op"] == "by_memory":
        _booked(case, Device("GPU-0", 0, 7, case.get("totalmem", 40960), 100, "A100", "NVIDIA", mode=mig.MODE,
                             mig_profiles=tuple(by_name.values())), occupied)  # fmt: skip
        return
    wanted = case.get("profiles", []) if case["op"] == "sequence" else case.get("want", [])
    placed: list[MigPlacement | None] = []
    for name in wanted:
        where = mig.free_placement(by_name[name], [*occupied, *(p for p in placed if p)])
        placed.append(where)
    if case["op"] == "sequence":
        case.verdict("fit", None not in placed, MIG_INFEASIBLE)
        starts = [p and p.start for p in placed]
        assert starts == case.get("starts", starts)
    elif case["op"] == "feasible":
        case.verdict("ok", None not in placed, MIG_INFEASIBLE)
    else:
        raise case.unknown("op")


def _booked(case: Case, device: Device, occupied: list[MigPlacement]) -> None:
    """The MIG instance that the vendor books for an amount or a percentage of memory."""
    asked = request({"mem": case.get("mem", 0), "pct": case.get("pct", UNSET)})
    piece = Slice(device.id, "NVIDIA", asked.memory_on(device.memory_mib), 0)
    found = mig.account(DeviceUsage(device, mig_in_use=tuple(occupied)), piece)
    why = () if isinstance(found, Slice) or found is None else (found.code, found.detail, str(found))
    case.verdict("fit", isinstance(found, Slice), *why)
    if not isinstance(found, Slice):
        assert "fit" in case, f"{case!r}: {why}"
        return
    assert found.mig_profile == case.get("profile", found.mig_profile)
    assert found.mig_placement == (_place(case["placement"]) if "placement" in case else found.mig_placement)
    assert found.memory_mib == case.get("booked_mem", found.memory_mib)
    assert found.cores == case.get("booked_cores", found.cores)


@pytest.mark.parametrize("case", cases("is_mig_request"))
def test_mig_request_matches_hami(case: Case) -> None:
    family = rules.family(NvidiaConfig())
    annotations = {} if case.get("vgpu_mode") is None else {rules.VGPU_MODE: case["vgpu_mode"]}
    asked = Request(case.get("type", "NVIDIA"), 1, annotations=annotations)
    kinds = [DeviceKind("NVIDIA", "NVIDIA-A100", mode) for mode in case.get("device_modes", [])]
    taken = [kind for kind in kinds if rules.check_type(asked, kind, family) is None]
    case.verdict("out", any(kind.mode == mig.MODE for kind in taken), "CardTypeMismatch")


@pytest.mark.parametrize("case", cases("node_fit_and_score"))
def test_node_fit_matches_hami(case: Case) -> None:
    there = node(case.get("devices", []))
    asked = pod(case.get("init", []), case.get("app", []), device_policy=case.get("gpu_policy", ""))
    placed = place("n1", there.cards(["NVIDIA"]), Plan(asked, {"NVIDIA": nvidia_rules()}))
    if "failed" in case:
        assert not isinstance(placed, Allocation)
        assert placed.short == case["failed"]
        return
    found = [[piece.device_id for piece in c.slices] for c in allocated(case, placed).containers]
    assert found == case.get("allocation", found)
    score = node_score(*there.totals())
    assert score == pytest.approx(case.get("score", score), abs=1e-4)


@pytest.mark.parametrize("table", [value("vendors/nvidia.topologyPick"), value("vendors/nvidia.topologyPickNegative")])
def test_topology_pick_of_the_vendor_tables_matches_hami(table: dict[str, Any]) -> None:
    cards = [Card(device({}, i, id=name, pair_scores=row), i) for i, (name, row) in enumerate(table["scores"].items())]
    walked = [c.device for c in reversed(cards)]
    assert [walked[i].id for i in topology.choose(walked, 1)] == [table["one"]]
    assert sorted(walked[i].id for i in topology.choose(walked, 2)) == table["two"]


def test_pair_scores_of_the_vendor_tables_match_hami() -> None:
    points = dict(value("vendors/nvidia.pairScore"))
    assert points.pop("perNVLink") == links.NVLINK_POINTS
    assert points.pop("maxNVLinks") == links.MAX_NVLINKS
    uneven = points.pop("asymmetric")
    assert _scored({(0, 1): 2, (1, 0): 1}) == ({"gpu0": {"gpu1": uneven}, "gpu1": {"gpu0": uneven}}, [("gpu0", "gpu1")])
    assert {LEVELS[f"P2PLink{path}"]: number for path, number in points.items()} == links.PCIE_POINTS
    example = value("vendors/nvidia.pairScoreExample")
    wired = {tuple(map(int, pair.split("-"))): number for pair, number in example["links"].items()}
    both = {pair: number for (a, b), number in wired.items() for pair in ((a, b), (b, a))}
    assert _scored(both) == (example["scores"], [])


def test_reason_words_of_the_vendor_tables_match_hami() -> None:
    logged_only = {"NodeFitPod"}
    assert set(value("vendors/nvidia.pickReasons")) - logged_only <= WORDS
