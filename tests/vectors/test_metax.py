"""MetaX: node scores, who may share a card, the sGPU register and the text of its memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hami_metax import gpus, memory, register, sgpus, sharing, topology

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
    Request,
    Slice,
)
from hami_core.plugins import load

from .cases import Case, cases, value

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.vectors

MODES = {"online": sharing.ONLINE, "offline": f"{sharing.OFFLINE}+{sharing.BEST_EFFORT}"}


def card(name: str, zone: int = 0, *, used: int = 0, modes: Iterable[str] = ()) -> DeviceUsage:
    slices = tuple(Slice(name, sgpus.WORD, 1024, 0, mode=mode) for mode in modes)
    device = Device(name, 0, 16, 65536, 100, "C500", sgpus.WORD, custom={topology.LINK_ZONE: zone})
    return DeviceUsage(device, used_slots=used or len(slices), slices=slices)


def allocation(mode: str, *names: str) -> Allocation:
    pieces = tuple(Slice(name, sgpus.WORD, 65536, 0 if mode == sharing.ONLINE else 100, mode=mode) for name in names)
    return Allocation("n1", (ContainerSlices("c", ContainerKind.APP, pieces),))


def link_score(cards: list[DeviceUsage], picks: list[str]) -> float:
    mode = f"{sharing.BEST_EFFORT}+{sharing.LINKED}"
    return sgpus.score(allocation(mode, *picks), cards, "binpack") / sgpus.WEIGHT


@pytest.mark.parametrize("case", cases("metax_sgpu_scores.exclusive"))
def test_whole_cards_score_as_in_hami(case: Case) -> None:
    cards = [card(name, zone, used=used) for name, zone, used in case["zones"]]
    assert link_score(cards, case["picks"]) == case["score"]


@pytest.mark.parametrize("case", cases("vendors/metaxLinkScore"))
def test_links_score_as_in_hami(case: Case) -> None:
    names = [str(number) for number in range(case["freeSameZone"])]
    assert link_score([card(name, 1) for name in names], names[: case["alloc"]]) == case["score"]


@pytest.mark.parametrize("case", [*cases("metax_sgpu_scores.online"), *cases("vendors/metaxOnlineScore")])
def test_online_pods_score_as_in_hami(case: Case) -> None:
    there = [mode for word, mode in MODES.items() for _ in range(case[word])]
    found = sgpus.score(allocation(sharing.ONLINE, "one"), [card("one", modes=there)], "binpack")
    assert found / sgpus.WEIGHT == case["score"]


@pytest.mark.parametrize("case", cases("metax_sgpu_scores.qos"))
def test_qos_policies_share_a_card_as_in_hami(case: Case) -> None:
    """A card's own report and the containers on it say the same here."""
    used, policy = case["used"], case["device"]
    request = Request(sgpus.WORD, 1, cores=case["cores"], mode=case["request"])
    for shared_as in (policy, "unknown"):
        kind = DeviceKind(sgpus.WORD, "C500", policy, shared_as=shared_as if used else "")
        refused = sharing.mismatch(request, kind)
        case.verdict("ok", refused is None, *([refused.code] if refused else []))


@pytest.mark.parametrize("case", cases("node_override_score"))
def test_node_scores_match_hami(case: Case) -> None:
    policy = case["policy"]
    if case["vendor"] == sgpus.WORD:
        assert sgpus.weighted(case["raw"], policy) == case["added"]
        return
    assert case["vendor"] == gpus.WORD
    counts = case.get("containers_device_counts", [])
    parts = tuple(
        ContainerSlices(f"c{at}", ContainerKind.APP, tuple(Slice(f"{at}-{n}", gpus.WORD, 65536, 100) for n in range(m)))
        for at, m in enumerate(counts)
    )
    node = NodeFacts("n1", case.get("node_annotations", {}))
    assert gpus.score(node, Allocation("n1", parts), policy) == case["added"]


@pytest.mark.parametrize("case", cases("vendors/metaxVmemory"))
def test_vmemory_is_read_as_in_hami(case: Case) -> None:
    name = "metax-tech.com/vmemory"
    spec = ContainerSpec("c", ContainerKind.APP, {} if case["in"] is None else {name: case["in"]})
    if case.get("reject"):
        with pytest.raises(RequestError, match=name):
            memory.vmemory_mib(spec, name)
        return
    found = memory.vmemory_mib(spec, name)
    assert (found, 0 if found else 100) == (case["mem"], case["pct"])


def test_the_sgpu_register_has_hamis_key_and_fields() -> None:
    told = value("vendors/metaxSgpuNodeAnnotation")
    assert told["key"] == register.REGISTER_KEY
    entry: dict[str, Any] = dict.fromkeys(told["fields"], 16)
    words = {"uuid": "GPU-1", "bdf": "0000:38:00.0", "model": "C500", "qosPolicy": "fixed-share", "healthy": True}
    assert words.keys() <= entry.keys()
    node = NodeFacts("n1", {told["key"]: json.dumps([entry | words])})
    (found,) = load({}, only=["metax"]).vendor("metax").register(node) or ()
    assert (found.id, found.slots, found.cores, found.memory_mib, found.numa) == ("GPU-1", 16, 16, 16, 16)
    assert (found.type, found.mode, found.healthy, found.custom) == ("C500", "fixed-share", True, {"linkZone": 16})
