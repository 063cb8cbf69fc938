"""Scores of devices and nodes: HAMi's formulas, in float32 and in HAMi's order of operations.

Python computes in float64. Rounding each step to float32 gives exactly the float32 result, because float64 has more
than twice as many digits.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hami_core.model import Weights

_FLOAT32: Final = struct.Struct("f")
_THREE: Final = struct.Struct("3f")
_SIX: Final = struct.Struct("6f")


def float32(value: float) -> float:
    """Round to the nearest float32."""
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def device_score(
    slots: tuple[int, int], cores: tuple[int, int], memory: tuple[int, int], weights: Weights | None = None
) -> float:
    """Score one device for one container: 10 times the weighted sum of slots, cores and memory, each used over total.

    Args:
        slots: (used slots including this container's, total).
        cores: (used percent including this container's, total).
        memory: (used MiB including this container's, total).
        weights: The pod's weights; None: all 1.

    Returns:
        The score; 0 if any total is 0.
    """
    if not (slots[1] and cores[1] and memory[1]):
        return 0.0
    s, all_s, c, all_c, m, all_m = _SIX.unpack(_SIX.pack(*slots, *cores, *memory))
    s, c, m = _THREE.unpack(_THREE.pack(s / all_s, c / all_c, m / all_m))
    if weights is not None:
        ws, wc, wm = _THREE.unpack(_THREE.pack(weights.slot, weights.core, weights.memory))
        s, c, m = _THREE.unpack(_THREE.pack(ws * s, wc * c, wm * m))
    return float32(10 * float32(float32(s + c) + m))


def node_score(slots: tuple[int, int], cores: tuple[int, int], memory: tuple[int, int]) -> float:
    """Score a node before a pod is placed there, by the sums over all its devices of all vendors.

    Args:
        slots: (used, total).
        cores: (used, total), percent.
        memory: (used, total), MiB.

    Returns:
        0 (idle) to 30 (full); 0 when any total is 0.
    """
    return device_score(slots, cores, memory)
