"""The effect of a namespace's quota on one Filter, computed once instead of node by node if that is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hami_core.model import ContainerKind
from hami_core.placement.pod_usage import Amounts
from hami_core.placement.quota import Room

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory.table import Table
    from hami_core.placement.fit import Ask
    from hami_core.placement.quota import QuotaBook


@dataclass(slots=True)
class QuotaVerdict:
    """The effect of the quota on a pod.

    Attributes:
        walk: The quota may refuse the pod on some nodes only, so each node has to be walked.
        hopeless: The quota refuses the pod on every node.
        admitted: Number of a request → how many cards the quota admits. Only requests that get fewer cards than they
            need, the same number on every node.
        room: The room that is left, for a pod that asks for one card and nothing else. Each card is checked against it.
    """

    walk: bool = False
    hopeless: bool = False
    admitted: dict[int, int] = field(default_factory=dict)
    room: Room = field(default_factory=Room)


def judge(
    asks: Sequence[tuple[ContainerKind, Ask]], namespace: str, quota: QuotaBook, tables: Mapping[str, Table]
) -> QuotaVerdict:
    """Compute the effect of the quota on a pod.

    Args:
        asks: The pod's requests in order, with the kinds of their containers.
        namespace: Its namespace.
        quota: Limits and usage.
        tables: The cluster's tables.
    """
    verdict = QuotaVerdict()
    for word in dict.fromkeys(ask.rules.family.word for _, ask in asks):
        room = quota.room(namespace, word)
        own = [(i, kind, ask) for i, (kind, ask) in enumerate(asks) if ask.rules.family.word == word]
        if room.is_unlimited or word not in tables:
            continue
        table = tables[word]
        if len(asks) == 1 and own[0][2].request.count == 1 and not table.vendor_accounted.any():
            verdict.room = room
        elif _is_exact(own, table):
            _count_admitted(verdict, own, room)
        else:
            _bound(verdict, own, room, table)
    return verdict


def _is_exact(own: Sequence[tuple[int, ContainerKind, Ask]], table: Table) -> bool:
    """Whether the pod takes the same amounts on any cards: absolute sizes, and no init container beside others."""
    lone_or_staying = len(own) == 1 or all(kind is not ContainerKind.INIT for _, kind, _ in own)
    sized = all(ask.request.memory_mib > 0 or ask.request.memory_percent is None for _, _, ask in own)
    return lone_or_staying and sized and not bool(table.vendor_accounted.any())


def _count_admitted(verdict: QuotaVerdict, own: Sequence[tuple[int, ContainerKind, Ask]], room: Room) -> None:
    taken = [0, 0, 0]
    for number, _, ask in own:
        count = ask.request.count
        for i, (left, amount) in enumerate(zip(room, Amounts(ask.request.memory_mib, ask.cores, 1), strict=True)):
            if left is not None and taken[i] + count * amount > left:
                cards = max(left - taken[i], 0) // amount if amount else 0
                verdict.admitted[number] = min(cards, verdict.admitted.get(number, cards))
                verdict.hopeless = True
            taken[i] += count * amount


def _bound(
    verdict: QuotaVerdict,
    own: Sequence[tuple[int, ContainerKind, Ask]],
    room: Room,
    table: Table,
) -> None:
    largest = int(table.total_memory.max(initial=0))
    # A MIG instance may book more memory and fewer cores than the request says.
    vendor_accounted = bool(table.vendor_accounted.any())
    most = [0, 0, 0]
    for _, _, ask in own:
        request, count = ask.request, ask.request.count
        amounts = Amounts(count * request.memory_on(largest), count * ask.cores, count)
        least = Amounts(count * request.memory_mib, ask.cores if vendor_accounted else count * ask.cores, count)
        for i, left in enumerate(room):
            most[i] += amounts[i]
            if left is not None and least[i] > left:
                verdict.hopeless = True
            if left is not None and (most[i] > left or vendor_accounted):
                verdict.walk = True
