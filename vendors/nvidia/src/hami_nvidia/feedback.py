"""The priority and core-limit feedback of HAMi v2.10's monitor, from the activity of containers. Pure.

The library sets a container's ``recent_kernel`` to 2 at each launch, and each look of the agent counts it down. So it
is positive for a container that launched kernels since the previous look: the container is *active*.

- A container is suspended while a container of higher priority (a smaller number) is active on one of its cards.
- Its core limit holds while it is suspended, or while another active container has its own priority. Otherwise the
  limit pauses.
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
"""Number of active containers, by card and then by priority."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A container, as its slices describe it.

    Attributes:
        cards: UUIDs of its cards.
        priority: 0 is the highest.
        limited: Cards on which it has a core limit.
        limit_may_pause: Whether its policy lets the limit pause while no other container is active.
    """

    cards: frozenset[str]
    priority: int
    limited: frozenset[str] = frozenset()
    limit_may_pause: bool = True


def tenants_to_read(tenants: Mapping[str, Tenant]) -> frozenset[str]:
    """The containers whose regions must be read.

    They are on a card with a limit that may pause, or on a card with containers of different priorities.
    """
    priorities: dict[str, set[int]] = {}
    for tenant in tenants.values():
        for card in tenant.cards:
            priorities.setdefault(card, set()).add(tenant.priority)
    cards = {card for card, found in priorities.items() if len(found) > 1}
    cards.update(*(tenant.limited for tenant in tenants.values() if tenant.limit_may_pause))
    return frozenset(name for name, tenant in tenants.items() if not cards.isdisjoint(tenant.cards))


def feedback(tenants: Mapping[str, Tenant], words: Mapping[str, Words]) -> dict[str, Words]:
    """What to write into the regions after one look.

    Args:
        tenants: The containers.
        words: The words that were read from their regions; a container without words is ignored.

    Returns:
        The words to write, for each container with words.
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
    """One less, down to 0. The library writes at most `ACTIVE`; larger values count as `ACTIVE`."""
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
    """Whether a container with a higher priority is active on one of the cards."""
    return any(any(counts.get(card, ())[:priority]) for card in cards)


def is_contended(priority: int, cards: Iterable[str], counts: Mapping[str, Sequence[int]]) -> bool:
    """Whether a container must share one of the cards: it is blocked, or several of its priority are active."""
    cards = tuple(cards)
    rows = [counts[card] for card in cards if card in counts]
    return is_blocked(priority, cards, counts) or any(len(row) > priority and row[priority] > 1 for row in rows)
