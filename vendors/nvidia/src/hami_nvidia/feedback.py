"""What HAMi v2.10's monitor makes of containers' activity: who waits for whom, whose core limit may rest. Pure.

Each launch sets a container's ``recent_kernel`` to 2, and each look counts it down, so that it is positive for a
container that launched since the look before. While one of a higher priority (a smaller number) is active on one of
its cards, a container is suspended. Its core limit holds while others are active there that it has to share with:
those, or one of its own priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_interpose.feedback import Words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ACTIVE: Final = 2
RESUMED: Final = 0
SUSPENDED: Final = -1

Counts = dict[str, list[int]]
"""Card → number of active containers by priority."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A container, as its slices say it.

    Attributes:
        cards: UUIDs.
        priority: 0 = high.
        limited: Cards on which it has a core limit.
        limit_may_pause: Whether its policy lets the limit rest while nobody else is active.
    """

    cards: frozenset[str]
    priority: int
    limited: frozenset[str] = frozenset()
    limit_may_pause: bool = True


def tenants_to_read(tenants: Mapping[str, Tenant]) -> frozenset[str]:
    """Who has to be looked at: those on a card with a limit that may rest, or with containers of unequal priority."""
    priorities: dict[str, set[int]] = {}
    for tenant in tenants.values():
        for card in tenant.cards:
            priorities.setdefault(card, set()).add(tenant.priority)
    cards = {card for card, found in priorities.items() if len(found) > 1}
    cards.update(*(tenant.limited for tenant in tenants.values() if tenant.limit_may_pause))
    return frozenset(name for name, tenant in tenants.items() if not cards.isdisjoint(tenant.cards))


def feedback(tenants: Mapping[str, Tenant], words: Mapping[str, Words]) -> dict[str, Words]:
    """What to write after one look.

    Args:
        tenants: The containers.
        words: What their regions say; one without is passed over.

    Returns:
        The words as they should be, for each one read.
    """
    counted = {name: _counted_down(found.recent_kernel) for name, found in words.items()}
    counts = _counts(tenants[name] for name, recent in counted.items() if recent > 0)
    wanted = {}
    for name, recent in counted.items():
        tenant = tenants[name]
        waits = is_blocked(tenant.priority, tenant.cards, counts)
        shares = is_contended(tenant.priority, tenant.cards, counts)
        wanted[name] = Words(int(shares), SUSPENDED if waits else max(recent, RESUMED))
    return wanted


def _counted_down(recent: int) -> int:
    """One less, down to 0; the library never writes more than `ACTIVE`, so whoever does is not active for longer."""
    return min(recent, ACTIVE) - 1 if recent > 0 else recent


def _counts(active: Iterable[Tenant]) -> Counts:
    counts: Counts = {}
    for tenant in active:
        for card in tenant.cards:
            row = counts.setdefault(card, [])
            row += [0] * (tenant.priority + 1 - len(row))
            row[tenant.priority] += 1
    return counts


def is_blocked(priority: int, cards: Iterable[str], counts: Mapping[str, Sequence[int]]) -> bool:
    """Whether a container of higher priority is active on one of the cards."""
    return any(any(counts.get(card, ())[:priority]) for card in cards)


def is_contended(priority: int, cards: Iterable[str], counts: Mapping[str, Sequence[int]]) -> bool:
    """Whether a container has to share one of the cards: it waits, or several of its priority are active."""
    cards = tuple(cards)
    rows = [counts[card] for card in cards if card in counts]
    return is_blocked(priority, cards, counts) or any(len(row) > priority and row[priority] > 1 for row in rows)
