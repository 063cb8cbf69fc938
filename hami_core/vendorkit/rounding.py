"""Rounding of whole numbers, without floating point."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def ceil_div(amount: int, unit: int) -> int:
    """Return how many units hold an amount; ``unit`` ≥ 1.

    Example:
        >>> ceil_div(1000, 512)
        2
    """
    return -(-amount // unit)


def round_up_to(amount: int, steps: Iterable[int]) -> int | None:
    """Return the smallest step that holds an amount; None: no step does.

    Example:
        >>> round_up_to(3000, [2048, 4096, 8192]), round_up_to(9000, [2048, 4096, 8192])
        (4096, None)
    """
    return min((step for step in steps if step >= amount), default=None)
