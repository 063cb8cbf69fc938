"""Pair scores: how well two cards are linked. HAMi publishes them in `hami.io/node-nvidia-score`."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_nvidia.nvml import Card, Link

PCIE_POINTS: Final = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
"""Points for the path between two cards, by NVML's topology level. All numbers in this module are HAMi v2.10's.

The levels are: same board, one switch, several switches, host bridge, same CPU, across CPUs.
"""
NVLINK_POINTS: Final = 100
"""Points for each NVLink."""
MAX_NVLINKS: Final = 18
"""Most NVLinks of a card. A larger count is implausible and scores nothing."""


def pair_scores(
    cards: Sequence[Card], level: Callable[[str, str], int], links: Mapping[str, Sequence[Link]]
) -> tuple[dict[str, dict[str, int]], list[tuple[str, str]]]:
    """Score every pair of cards.

    Args:
        cards: The node's cards.
        level: NVML's topology level of a pair.
        links: Active NVLinks by card.

    Returns:
        Scores by card and peer, and the pairs whose two directions have different counts. Such a pair scores 0.
    """
    scores: dict[str, dict[str, int]] = {card.uuid: {} for card in cards}
    uneven: list[tuple[str, str]] = []
    for one, other in combinations(cards, 2):
        there, back = _count(one, other, links), _count(other, one, links)
        if there != back:
            uneven.append((one.uuid, other.uuid))
            score = 0
        else:
            nvlinks = there if there <= MAX_NVLINKS else 0
            score = PCIE_POINTS.get(level(one.uuid, other.uuid), 0) + NVLINK_POINTS * nvlinks
        scores[one.uuid][other.uuid] = scores[other.uuid][one.uuid] = score
    return scores, uneven


def _count(one: Card, other: Card, links: Mapping[str, Sequence[Link]]) -> int:
    own = links.get(one.uuid, ())
    direct = sum(not link.switch and _same(link.peer, other.bus_id) for link in own)
    if direct or not own:
        return direct
    switched = sum(link.switch for link in own)
    return min(switched, sum(link.switch for link in links.get(other.uuid, ())))


def _same(one: str, other: str) -> bool:
    """Whether two PCI bus ids are equal. NVML writes the domain with four or eight digits."""
    return one.lower().lstrip("0") == other.lower().lstrip("0")
