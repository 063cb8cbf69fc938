"""Policies: how nodes are ranked, and in which order the devices of one node are tried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hami_core import model
from hami_core.model import BINPACK, MUTEX, NUMA, SPREAD, TOPOLOGY_AWARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core.placement.card import Card

NODE_POLICIES: Final = frozenset(model.NODE_POLICIES)
DEVICE_POLICIES: Final = frozenset(model.DEVICE_POLICIES)
"""The words that mean something; any others in a pod's annotation are passed over, as in HAMi."""


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """Policies of pods that name none (HAMi's flags ``--node-scheduler-policy`` and ``--gpu-scheduler-policy``)."""

    node_policy: str = BINPACK
    device_policy: str = SPREAD


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """A device policy, taken apart.

    Attributes:
        text: As written.
        tokens: The words of the comma list, trimmed.
        chain: Sort keys in written order where the policy is a chain (it has a comma, or is exactly ``numa``), else
            None. Only ``binpack``, ``spread`` and ``numa`` are sort keys; an empty chain sorts as ``spread``.
    """

    text: str
    tokens: frozenset[str]
    chain: tuple[str, ...] | None

    @property
    def mutex(self) -> bool:
        """Only idle devices are taken."""
        return MUTEX in self.tokens

    @property
    def topology_aware(self) -> bool:
        """Devices are chosen by the links between them."""
        return TOPOLOGY_AWARE in self.tokens

    def order(self, cards: Sequence[Card], scores: Sequence[float], *, numa_bind: bool) -> list[Card]:
        """Sort ascending; the walk takes from the END, so of equal cards the last position goes first.

        Args:
            cards: The node's devices of one family.
            scores: Their device scores.
            numa_bind: The request wants all devices on one NUMA node.
        """
        key = self.sort_key
        return [
            card
            for _, card in sorted(
                ((key(c, s, numa_bind=numa_bind), c) for c, s in zip(cards, scores, strict=True)), key=_first
            )
        ]

    def sort_key(self, card: Card, score: float, *, numa_bind: bool) -> tuple[float, ...]:
        """HAMi's ascending sort key; position last, which stands for its stable sort."""
        numa, last = card.device.numa, card.position
        if self.chain is not None:
            chain = (NUMA, *self.chain) if numa_bind and self.chain[0] != NUMA else self.chain
            parts = {BINPACK: score, SPREAD: -score, NUMA: numa}
            return (*(parts[word] for word in chain), card.device.index, last)
        if self.text == MUTEX:
            return (-card.used_slots, numa, last)
        if numa_bind:
            return (-numa, score, last) if self.text == BINPACK else (numa, -score, last)
        return (score, numa, last) if self.text == BINPACK else (-score, numa, last)


def _first(pair: tuple[tuple[float, ...], Card]) -> tuple[float, ...]:
    return pair[0]


@lru_cache(maxsize=256)
def device_policy(text: str) -> DevicePolicy:
    """Take a device policy apart; unknown words are ignored, as in HAMi."""
    words = [word.strip() for word in text.split(",")]
    chain: tuple[str, ...] | None = None
    if "," in text or text == NUMA:
        keys = [word for word in words if word in {BINPACK, SPREAD, NUMA}]
        chain = tuple(dict.fromkeys(keys)) or (SPREAD,)
    return DevicePolicy(text, frozenset(words), chain)


def prefers_low_score(node_policy: str) -> bool:
    """Whether the lowest node score wins: ``spread``; every other text behaves as ``binpack``, as in HAMi."""
    return node_policy == SPREAD
