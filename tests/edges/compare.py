"""Compares a recording with the behaviour of the embedded cluster, and tells which differences are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING = object()


@dataclass(frozen=True)
class Difference:
    """One place where two observations differ.

    Args:
        path: Keys and indices joined by dots.
        real: What Kubernetes did, JSON; ``-`` for nothing.
        embedded: What the embedded cluster did, likewise.
    """

    path: str
    real: str
    embedded: str

    def __str__(self) -> str:
        return f"{self.path}\n    real      {self.real}\n    embedded  {self.embedded}"


@dataclass(frozen=True)
class Tolerated:
    """A known difference.

    Args:
        where: Pattern of the scenario, a colon, and pattern of the path. ``*`` also matches dots.
        why: The reason why it may stay.
        versions: Pattern of the Kubernetes versions whose recordings differ.
    """

    where: str
    why: str
    versions: str = "*"

    def covers(self, version: str, scenario: str, difference: Difference) -> bool:
        """Whether this entry covers the difference."""
        return fnmatchcase(version, self.versions) and fnmatchcase(f"{scenario}:{difference.path}", self.where)


def differences(real: Any, embedded: Any, path: str = "") -> Iterator[Difference]:
    """Differences between two values, each at the deepest path that has one."""
    if _other_answer(real, embedded):
        yield Difference(path, _show(real), _show(embedded))
    elif isinstance(real, dict) and isinstance(embedded, dict):
        for key in sorted(real.keys() | embedded.keys()):
            inner = f"{path}.{key}" if path else key
            yield from differences(real.get(key, _MISSING), embedded.get(key, _MISSING), inner)
    elif isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        for index, (one, other) in enumerate(zip(real, embedded, strict=True)):
            yield from differences(one, other, f"{path}.{index}")
    elif real is not embedded and (type(real) is not type(embedded) or real != embedded):
        yield Difference(path, _show(real), _show(embedded))


def _other_answer(real: Any, embedded: Any) -> bool:
    """Whether both are API answers with different statuses. Their bodies can't be compared then."""
    codes = [v.get("status") if isinstance(v, dict) and "body" in v else None for v in (real, embedded)]
    return all(isinstance(c, int) for c in codes) and codes[0] != codes[1]


def _show(value: Any) -> str:
    return "-" if value is _MISSING else json.dumps(value, sort_keys=True)[:400]
