"""Dies of one card belong together: which dies to take, and how good a node's dies are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hami_core import Reason
from hami_core.vendorkit import EXCLUSIVE_CONFLICT, group_by, largest_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core import Device, DeviceUsage, Request, Slice

STRATEGY: Final = "DeviceStrategy"
"""Key in a device's ``custominfo``: ``die`` if each die of a card is a device of its own."""
CARD: Final = "AIC"
"""Key in a device's ``custominfo``: the card that the die is on."""
MUTEX: Final = "mutex"


def card_of(device: Device) -> str:
    """The card of a die; empty: the device is a whole card, or the register does not name the die's card."""
    card = device.custom.get(CARD)
    return card if device.custom.get(STRATEGY) == "die" and isinstance(card, str) else ""


def choose_dies(
    request: Request, candidates: Sequence[DeviceUsage], policy: str, devices: Iterable[DeviceUsage]
) -> tuple[int, ...] | Reason | None:
    """Pick dies of as few cards as possible: those of the card with the most candidates first.

    Under ``mutex`` a card is closed while any of its dies is in use.
    """
    cards = [card_of(one.device) for one in candidates]
    if not any(cards):
        return None
    free = list(range(len(candidates)))
    if MUTEX in {word.strip() for word in policy.split(",")}:
        occupied = {card_of(one.device) for one in devices if one.used_slots} - {""}
        free = [position for position in free if cards[position] not in occupied]
        if len(free) < request.count:
            detail = f"{len(candidates) - len(free)} idle dies are on cards of which another die is in use"
            return Reason(EXCLUSIVE_CONFLICT, needed=request.count, available=len(free), detail=detail)
    if request.count == 1:
        return (free[0],)
    groups = group_by([candidates[position] for position in free], lambda one: card_of(one.device) or one.device.id)
    return tuple(free[position] for position in largest_first(groups, request.count))


def die_score(allocation: Iterable[Sequence[Slice]], devices: Iterable[DeviceUsage]) -> float:
    """Rate how much of each container's dies is on one card; 0 if any of its devices is not a die of a known card."""
    cards = {one.device.id: card_of(one.device) for one in devices}
    score = 0.0
    for pieces in allocation:
        found = [cards.get(piece.device_id, "") for piece in pieces]
        if not all(found):
            return 0.0
        if found:
            score += max(Counter(found).values()) / len(found)
    return score
