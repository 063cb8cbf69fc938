"""Which cards of a node to choose for an sGPU request, and how well a node suits it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hami_core.vendorkit import group_by
from hami_metax.sharing import OFFLINE, ONLINE, WHOLE, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core import Device, DeviceUsage, Request

LINK_ZONE: Final = "linkZone"
"""Key in `Device.custom`: cards with the same number above 0 are connected by MetaXLink."""
PER_PAIR: Final = 10
"""Score of two cards of one zone."""


def choose(request: Request, candidates: Sequence[DeviceUsage]) -> tuple[int, ...] | None:
    """Pick the least busy cards for an online container, and linked cards for one that asks for whole cards.

    Linked cards come from the smallest zone that has enough. If none has, zones are used up from the smallest one, and
    cards without links come last. None: the cards are taken in the policy's order.
    """
    if ONLINE in words(request.mode):
        return tuple(sorted(range(len(candidates)), key=lambda at: _load(candidates[at]))[: request.count])
    if request.cores != WHOLE:
        return None
    zones = sorted(group_by(candidates, lambda card: max(_zone(card.device), 0)), key=len)
    linked = [zone for zone in zones if _zone(candidates[zone[0]].device) > 0]
    for zone in linked:
        if len(zone) >= request.count:
            return zone[: request.count]
    others = (zone for zone in zones if zone not in linked)
    return tuple(position for zone in (*linked, *others) for position in zone)[: request.count]


def link_score(devices: Iterable[DeviceUsage], taken: frozenset[str]) -> int:
    """Rate whole cards: 10 times their links, minus the links that they break among the node's idle cards.

    Args:
        devices: The node's cards before the pod is placed.
        taken: Ids of the cards that the pod takes as a whole.
    """
    cards = list(devices)
    idle = [usage.device for usage in cards if usage.used_slots == 0]
    inner = _links(usage.device for usage in cards if usage.device.id in taken)
    broken = _links(idle) - inner - _links(card for card in idle if card.id not in taken)
    return 10 * inner - broken


def online_score(devices: Iterable[DeviceUsage], taken: frozenset[str]) -> int:
    """Rate cards for an online pod: present containers cost, offline ones most if no online one interrupts them yet."""
    score = 0
    for usage in devices:
        if usage.device.id in taken:
            only_offline, online, offline = _load(usage)
            score -= 100 * offline if only_offline else 20 * online + 2 * offline
    return score


def _load(usage: DeviceUsage) -> tuple[bool, int, int]:
    """Whether only offline containers use a card, and how many online and offline ones do: less is better."""
    found = Counter(word for piece in usage.slices for word in words(piece.mode))
    online, offline = found[ONLINE], found[OFFLINE]
    return offline > 0 and not online, online, offline


def _links(cards: Iterable[Device]) -> int:
    """Score of all pairs of cards that are in one zone."""
    sizes = Counter(zone for card in cards if (zone := _zone(card)))
    return sum(PER_PAIR * size * (size - 1) // 2 for size in sizes.values())


def _zone(card: Device) -> int:
    found = card.custom.get(LINK_ZONE, 0)
    return found if isinstance(found, int) else 0
