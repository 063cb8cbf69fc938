"""Chooses cards by the links between them."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core import Device

POLICY: Final = "topology-aware"
"""The device policy that uses this choice."""

MAX_COMBINATIONS: Final = 20_000
"""Up to this many combinations are all tried, which covers every choice among 16 cards.

With more combinations, cards are added one at a time.
"""


def choose(devices: Sequence[Device], count: int) -> tuple[int, ...]:
    """Pick the best-linked cards among more candidates than needed.

    For one card, pick the one with the lowest sum of pair scores: this keeps well-linked cards together for later pods.
    For several, pick the combination with the greatest sum of pair scores. The first in walk order wins ties. A missing
    score counts as 0.

    Args:
        devices: Candidates in walk order.
        count: How many to pick.

    Returns:
        Positions in ``devices``.
    """
    scores = [[row.pair_scores.get(other.id, 0) for other in devices] for row in devices]
    everyone = range(len(devices))
    if count == 1:
        sums = [sum(scores[i][j] for j in everyone if j != i) for i in everyone]
        return (sums.index(min(sums)),)
    if comb(len(devices), count) > MAX_COMBINATIONS:
        return _grown(scores, count)
    return _best_combination(scores, count)


def _best_combination(scores: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    total = len(scores)
    best: tuple[int, tuple[int, ...]] | None = None
    chosen: list[int] = []

    def extend(start: int, score: int) -> None:
        nonlocal best
        if len(chosen) == count:
            if best is None or score > best[0]:
                best = (score, tuple(chosen))
            return
        for i in range(start, total - (count - len(chosen)) + 1):
            added = sum(scores[j][i] for j in chosen)
            chosen.append(i)
            extend(i + 1, score + added)
            chosen.pop()

    extend(0, 0)
    return best[1] if best else tuple(range(count))


def _grown(scores: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    """Start from the best pair, and add the card with the greatest gain until there are enough cards."""
    total = len(scores)
    pairs = ((scores[i][j], -i, -j) for i in range(total) for j in range(i + 1, total))
    _, first, second = max(pairs)
    chosen = [-first, -second]
    while len(chosen) < count:
        rest = (i for i in range(total) if i not in chosen)
        chosen.append(max(rest, key=lambda i: (sum(scores[min(i, j)][max(i, j)] for j in chosen), -i)))
    return tuple(sorted(chosen))
