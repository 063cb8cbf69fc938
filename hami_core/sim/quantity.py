"""What a pod needs of a node, by Kubernetes' own rule."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.sim.resources import Object


_parse = lru_cache(maxsize=4096)(parse_quantity)


def amounts(found: Mapping[str, object] | None) -> dict[str, Fraction]:
    """Quantities by resource, exactly.

    Raises:
        WireError: One of them is no quantity.
    """
    return {name: Fraction(_parse(str(amount))) for name, amount in (found or {}).items()}


def requests(pod: Object) -> dict[str, Fraction]:
    """What a pod needs: apps and sidecars together, or its greediest init container with the sidecars before it."""
    spec = pod["spec"]
    total: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}

    def needs(container: Object) -> dict[str, Fraction]:
        return amounts((container.get("resources") or {}).get("requests"))

    def add(to: dict[str, Fraction], more: dict[str, Fraction]) -> dict[str, Fraction]:
        return {k: to.get(k, Fraction(0)) + more.get(k, Fraction(0)) for k in {*to, *more}}

    def larger(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
        return {k: max(one.get(k, Fraction(0)), other.get(k, Fraction(0))) for k in {*one, *other}}

    for container in spec.get("initContainers") or []:
        wanted = add(total, needs(container))
        if container.get("restartPolicy") == "Always":
            total = wanted
        peak = larger(peak, wanted)
    for container in spec["containers"]:
        total = add(total, needs(container))
    return larger(peak, total)
