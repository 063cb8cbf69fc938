"""The short form: one pod runs with its slice, two pods share a card, and one pod does not fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.errors import ApiRefused
from tests.e2e.pods import FILL, LOOK, before, container, pod, sidecar

if TYPE_CHECKING:
    from tests.e2e.system import System

pytestmark = pytest.mark.smoke
MIB = 1 << 20


def filled(system: System, name: str) -> dict[str, Any]:
    """The report of a `FILL` program about its one card."""
    lines = [line for line in system.log(name).splitlines() if line.startswith("{")]
    (card,) = json.loads(lines[-1])["devices"]
    return dict(card)


def test_a_slice_is_enforced_in_a_real_container(clean: System) -> None:
    clean.submit(pod("alice", container(memory=3000, cores=30, command=FILL)))
    clean.running("alice")
    assert clean.problems("alice") == []
    card = filled(clean, "alice")
    assert card["total_bytes"] == 3000 * MIB
    assert card["allocated_bytes"] <= 3000 * MIB
    assert card["allocated_bytes"] > 2000 * MIB, "and it can be used"


def test_two_pods_share_a_card(clean: System) -> None:
    packed = {"hami.io/gpu-scheduler-policy": "binpack"}
    for name, memory in (("left", 10000), ("right", 20000)):
        clean.submit(pod(name, container(memory=memory, command=FILL), annotations=packed, node="node1"))
    left, right = clean.running("left", "right")
    assert clean.problems("left", "right") == []
    uuids = {filled(clean, name)["uuid"] for name in ("left", "right")}
    assert len(uuids) == 1, "binpack puts both on one card"
    assert left["spec"]["nodeName"] == right["spec"]["nodeName"] == "node1"


def test_init_sidecar_and_main_container_get_different_slices(clean: System) -> None:
    clean.submit(
        pod(
            "dave",
            container("one", 2000),
            container("two", 3000, count=2),
            init=before(clean.bed.tools.minor, container("look", 500, command=LOOK), sidecar("beside", 700)),
        )
    )
    clean.running("dave")
    assert clean.problems("dave") == []


def test_what_fits_nowhere_says_why(clean: System) -> None:
    clean.submit(pod("carol", container(memory=200000)))
    said = clean.bed.wait(
        "a reason in kubectl describe",
        lambda: text if "CardInsufficientMemory" in (text := clean.bed.kubectl("describe", "pod", "carol")) else None,
    )
    assert "200000 MiB" in said, said


def test_a_whole_card_has_no_interposer(clean: System) -> None:
    clean.submit(pod("erin", container(memory=None)))
    clean.running("erin")
    assert clean.problems("erin") == []


def test_negative_amount_is_refused_by_resource_name(clean: System) -> None:
    with pytest.raises(ApiRefused, match=r"nvidia.com/gpumem"):
        clean.submit(pod("mallory", container(memory=-1)))
