"""Namespace limits on device memory, cores and devices: what ResourceQuota objects allow and what pods use.

Only ``limits.<resource>`` entries count, for a family's memory, cores and count resources
(`hami_core.placement.quota_spec` reads them). If several objects limit one resource, the smallest limit wins. In HAMi
v2.10 the last written limit wins, and deleting any of the objects removes the limit.
Limits and usage are in MiB, percent and devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hami_core.model import ContainerKind, Reason
from hami_core.placement.pod_usage import Amounts
from hami_core.placement.quota_spec import Limit, limited, read_limits
from hami_core.wire.reasons import QUOTA_NOT_FIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hami_core.model import Family, PodRequest, Request

_NOTHING: Final = Amounts()
_UNITS: Final = ("MiB of ", "of ", "of ")


class Room(NamedTuple):
    """How much more of one family a namespace may take. None: no limit. Amounts are never negative."""

    memory_mib: int | None = None
    cores: int | None = None
    devices: int | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether no limit applies."""
        return self == (None, None, None)

    def admits(self, amounts: Amounts) -> bool:
        """Whether the namespace may take these amounts in addition."""
        return all(left is None or amount <= left for amount, left in zip(amounts, self, strict=True))


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One limit as metrics show it, in MiB, percent or devices. ``limit`` is None if there is usage but no limit."""

    namespace: str
    resource: str
    used: int
    limit: int | None


class QuotaBook:
    """Limits and usage per namespace.

    Args:
        families: The families served; only their resources count.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = {family.word: family for family in families}
        self._resources = limited(self._families.values())
        self._hard: dict[str, dict[str, dict[str, Limit]]] = {}
        self._limits: dict[str, dict[str, Limit]] = {}
        self._used: dict[tuple[str, str], Amounts] = {}

    def set(self, namespace: str, name: str, hard: Mapping[str, Any]) -> None:
        """Take in a ResourceQuota's ``spec.hard``. An amount that can't be read allows nothing."""
        self._put(namespace, name, read_limits(f"{namespace}/{name}", hard, self._resources))

    def deny(self, namespace: str, name: str, problem: str) -> None:
        """Take in a ResourceQuota that can't be decoded. It may limit anything, so it allows nothing."""
        limit = Limit(0, f"ResourceQuota {namespace}/{name}", problem, "correct or delete it")
        self._put(namespace, name, dict.fromkeys(self._resources, limit))

    def remove(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota. Unknown names are ignored."""
        self._hard.get(namespace, {}).pop(name, None)
        self._merge(namespace)

    def _put(self, namespace: str, name: str, limits: dict[str, Limit]) -> None:
        self._hard.setdefault(namespace, {})[name] = limits
        self._merge(namespace)

    def _merge(self, namespace: str) -> None:
        merged: dict[str, Limit] = {}
        for limits in self._hard.get(namespace, {}).values():
            for resource, limit in limits.items():
                if resource not in merged or limit.amount < merged[resource].amount:
                    merged[resource] = limit
        if merged:
            self._limits[namespace] = merged
        else:
            self._limits.pop(namespace, None)
        if not self._hard.get(namespace, True):
            del self._hard[namespace]

    def add(self, namespace: str, family: str, memory_mib: int, cores: int, devices: int = 0) -> None:
        """Count what a pod takes (negative amounts give back); never below 0."""
        key = (namespace, family)
        have = self._used.get(key, _NOTHING)
        now = Amounts(max(have.memory_mib + memory_mib, 0), max(have.cores + cores, 0), max(have.devices + devices, 0))
        if now == _NOTHING:
            self._used.pop(key, None)
        else:
            self._used[key] = now

    def used(self, namespace: str, family: str) -> Amounts:
        """How much of the family the namespace uses now."""
        return self._used.get((namespace, family), _NOTHING)

    def usage(self) -> dict[tuple[str, str], Amounts]:
        """All usage, by namespace and family."""
        return dict(self._used)

    def restore(self, usage: Mapping[tuple[str, str], Amounts]) -> None:
        """Replace all usage (after a recount)."""
        self._used = dict(usage)

    def room(self, namespace: str, family: str) -> Room:
        """How much more the namespace may take. 0 if it already uses more, because the limit was lowered."""
        if namespace not in self._limits or family not in self._families:
            return Room()
        used = self.used(namespace, family)
        limits = self._limits_of(namespace, family)
        return Room(
            *(None if limit is None else max(limit.amount - have, 0) for limit, have in zip(limits, used, strict=True))
        )

    def _limits_of(self, namespace: str, family: str) -> tuple[Limit | None, Limit | None, Limit | None]:
        limits = self._limits.get(namespace, {})
        memory, cores, count = _resources(self._families[family])
        return limits.get(memory), limits.get(cores), limits.get(count)

    def refusal(self, namespace: str, family: str, memory_mib: int, cores: int, devices: int = 0) -> Reason | None:
        """Why a namespace may not take these amounts in addition, with the ResourceQuota at fault; None: it may."""
        room = self.room(namespace, family)
        if room.is_unlimited:
            return None
        limits = self._limits_of(namespace, family)
        names = _resources(self._families[family])
        for amount, left, limit, resource, unit in zip(
            (memory_mib, cores, devices), room, limits, names, _UNITS, strict=True
        ):
            if left is not None and amount > left:
                detail = f"{unit}{resource} left in namespace {namespace}: {limit}"
                return Reason(QUOTA_NOT_FIT, "", amount, left, detail)
        return None

    def admission_refusal(self, request: PodRequest) -> Reason | None:
        """Check a pod at admission, when its devices are not known yet.

        Percentages and whole cards count 0 MiB here, as in HAMi. They are checked again when devices are chosen.
        """
        for family in request.families:
            refusal = self.refusal(request.namespace, family, *_greatest_sum(request, family))
            if refusal is not None:
                return refusal
        return None

    def rows(self) -> Iterator[QuotaRow]:
        """All limits and usage, sorted, for metrics. Device counts appear only if limited: HAMi has no such limit."""
        names = sorted({*self._limits, *(namespace for namespace, _ in self._used)})
        for namespace in names:
            for family in self._families.values():
                used = self.used(namespace, family.word)
                limits = self._limits_of(namespace, family.word)
                for resource, limit, amount in zip(_resources(family), limits, used, strict=True):
                    if resource and (limit or (amount and resource != family.resources.count)):
                        yield QuotaRow(namespace, resource, amount, None if limit is None else limit.amount)


def _resources(family: Family) -> tuple[str, str, str]:
    names = family.resources
    return names.memory, names.cores, names.count


def _greatest_sum(request: PodRequest, family: str) -> Amounts:
    running = peak = Amounts()
    for container in request.containers:
        more = _asked([r for r in container.requests if r.family == family])
        now = Amounts(*(have + new for have, new in zip(running, more, strict=True)))
        peak = Amounts(*(max(have, new) for have, new in zip(peak, now, strict=True)))
        if container.kind is not ContainerKind.INIT:
            running = now
    return peak


def _asked(requests: list[Request]) -> Amounts:
    return Amounts(
        sum(r.memory_mib * r.count for r in requests),
        sum(r.cores * r.count for r in requests),
        sum(r.count for r in requests),
    )
