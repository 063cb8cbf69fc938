"""Namespace limits on device memory and cores: HAMi's reading of ResourceQuota objects, and what is used of them.

Only ``limits.<memory or core resource>`` count. Where several objects name one resource the smallest wins (in HAMi
v2.10 the last written one, and deleting any of them lifts them all). Limits are in the resource's own unit, usage in
MiB and percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError
from hami_core.model import ContainerKind, Reason
from hami_core.wire.quantity import parse_quantity
from hami_core.wire.reasons import QUOTA_NOT_FIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hami_core.model import Family, PodRequest, Request

_LIMITS: Final = "limits."


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One limit as metrics show it: ``limit`` None where only usage is known; MiB or percent."""

    namespace: str
    resource: str
    used: int
    limit: int | None


class QuotaBook:
    """Limits and usage per namespace.

    Args:
        families: The families served; only their memory and core resources count.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = {family.word: family for family in families}
        self._factors = {
            name: factor
            for family in self._families.values()
            for name, factor in ((family.resources.memory, max(family.memory_factor, 1)), (family.resources.cores, 1))
            if name
        }
        self._hard: dict[str, dict[str, dict[str, int]]] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self._used: dict[tuple[str, str], tuple[int, int]] = {}

    def set(self, namespace: str, name: str, hard: Mapping[str, str]) -> None:
        """Take in a ResourceQuota's ``spec.hard``; values that are no whole numbers are ignored, as in HAMi."""
        limits: dict[str, int] = {}
        for key, text in hard.items():
            resource = key.removeprefix(_LIMITS)
            if key.startswith(_LIMITS) and resource in self._factors:
                value = _whole(text)
                if value is not None:
                    limits[resource] = value * self._factors[resource]
        self._hard.setdefault(namespace, {})[name] = limits
        self._merge(namespace)

    def remove(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota; unknown ones are no error."""
        self._hard.get(namespace, {}).pop(name, None)
        self._merge(namespace)

    def _merge(self, namespace: str) -> None:
        merged: dict[str, int] = {}
        for limits in self._hard.get(namespace, {}).values():
            for resource, value in limits.items():
                merged[resource] = min(value, merged.get(resource, value))
        if merged:
            self._limits[namespace] = merged
        else:
            self._limits.pop(namespace, None)
        if not self._hard.get(namespace, True):
            del self._hard[namespace]

    def add(self, namespace: str, family: str, memory_mib: int, cores: int) -> None:
        """Count what a pod takes (negative amounts give back); never below 0."""
        key = (namespace, family)
        memory, percent = self._used.get(key, (0, 0))
        now = (max(memory + memory_mib, 0), max(percent + cores, 0))
        if now == (0, 0):
            self._used.pop(key, None)
        else:
            self._used[key] = now

    def used(self, namespace: str, family: str) -> tuple[int, int]:
        """MiB and percent in use."""
        return self._used.get((namespace, family), (0, 0))

    def usage(self) -> dict[tuple[str, str], tuple[int, int]]:
        """All usage, by namespace and family."""
        return dict(self._used)

    def restore(self, usage: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Replace all usage (after a recount)."""
        self._used = dict(usage)

    def room(self, namespace: str, family: str) -> tuple[int | None, int | None]:
        """MiB and percent left; None: no limit. Negative when more is used than allowed."""
        limits = self._limits.get(namespace)
        known = self._families.get(family)
        if not limits or known is None:
            return None, None
        memory, cores = self.used(namespace, family)
        memory_limit = limits.get(known.resources.memory) if known.resources.memory else None
        cores_limit = limits.get(known.resources.cores) if known.resources.cores else None
        return (
            None if memory_limit is None else memory_limit - memory,
            None if cores_limit is None else cores_limit - cores,
        )

    def refusal(self, namespace: str, family: str, memory_mib: int, cores: int) -> Reason | None:
        """Say whether a namespace may take so much more of a family."""
        memory_room, cores_room = self.room(namespace, family)
        if memory_room is not None and memory_mib > memory_room:
            detail = f"MiB of {self._families[family].resources.memory} left in namespace {namespace}"
            return Reason(QUOTA_NOT_FIT, "", memory_mib, max(memory_room, 0), detail)
        if cores_room is not None and cores > cores_room:
            detail = f"of {self._families[family].resources.cores} left in namespace {namespace}"
            return Reason(QUOTA_NOT_FIT, "", cores, max(cores_room, 0), detail)
        return None

    def admission_refusal(self, request: PodRequest) -> Reason | None:
        """Check a pod at admission, before anybody knows which devices it gets.

        Percentages and whole cards count 0 MiB here, as in HAMi; families that check while devices are chosen catch
        them there. A pod that asks for nothing of a limited resource passes, whatever is used.
        """
        for family in request.families:
            memory, cores = _greatest_sum(request, family)
            refusal = self.refusal(request.namespace, family, memory, cores) if memory or cores else None
            if refusal is not None:
                return refusal
        return None

    def rows(self) -> Iterator[QuotaRow]:
        """All limits and usage, sorted, for metrics."""
        names = sorted({*self._limits, *(namespace for namespace, _ in self._used)})
        for namespace in names:
            limits = self._limits.get(namespace, {})
            for family in self._families.values():
                memory, cores = self.used(namespace, family.word)
                for resource, used in ((family.resources.memory, memory), (family.resources.cores, cores)):
                    if resource and (used or resource in limits):
                        yield QuotaRow(namespace, resource, used, limits.get(resource))


def _whole(text: str) -> int | None:
    try:
        value = parse_quantity(text)
    except WireError:
        return None
    return value if isinstance(value, int) else None


def _greatest_sum(request: PodRequest, family: str) -> tuple[int, int]:
    running = peak = (0, 0)
    for container in request.containers:
        memory, cores = _asked([r for r in container.requests if r.family == family])
        now = (running[0] + memory, running[1] + cores)
        peak = (max(peak[0], now[0]), max(peak[1], now[1]))
        if container.kind is not ContainerKind.INIT:
            running = now
    return peak


def _asked(requests: list[Request]) -> tuple[int, int]:
    return sum(r.memory_mib * r.count for r in requests), sum(r.cores * r.count for r in requests)
