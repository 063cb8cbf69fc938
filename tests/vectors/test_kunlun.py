"""Kunlun: sizes of vXPUs, choice of cards, scores of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hami_kunlun import plugin, topology

from hami_core.inventory.nodes import FamilyDevices
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    Device,
    DeviceUsage,
    NodeFacts,
    PodRequest,
    Request,
    Slice,
)
from hami_core.placement import Plan, node_score, place
from hami_core.plugins import load

from .cases import Case, cases, rows, value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

pytestmark = pytest.mark.vectors

RULES = {rules.family.word: rules for rules in load({}, only=["kunlun"]).rules()}


def family(word: str, cards: int = 8, memory: int = plugin.CARD_MIB) -> FamilyDevices:
    return FamilyDevices(Device(f"n1-kunlun-{i}", i, 100, memory, 100, word, word) for i in range(cards))


def picked(case: Case, verdict: str, devices: FamilyDevices, request: Request) -> list[int]:
    """Indexes of the cards that placement gives; none if it refuses, as the case may expect."""
    word = request.family
    wanted = PodRequest("u", "ns", "p", (ContainerRequest("c", ContainerKind.APP, (request,)),))
    placed = place("n1", {word: devices.cards()}, Plan(wanted, RULES))
    if not isinstance(placed, Allocation):
        case.verdict(verdict, False, placed.short)
        return []
    case.verdict(verdict, True)
    pieces = placed.containers[0].slices
    return [devices.devices[devices.positions[piece.device_id]].index for piece in pieces]


def select(case: Case) -> list[int]:
    devices = family("kunlun")
    for index in case.get("used", []):
        devices.slots[index] = 1
    return picked(case, "fit", devices, Request("kunlun", case.get("count", 0), memory_percent=100))


@pytest.mark.parametrize("case", cases("kunlun_select"))
def test_cards_match_hami(case: Case) -> None:
    found = select(case)
    assert found == case.get("pick", found)


@pytest.mark.parametrize("case", cases("vendors/kunlun.select"))
def test_vendor_cards_match_hami(case: Case) -> None:
    found = select(case)
    assert found == case.get("out", found)


@pytest.mark.parametrize("row", [*rows("kunlun_trim_memory.cases"), *rows("vendors/kunlun.vxpuTrim")])
def test_sizes_of_parts_match_hami(row: list[int]) -> None:
    asked, size = row
    assert plugin.size_of(asked) == size


@pytest.mark.parametrize("case", cases("vxpu_fit"))
def test_parts_that_share_a_card_match_hami(case: Case) -> None:
    devices = family("XPU", 1, case.get("totalmem", 0))
    devices.slots[0], devices.memory[0] = case.get("used", 0), case.get("usedmem", 0)
    picked(case, "ok", devices, Request("XPU", 1, case.get("mem", 0)))


@pytest.mark.parametrize("row", [*rows("kunlun_fragmentation.count"), *rows("vendors/kunlun.countbubble")])
def test_fragmentation_matches_hami(row: list[Any]) -> None:
    used, tasks = row
    assert topology.fragmentation(used) == tasks


@pytest.mark.parametrize("case", [*cases("kunlun_fragmentation.score"), *cases("vendors/kunlun.score")])
def test_score_matches_hami(case: Case) -> None:
    found = topology.score(case.get("prev", []), case.get("cur", []))
    assert found == case.get("score", found)


def score(used: Iterable[int], containers: Sequence[Sequence[int]], policy: str) -> float:
    """What the vendor adds to the score of a node."""
    usages = tuple(DeviceUsage(d, used_slots=int(d.index in set(used))) for d in family("kunlun").devices)
    parts = tuple(
        ContainerSlices(f"c{n}", ContainerKind.APP, tuple(Slice(f"n1-kunlun-{i}", "kunlun", 0, 0) for i in cards))
        for n, cards in enumerate(containers)
    )
    ask = RULES["kunlun"].score_node
    assert ask is not None
    return ask(NodeFacts("n1"), Allocation("n1", parts), policy, usages)


@pytest.mark.parametrize("case", cases("kunlun_fragmentation.node_totals"))
def test_node_totals_match_hami(case: Case) -> None:
    """Under ``spread`` the smallest score wins. HAMi adds the same number there, so it prefers the worst node."""
    used, containers = case.get("prev_used", []), case.get("containers", [])
    base = node_score((len(used), 8), (0, 100), (0, 100))
    assert base + score(used, containers, "binpack") == case.get("total", 0)
    assert score(used, containers, "spread") == -score(used, containers, "binpack")


def numbers(group: str) -> tuple[int, ...]:
    return tuple(map(int, group.split("-")))


def test_links_match_hami() -> None:
    found: dict[str, Any] = {
        "interGroup": value("vendors/kunlun.interGroup"),
        "quadGroups": value("vendors/kunlun.quadGroups"),
        "inGroup": value("vendors/kunlun.inGroup"),
    }
    ours = {"interGroup": topology.PAIRS, "quadGroups": topology.QUADS, "inGroup": topology.WING_PAIRS}
    assert {name: tuple(map(numbers, groups)) for name, groups in found.items()} == ours


def test_tasks_to_fill_a_wing_match_hami() -> None:
    found = value("vendors/kunlun.getvalue")
    assert {str(used): tasks for used, tasks in enumerate(topology.TASKS_TO_FILL)} == found
