"""Hard and soft split never share an NPU, and vNPUs never need more AI cores or AI CPUs than the chip has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hami_core.inventory import Inventory
from hami_core.model import Allocation, ContainerKind, ContainerRequest, ContainerSpec, NodeFacts, PodFacts, PodRequest
from hami_core.plugins import load

if TYPE_CHECKING:
    from collections.abc import Mapping

B2, B3 = "Ascend910B2", "Ascend910B3"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
LOADED = load({}, only=["ascend"])


def inventory(word: str = B3, npus: int = 1) -> Inventory:
    """An inventory with one node that can do soft split."""
    entries = [
        {"id": f"d{i}", "index": i, "count": 10, "devmem": 65536, "devcore": 20, "type": word, "health": True}
        for i in range(npus)
    ]
    annotations = {f"hami.io/node-register-{word}": json.dumps(entries), "hami-vnpu-core": "true"}
    facts = NodeFacts("n1", annotations, allocatable={f"huawei.com/{word}": "99"})
    made = Inventory(LOADED.rules())
    made.set_node(facts, LOADED.register(facts).devices)
    return made


def pod(name: str, *memory: int, word: str = B3, annotations: Mapping[str, str] = {}, init: int = 0) -> PodRequest:
    """A pod with one container for each amount of memory, after an init container with ``init`` MiB."""
    facts = PodFacts("ns", name, name, annotations)
    parts = []
    for kind, amounts in ((ContainerKind.INIT, [init] if init else []), (ContainerKind.APP, memory)):
        for n, amount in enumerate(amounts):
            limits = {f"huawei.com/{word}": "1", f"huawei.com/{word}-memory": str(amount)}
            asked = LOADED.parse(ContainerSpec(f"{kind}{n}", kind, limits), facts)
            parts.append(ContainerRequest(f"{kind}{n}", kind, asked))
    return PodRequest(name, "ns", name, tuple(parts))


def fits(books: Inventory, request: PodRequest) -> bool:
    """Whether a pod gets its NPUs. Filter and Bind agree."""
    by_filter = bool(books.filter(request, ["n1"]).best)
    booked = books.book(request, "n1")
    assert isinstance(booked, Allocation) is by_filter
    return by_filter


@pytest.mark.parametrize(("first", "second"), [({}, SOFT), (SOFT, {})])
def test_second_way_of_sharing_takes_another_npu(first, second):
    books = inventory(npus=2)
    assert fits(books, pod("a", 16384, annotations=first))
    placed = books.book(pod("b", 16384, annotations=second), "n1")
    assert isinstance(placed, Allocation)
    used = [usage for usage in books.usage("n1") if usage.used_slots]
    assert [len({piece.mode for piece in usage.slices}) for usage in used] == [1, 1]


@pytest.mark.parametrize(("first", "second", "told"), [({}, SOFT, "hard split"), (SOFT, {}, "soft split")])
def test_second_way_of_sharing_is_refused_on_the_last_npu(first, second, told):
    books = inventory()
    assert fits(books, pod("a", 16384, annotations=first))
    other = pod("b", 16384, annotations=second)
    assert books.filter(other, ["n1"]).refused["n1"] == "1/1 ModeNotFit"
    assert f"1 used in {told}" in books.explain_text(other)
    assert fits(books, pod("c", 16384, annotations=first))


def test_npu_takes_any_way_of_sharing_again_once_it_is_idle():
    books = inventory()
    assert fits(books, pod("a", 16384))
    books.remove_pod("a")
    assert fits(books, pod("b", 16384, annotations=SOFT))
    assert books.drift() == 0


def test_hold_of_another_way_of_sharing_is_not_booked():
    """A hold is displaced by a Bind; when the hold is bound itself, its NPU is no longer free for it."""
    books = inventory()
    held = pod("held", 16384, annotations=SOFT)
    books.hold(held, "n1", until=10.0)
    assert isinstance(books.book(pod("b", 65536), "n1"), Allocation)
    assert not isinstance(books.book(held, "n1"), Allocation)


def test_containers_of_one_pod_share_an_npu():
    assert fits(inventory(), pod("a", 16384, 16384, annotations=SOFT))


def test_910b2_gives_no_more_vnpus_than_it_has_ai_cpus():
    books = inventory(B2)
    assert [fits(books, pod(f"p{n}", 8192, word=B2)) for n in range(8)] == [True] * 6 + [False] * 2
    assert books.filter(pod("q", 8192, word=B2), ["n1"]).refused["n1"] == "1/1 CardInsufficientCore"
    assert fits(inventory(B2), pod("soft", *[8192] * 8, word=B2, annotations=SOFT))


def test_910b2_counts_each_vnpus_own_ai_cpus():
    books = inventory(B2)
    assert fits(books, pod("a", 32768, word=B2))
    assert [fits(books, pod(f"p{n}", 8192, word=B2)) for n in range(4)] == [True] * 3 + [False]


def test_vnpu_of_an_ended_init_container_frees_its_ai_cpus():
    books = inventory(B2)
    request = pod("a", 8192, word=B2, init=32768)
    placed = books.book(request, "n1")
    assert isinstance(placed, Allocation)
    assert sum(fits(books, pod(f"p{n}", 8192, word=B2)) for n in range(4)) == 2
    (booking,) = [found for found in books.bookings() if found.uid == "a"]
    books.set_pod(booking, init_done=True)
    assert sum(fits(books, pod(f"q{n}", 8192, word=B2)) for n in range(4)) == 3
    assert books.drift() == 0


@pytest.mark.parametrize("word", ["Ascend310P", "Ascend910A", B3, "Ascend910B4", "Ascend910B4-1", "Ascend910C"])
def test_memory_limits_other_chips_first(word):
    """So only the 910B2's nodes need a call for each NPU; nodes of other chips are placed by vector code."""
    (rules,) = [r for r in LOADED.rules() if r.family.word == word]
    assert rules.family.account_modes == frozenset()
