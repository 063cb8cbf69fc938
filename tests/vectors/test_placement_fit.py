"""Devices of one node: order, score, fit, topology, MIG, against the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from hami_nvidia import links, mig, rules, topology
from hami_nvidia.config import NvidiaConfig
from hami_nvidia.nvml import Card as GpuCard
from hami_nvidia.nvml import Link

from hami_core.model import Allocation, DeviceKind, MigPlacement, MigProfile, Request, Weights
from hami_core.placement import Card, Plan, device_policy, device_score, node_score, place
from hami_core.placement.fit import Ask, walk
from hami_core.wire.node import decode_cordon
from hami_core.wire.quantity import parse_bool_go
from hami_core.wire.reasons import WORDS

from .cases import Case, cases, head, value
from .placing import card, device, nvidia_rules, pod, request

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("gpu_less"))
def test_device_order(case: Case) -> None:
    policy = device_policy(case["policy"])
    keys = [
        policy.sort_key(card(case[name], position), case[name].get("score", 0), numa_bind=case.get("numa_bind", False))
        for position, name in enumerate("ab")
    ]
    assert (keys[0] < keys[1]) is case["a_before_b"]


@pytest.mark.parametrize("case", cases("gpu_score"))
def test_device_score(case: Case) -> None:
    one = device(case["device"], 0)
    asked = [request(r) for r in case["requests"] if r["type"] == one.type]
    used = case["device"]
    score = device_score(
        (used.get("used", 0) + len(asked), one.slots),
        (used.get("usedcores", 0) + sum(r.cores for r in asked), one.cores),
        (used.get("usedmem", 0) + sum(r.memory_on(one.memory_mib) for r in asked), one.memory_mib),
        Weights(**case["weights"]),
    )
    assert score == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("case", cases("gpu_pick_end_to_end"))
def test_pick(case: Case) -> None:
    pairs, numa = case.get("pair_scores", {}), case.get("numa", {})
    cards = [
        card(record, i, pair_scores=pairs.get(record["id"], {}), numa=numa.get(record["id"], 0))
        for i, record in enumerate(case.head["devices"])
    ]
    asked = pod(
        [],
        [case.head["request"]],
        device_policy=case["policy"],
        weights=case["weights"],
        numa_bind=case.get("numa_bind", False),
    )
    placed = place("n1", {"NVIDIA": cards}, Plan(asked, {"NVIDIA": nvidia_rules()}))
    assert isinstance(placed, Allocation)
    assert [piece.device_id for piece in placed.containers[0].slices] == case["pick"]


@pytest.mark.parametrize("case", cases("node_default_score"))
def test_node_score(case: Case) -> None:
    cards = [card(record) for record in case["devices"]]
    score = node_score(
        (sum(c.used_slots for c in cards), sum(c.device.slots for c in cards)),
        (sum(c.used_cores for c in cards), sum(c.device.cores for c in cards)),
        (sum(c.used_memory for c in cards), sum(c.device.memory_mib for c in cards)),
    )
    assert score == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("case", cases("nvidia_fit"))
def test_fit(case: Case) -> None:
    """Devices are given in walk order already."""
    cordoned = decode_cordon(case.get("node_annos", {}).get("hami.io/device-cordon", ""))
    cards = [card(r, i, cordoned=r["id"] in cordoned) for i, r in enumerate(case["devices"])]
    annotations = case["annos"]
    numa_bind = parse_bool_go(annotations.get("nvidia.com/numa-bind", "")) is True
    asked = request(case["request"], annotations, numa_bind=numa_bind)
    policy = device_policy(annotations.get("hami.io/gpu-scheduler-policy", "binpack"))
    fit = walk(cards, Ask(asked, nvidia_rules(), policy, Weights()))
    assert fit.fits is case["fit"]
    if not fit.fits:
        assert ", ".join(sorted(f"{n}/{fit.total} {word}" for word, n in fit.counts.items())) == case["reason"]
        return
    slices = [piece for _, piece in fit.picks]
    assert [piece.device_id for piece in slices] == case.get("pick", [piece.device_id for piece in slices])
    assert [piece.cores for piece in slices] == case.get("result_cores", [piece.cores for piece in slices])
    assert [piece.memory_mib for piece in slices] == case.get("result_mem", [piece.memory_mib for piece in slices])


@pytest.mark.parametrize("case", cases("topology_select"))
def test_topology(case: Case) -> None:
    scores = case["pair_scores"]
    record = {"count": 10, "totalmem": 8000, "totalcore": 100}
    cards = [card(record, i, id=name, pair_scores=scores.get(name, {})) for i, name in enumerate(case["devices"])]
    fit = walk(cards, Ask(Request("NVIDIA", case["nums"]), nvidia_rules(), device_policy("topology-aware"), Weights()))
    picked = [piece.device_id for _, piece in fit.picks]
    if "pick" in case:
        assert picked == case["pick"]
    else:
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
def test_pair_score(case: Case) -> None:
    if "points" in case:
        points = dict(case["points"])
        assert points.pop("NVLINK_per_link") == links.NVLINK_POINTS
        assert points.pop("NVLINK_max_links") == links.MAX_NVLINKS
        assert {LEVELS[path]: number for path, number in points.items()} == links.PCIE_POINTS
        return
    paths = [LEVELS[link] for link in case["links_ab"] if link in LEVELS]
    scores, uneven = _scored({(0, 1): _nvlinks(case["links_ab"]), (1, 0): _nvlinks(case["links_ba"])}, *paths)
    assert scores["gpu0"]["gpu1"] == scores["gpu1"]["gpu0"] == case["score"]
    assert bool(uneven) is case["asymmetric"]


def _nvlinks(names: list[str]) -> int:
    return sum(number for name in names for word, number in NUMBERS.items() if name.startswith(word + "NVLINK"))


def _scored(nvlinks: dict[tuple[int, int], int], level: int = -1) -> tuple[dict[str, dict[str, int]], list[Any]]:
    """What the node publishes for cards with these numbers of NVLinks, by direction."""
    count = max(max(pair) for pair in nvlinks) + 1
    cards = [GpuCard(i, f"gpu{i}", "x", i, 1, f"00000000:0{i}:00.0") for i in range(count)]
    found: dict[str, list[Link]] = {card.uuid: [] for card in cards}
    for (one, other), number in nvlinks.items():
        found[f"gpu{one}"] += [Link(cards[other].bus_id, switch=False)] * number
    return links.pair_scores(cards, lambda _one, _other: level, found)


def _profiles() -> tuple[MigProfile, ...]:
    return tuple(
        MigProfile(
            p["name"],
            p["memoryMB"],
            p["core"],
            p["sliceCount"],
            tuple(MigPlacement(**place) for place in p["placements"]),
        )
        for p in head("mig_placement")["profiles"]
    )


@pytest.mark.parametrize("case", cases("mig_placement"))
def test_mig_placement(case: Case) -> None:
    by_name = {profile.name: profile for profile in _profiles()}
    occupied = [MigPlacement(**place) for place in case.get("occupied", [])]
    if case["op"] == "by_memory":
        found = mig.smallest_instance(_profiles(), occupied, case["mem"])
        assert (found is not None) is case.get("fit", True)
        if found is not None:
            assert found[0].name == case["profile"]
            assert found[1] == MigPlacement(**case["placement"])
        return
    wanted = case["profiles"] if case["op"] == "sequence" else case["want"]
    placed: list[MigPlacement | None] = []
    for name in wanted:
        where = mig.free_placement(by_name[name], [*occupied, *(p for p in placed if p)])
        placed.append(where)
    if case["op"] == "sequence":
        assert [p and p.start for p in placed] == case["starts"]
    elif case["op"] == "feasible":
        assert (None not in placed) is case["ok"]
    else:
        raise case.unknown("op")


@pytest.mark.parametrize("case", cases("is_mig_request"))
def test_mig_request(case: Case) -> None:
    family = rules.family(NvidiaConfig())
    annotations = {} if case["vgpu_mode"] is None else {rules.VGPU_MODE: case["vgpu_mode"]}
    asked = Request(case["type"], 1, annotations=annotations)
    kinds = [DeviceKind("NVIDIA", "NVIDIA-A100", mode) for mode in case["device_modes"]]
    taken = [kind for kind in kinds if rules.check_type(asked, kind, family) is None]
    assert any(kind.mode == mig.MODE for kind in taken) is case["out"]


@pytest.mark.parametrize("case", cases("node_fit_and_score"))
def test_node_fit(case: Case) -> None:
    cards = [card(record, i) for i, record in enumerate(case["devices"])]
    totals = node_score(
        (0, sum(c.device.slots for c in cards)),
        (sum(c.used_cores for c in cards), sum(c.device.cores for c in cards)),
        (sum(c.used_memory for c in cards), sum(c.device.memory_mib for c in cards)),
    )
    plan = Plan(pod(case["init"], case["app"], device_policy=case["gpu_policy"]), {"NVIDIA": nvidia_rules()})
    placed = place("n1", {"NVIDIA": cards}, plan)
    if not isinstance(placed, Allocation):
        assert placed.short == case["failed"]
        return
    assert [[piece.device_id for piece in c.slices] for c in placed.containers] == case["allocation"]
    assert totals == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("table", [value("vendors/nvidia.topologyPick"), value("vendors/nvidia.topologyPickNegative")])
def test_topology_pick_of_the_vendor_tables(table: dict[str, Any]) -> None:
    cards = [Card(device({}, i, id=name, pair_scores=row), i) for i, (name, row) in enumerate(table["scores"].items())]
    walked = [c.device for c in reversed(cards)]
    assert [walked[i].id for i in topology.choose(walked, 1)] == [table["one"]]
    assert sorted(walked[i].id for i in topology.choose(walked, 2)) == table["two"]


def test_pair_scores_of_the_vendor_tables() -> None:
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


def test_reason_words_of_the_vendor_tables() -> None:
    logged_only = {"NodeFitPod"}
    assert set(value("vendors/nvidia.pickReasons")) - logged_only <= WORDS
