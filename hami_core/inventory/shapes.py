"""Numbers the shapes of pods, so that a node can keep whether pods of a shape fit on it.

Pods of one Job or Deployment differ by name and UID only. What decides about their place on a node is their *shape*:
their containers' requests, the policies and the weights. A shape that comes back gets the number that it had.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hami_core.model import ContainerRequest, Weights
    from hami_core.placement.place import Plan

    Shape = tuple[tuple[ContainerRequest, ...], str, str, str, Weights]

KEPT_SHAPES: Final = 16
"""Shapes that are known at once, and verdicts that a node keeps. A request cannot be hashed, so all are compared."""


class Shapes:
    """The last shapes. A forgotten shape's number is never used again."""

    def __init__(self) -> None:
        self._known: deque[tuple[Shape, int]] = deque(maxlen=KEPT_SHAPES)
        self._numbers = count()

    def number(self, plan: Plan) -> int:
        """The number of a pod's shape."""
        request = plan.request
        shape = request.containers, request.device_policy, plan.device_policy.text, plan.node_policy, request.weights
        for known, number in self._known:
            if known == shape:
                return number
        number = next(self._numbers)
        self._known.append((shape, number))
        return number
