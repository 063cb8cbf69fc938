"""Quantities in the API server's form, and the resources that a pod requests by Kubernetes' rule."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.sim.resources import Object


_parse = lru_cache(maxsize=4096)(parse_quantity)
_NANO: Final = 10**9
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def canonical(value: object) -> str:
    """An amount in the form that Go's ``resource.Quantity`` writes: ``1000`` is ``1k``, ``3000m`` is ``3``.

    Args:
        value: Text or a JSON number; None is 0.

    Raises:
        WireError: The value is not a quantity.
    """
    return _canonical("0" if value is None else value if isinstance(value, str) else json.dumps(value))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    text = text.strip()
    value = Fraction(parse_quantity(text))
    away = math.ceil(abs(value) * _NANO)  # Go rounds amounts below nano away from zero
    sign, value = "-" if value < 0 else "", Fraction(away, _NANO)
    if not value:
        return "0"
    if text.endswith("i") and value >= 1024 and value.denominator == 1:
        power = 0
        while value % 1024 == 0 and power < len(_BINARY) - 1:
            value, power = value / 1024, power + 1
        return f"{sign}{value}{_BINARY[power]}"
    exponent = 0
    while value.denominator != 1:
        value, exponent = value * 1000, exponent - 3
    while value % 1000 == 0 and exponent < max(_DECIMAL):
        value, exponent = value / 1000, exponent + 3
    if "e" in text.lower() and not text.endswith("E"):
        return f"{sign}{value}" + (f"e{exponent}" if exponent else "")
    return f"{sign}{value}{_DECIMAL[exponent]}"


def amounts(found: Mapping[str, object] | None) -> dict[str, Fraction]:
    """Quantities by resource, as exact fractions.

    Raises:
        WireError: An amount is not a quantity.
    """
    return {name: Fraction(_parse(str(amount))) for name, amount in (found or {}).items()}


def requests(pod: Object) -> dict[str, Fraction]:
    """Requests of a pod: the sum over apps and sidecars, or the largest init container with the sidecars before it."""
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
