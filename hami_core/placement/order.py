"""A pod's device policy, parsed: the order in which the devices of one node are tried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hami_core.policies import DEFAULT_DEVICE_POLICY, DEVICE_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core.placement.card import Card
    from hami_core.policies import DevicePolicy


@dataclass(frozen=True, slots=True)
class DeviceOrder:
    """A device policy or a chain of several.

    Attributes:
        text: The policy as written.
        words: The words of the comma list, trimmed, including unknown ones.
        keys: The policies that rank, in written order; exactly one if the text is not a chain.
        is_chain: Whether the text has a comma.
        idle_only: Whether only idle devices are taken.
    """

    text: str
    words: frozenset[str]
    keys: tuple[DevicePolicy, ...]
    is_chain: bool
    idle_only: bool

    @property
    def lowest_numa_first(self) -> bool:
        """Whether the walk starts at the lowest NUMA node if the request has NUMA binding."""
        return not self.is_chain and self.keys[0].lowest_numa_first

    def rank_together(self, cards: Sequence[Card]) -> tuple[Any, ...]:
        """Rank cards that one container would take: the sum of each policy's ranks. The greatest rank is best."""
        return tuple(sum(policy.rank(card) for card in cards) for policy in self.keys)

    def sort(self, cards: Iterable[Card], *, numa_bind: bool) -> list[Card]:
        """Sort ascending. The walk takes from the END, so of equal cards the one in the last position comes first.

        Args:
            cards: The node's devices of one family, with their scores.
            numa_bind: Whether the request wants all devices on one NUMA node.
        """
        return sorted(cards, key=partial(self.sort_key, numa_bind=numa_bind))

    def sort_key(self, card: Card, *, numa_bind: bool) -> tuple[Any, ...]:
        """HAMi's ascending sort key. HAMi's sort is stable; here the position in the key does that."""
        numa, index, last = card.numa, card.device.index, card.position
        if self.is_chain:
            ranks = tuple(policy.rank(card) for policy in self.keys)
            return (numa, *ranks, index, last) if numa_bind else (*ranks, index, last)
        policy = self.keys[0]
        if numa_bind and not policy.idle_only:
            return -numa if policy.lowest_numa_first else numa, policy.rank(card), index, last
        return policy.rank(card), numa, index, last


def device_order(text: str) -> DeviceOrder:
    """Parse a device policy. Unknown words are ignored, as in HAMi."""
    words = [word.strip() for word in text.split(",")]
    known = [DEVICE_POLICIES[word] for word in dict.fromkeys(words) if word in DEVICE_POLICIES]
    is_chain = len(words) > 1
    if is_chain:
        keys = tuple(policy for policy in known if policy.in_chains)
    else:
        keys = (DEVICE_POLICIES[text],) if text in DEVICE_POLICIES else ()
    return DeviceOrder(
        text,
        frozenset(words),
        keys or (DEVICE_POLICIES[DEFAULT_DEVICE_POLICY],),
        is_chain,
        any(policy.idle_only for policy in known),
    )
