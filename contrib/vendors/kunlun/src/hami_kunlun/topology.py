"""Which cards of a P800 server go together, and how well a choice keeps the rest of the server usable.

A server has eight cards in two wings: cards 0 to 3 and cards 4 to 7. Each wing is on one NUMA node. Links between the
wings join the cards of `PAIRS` and of `QUADS`. Cards are named by their index on the node. The numbers are HAMi's
(``pkg/device/kunlun/topo.go``), except that HAMi takes the wing from a card's position in a sorted list.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

WING: Final = 4
"""Cards of a wing."""
CARDS: Final = range(2 * WING)
"""Indexes of the cards that the topology knows."""
PAIRS: Final = ((0, 4), (1, 5), (2, 6), (3, 7))
"""Cards of different wings that a link joins."""
QUADS: Final = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
"""Four linked cards, two of each wing."""
WING_PAIRS: Final = (*combinations(CARDS[:WING], 2), *combinations(CARDS[WING:], 2))
"""Cards of one wing. All of them are linked."""
GROUPS: Final = {2: PAIRS, 4: QUADS, 8: (tuple(CARDS),)}
"""Number of cards → groups that may be given across the wings, best first."""
ROOM: Final = {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}
"""Number of cards → numbers of free cards that a wing may have, best first. One card does not break up a free pair."""
COUNTS: Final = (1, 2, 4, 8)
"""Numbers of cards that a container may ask for."""
TASKS_TO_FILL: Final = (1, 2, 1, 1, 0)
"""Used cards of a wing → how many more tasks it takes to fill the wing, as HAMi counts them."""
SCORES: Final = {-1: 3000, 0: 2000, 1: 1000, 2: 0}
"""Change of the fragmentation → score of the node."""
OTHER_SCORE: Final = 1000


def pick(free: Iterable[int], count: int) -> tuple[int, ...] | None:
    """Choose ``count`` of the free cards; None: no wing has so many and no linked group is free.

    The wing with the best room comes first, of equal wings the left one, and in it the cards with the lowest indexes.
    """
    cards = sorted(set(CARDS) & set(free))
    wings = [card for card in cards if card < WING], [card for card in cards if card >= WING]
    for room in ROOM.get(count, ()):
        for wing in wings:
            if len(wing) == room:
                return tuple(wing[:count])
    groups = [group for group in GROUPS.get(count, ()) if set(group) <= set(cards)]
    if count == 4 and len(cards) == 6 and groups:
        return next((group for group in groups if _are_linked(set(cards) - set(group))), groups[-1])
    return groups[0] if groups else None


def fragmentation(used: Iterable[int]) -> int:
    """Return how many more tasks it takes to fill a server on which these cards are used: 0 to 4, as HAMi counts."""
    cards = set(CARDS) & set(used)
    if not cards:
        return 1
    left = sum(card < WING for card in cards)
    return TASKS_TO_FILL[left] + TASKS_TO_FILL[len(cards) - left]


def score(before: Iterable[int], given: Iterable[int]) -> int:
    """Return a node's score, larger if better: the fragmentation of the cards given now, against that of those before.

    HAMi leaves the cards used before out of the first term. Its scores are part of the contract.
    """
    return SCORES.get(fragmentation(given) - fragmentation(before), OTHER_SCORE)


def _are_linked(two: set[int]) -> bool:
    return tuple(sorted(two)) in {*PAIRS, *WING_PAIRS}
