"""What a namespace's quota means for one Filter, worked out once instead of node by node where that is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hami_core.model import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory.table import Table
    from hami_core.placement.fit import Ask
    from hami_core.placement.quota import QuotaBook


@dataclass(slots=True)
class QuotaVerdict:
    """What the quota does to a pod.

    Attributes:
        walk: It may refuse on some nodes and not on others: each has to be walked.
        hopeless: It refuses on every node.
        admitted: Per request of the pod, how many cards the quota lets it take, where that is the same everywhere and
            fewer than it asks for.
        rooms: MiB and percent left for a pod that asks for one card and nothing else: a check on each card alone.
    """

    walk: bool = False
    hopeless: bool = False
    admitted: dict[int, int] = field(default_factory=dict)
    rooms: tuple[int | None, int | None] = (None, None)


def judge(
    asks: Sequence[tuple[ContainerKind, Ask]], namespace: str, quota: QuotaBook, tables: Mapping[str, Table]
) -> QuotaVerdict:
    """Work out what the quota does to a pod.

    Args:
        asks: The pod's requests in order, with their containers' kinds.
        namespace: Its namespace.
        quota: Limits and usage.
        tables: The cluster's tables.
    """
    verdict = QuotaVerdict()
    words = dict.fromkeys(ask.rules.family.word for _, ask in asks if ask.rules.family.checks_quota_in_fit)
    for word in words:
        rooms = quota.room(namespace, word)
        own = [(i, kind, ask) for i, (kind, ask) in enumerate(asks) if ask.rules.family.word == word]
        if rooms == (None, None) or word not in tables:
            continue
        table = tables[word]
        if len(asks) == 1 and own[0][2].request.count == 1 and not table.odd.any():
            verdict.rooms = rooms
        elif _is_exact(own, table):
            _count_admitted(verdict, own, rooms)
        else:
            _bound(verdict, own, rooms, table)
    return verdict


def _is_exact(own: Sequence[tuple[int, ContainerKind, Ask]], table: Table) -> bool:
    """Whether the pod takes the same amounts on whatever cards: absolute sizes, no init container beside others."""
    lone_or_staying = len(own) == 1 or all(kind is not ContainerKind.INIT for _, kind, _ in own)
    sized = all(ask.request.memory_mib > 0 or ask.request.memory_percent is None for _, _, ask in own)
    return lone_or_staying and sized and not bool(table.odd.any())


def _count_admitted(
    verdict: QuotaVerdict, own: Sequence[tuple[int, ContainerKind, Ask]], rooms: tuple[int | None, int | None]
) -> None:
    taken = [0, 0]
    for number, _, ask in own:
        count = ask.request.count
        for i, amount in enumerate((ask.request.memory_mib, ask.cores)):
            room = rooms[i]
            if room is not None and taken[i] + count * amount > room:
                left = room - taken[i]
                cards = max(left, 0) // amount if amount and left >= 0 else 0
                verdict.admitted[number] = min(cards, verdict.admitted.get(number, cards))
                verdict.hopeless = True
            taken[i] += count * amount


def _bound(
    verdict: QuotaVerdict,
    own: Sequence[tuple[int, ContainerKind, Ask]],
    rooms: tuple[int | None, int | None],
    table: Table,
) -> None:
    largest = int(table.total_memory.max(initial=0))
    odd = bool(table.odd.any())  # an instance may book more memory and fewer cores than were asked for
    most = [0, 0]
    for _, _, ask in own:
        request = ask.request
        amounts = (request.count * request.memory_on(largest), request.count * ask.cores)
        least = (request.count * request.memory_mib, ask.cores if odd else request.count * ask.cores)
        for i, room in enumerate(rooms):
            most[i] += amounts[i]
            if room is not None and least[i] > room:
                verdict.hopeless = True
            if room is not None and (most[i] > room or odd):
                verdict.walk = True
