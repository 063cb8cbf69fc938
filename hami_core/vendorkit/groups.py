"""Picks devices by groups, such as the two NPUs of one module or the NPUs of one network. For the hook `choose`.

A group is a tuple of positions in the hook's ``candidates``. Within a group, positions keep the policy's order.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from hami_core.model import DeviceUsage


def group_by(candidates: Sequence[DeviceUsage], key: Callable[[DeviceUsage], Hashable]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of candidates with equal keys, in the order of their first members.

    Example:
        >>> cards = [DeviceUsage(Device(f"A-{i}", i, 4, 1024, 100, "X1", "ACME")) for i in (3, 0, 2)]
        >>> group_by(cards, lambda card: card.device.index // 2)
        ((0, 2), (1,))
    """
    groups: dict[Any, list[int]] = {}
    for position, candidate in enumerate(candidates):
        groups.setdefault(key(candidate), []).append(position)
    return tuple(map(tuple, groups.values()))


def whole_groups(groups: Iterable[tuple[int, ...]], size: int, count: int) -> tuple[int, ...] | None:
    """Return ``count`` positions out of groups with exactly ``size`` members, each group as a whole; None: impossible.

    Example:
        >>> whole_groups([(0, 2), (1,), (3, 4)], size=2, count=4), whole_groups([(0, 2), (1,)], size=2, count=4)
        ((0, 2, 3, 4), None)
    """
    taken = tuple(islice(chain.from_iterable(group for group in groups if len(group) == size), count))
    return taken if len(taken) == count and count % size == 0 else None


def largest_first(groups: Iterable[tuple[int, ...]], count: int) -> tuple[int, ...]:
    """Return up to ``count`` positions, from the largest group first. Of equal groups, the first one comes first.

    Example:
        >>> largest_first([(0,), (1, 2, 3), (4, 5)], count=4)
        (1, 2, 3, 4)
    """
    ordered: list[tuple[int, ...]] = sorted(groups, key=len, reverse=True)
    return tuple(islice(chain.from_iterable(ordered), count))
