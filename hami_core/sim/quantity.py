"""Kubernetes quantities, exactly."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hami_core.sim.resources import Object

_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|u|n)?)$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@lru_cache(maxsize=4096)
def parse(text: object) -> Fraction:
    """The value of ``1``, ``500m``, ``2Gi`` or ``1e3``.

    Raises:
        ValueError: It is no quantity.
    """
    match = _QUANTITY.match(str(text))
    if not match:
        raise ValueError(f"{text!r} is not a quantity such as 1, 500m or 2Gi")
    number, exponent, suffix = match.groups()
    value = Fraction(number)
    if exponent:
        return value * Fraction(10) ** int(exponent[1:])
    suffix = suffix or ""
    return value * (Fraction(1024) ** _BINARY[suffix] if suffix in _BINARY else Fraction(10) ** _DECIMAL[suffix])


def requests(pod: Object) -> dict[str, Fraction]:
    """What a pod needs: apps and sidecars together, or its greediest init container with the sidecars before it."""
    spec = pod["spec"]
    total: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}

    def needs(container: Object) -> dict[str, Fraction]:
        found = (container.get("resources") or {}).get("requests") or {}
        return {key: parse(value) for key, value in found.items()}

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
