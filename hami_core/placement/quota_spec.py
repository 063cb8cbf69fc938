"""A ResourceQuota's ``spec.hard``: what each entry about devices allows, and which entries are not enforced as written.

An entry ``limits.<resource>`` limits a namespace's sum of a family's memory, cores or devices. Our scheduler enforces
it. An entry ``requests.<resource>`` belongs to Kubernetes: the API server adds up what containers write. Nobody
enforces any other entry about such a resource. An entry that can't be read allows nothing: a mistake lifts no limit.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from hami_core.errors import RequestError
from hami_core.model import INT32_MAX
from hami_core.wire.quantity import parse_amount, parse_memory, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core.model import Family

LIMITS: Final = "limits."
REQUESTS: Final = "requests."
MAX_MILLIONS_MIB: Final = 1 << 27
"""Largest memory limit that may end in ``M``: 128 TiB. The API server writes 1000000 as ``1M``, so the suffix alone
does not tell MiB from bytes. Example: ``500M`` in MiB is the memory of six thousand cards, in bytes a part of one."""

_MILLIONS: Final = re.compile(r"[0-9]{1,20}[MG]", re.ASCII)
SHOWN: Final = 4
"""Most limits that a fix lists."""


class Dimension(StrEnum):
    """What a limit bounds. The order is that of `hami_core.placement.pod_usage.Amounts`."""

    MEMORY = "MiB"
    CORES = "percent"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit in one entry of a ResourceQuota.

    Attributes:
        amount: MiB, percent of one device's compute, or devices; 0 if the entry can't be read.
        source: The object and the field, such as ``ResourceQuota team/q: spec.hard[limits.nvidia.com/gpumem]``.
        problem: Why the entry can't be read; empty: it can.
        fix: What to write instead.
    """

    amount: int
    source: str
    problem: str = ""
    fix: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.source}: {self.problem}" + (f" ({self.fix})" if self.fix else "")
        return f"{self.source} is {self.amount} (ask for less, raise it, or wait until other pods end)"


class Fault(StrEnum):
    """Why an entry of a quota is not enforced as written."""

    UNREADABLE = "unreadable"
    """Its amount can't be read and counts as 0."""
    UNENFORCED = "unenforced"
    """Nobody enforces it."""
    PARTIAL = "partial"
    """Kubernetes adds up what containers write. There whole devices, percentages and further devices count nothing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry that is not enforced as written.

    Attributes:
        fault: The kind of fault.
        entry: The key in ``spec.hard``; empty: the whole object.
        problem: The fault in words, with the value.
        fix: What to write instead.
    """

    fault: Fault
    entry: str
    problem: str
    fix: str

    def __str__(self) -> str:
        field = f"spec.hard[{self.entry}]: " if self.entry else ""
        return f"{field}{self.problem}" + (f" ({self.fix})" if self.fix else "")


def limited(families: Iterable[Family]) -> dict[str, tuple[Dimension, int]]:
    """Resource that a ``limits.`` entry may limit → its dimension and, for memory, MiB per unit (otherwise 1)."""
    found: dict[str, tuple[Dimension, int]] = {}
    for family in families:
        names = family.resources
        found[names.count] = Dimension.DEVICES, 1
        if names.cores:
            found[names.cores] = Dimension.CORES, 1
        if names.memory:
            found[names.memory] = Dimension.MEMORY, max(family.memory_factor, 1)
    return found


def read_limits(key: str, hard: Mapping[str, Any], resources: Mapping[str, tuple[Dimension, int]]) -> dict[str, Limit]:
    """Read the entries that our scheduler enforces.

    Args:
        key: ``namespace/name`` of the ResourceQuota.
        hard: Its ``spec.hard``; values are quantities as text or as JSON numbers.
        resources: The result of `limited`.

    Returns:
        Resource → limit.
    """
    found: dict[str, Limit] = {}
    for entry, value in hard.items():
        resource = entry.removeprefix(LIMITS)
        if entry.startswith(LIMITS) and resource in resources:
            found[resource] = _read(f"ResourceQuota {key}", entry, value, *resources[resource])
    return found


def _read(quota: str, entry: str, value: Any, dimension: Dimension, factor: int) -> Limit:  # noqa: ANN401 - JSON
    field = f"spec.hard[{entry}]"
    source = f"{quota}: {field}"
    text = quantity_text(value)
    try:
        if dimension is Dimension.MEMORY:
            most = MAX_MILLIONS_MIB if text.endswith("M") else INT32_MAX
            amount = parse_memory(text, where=quota, field=field, factor=factor, maximum_mib=most, whole_millions=True)
        else:
            amount = parse_amount(_spelt_out(text), where=quota, field=field)
    except RequestError as error:
        return Limit(0, source, f"{error.problem} and counts as 0", error.fix)
    return Limit(amount, source)


def quantity_text(value: Any) -> str:  # noqa: ANN401 - JSON
    """An amount as the API server stores it: text. A JSON number becomes its digits."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else repr(value)


def _spelt_out(text: str) -> str:
    """Write out ``M`` and ``G``. The API server writes 1000000 as ``1M``, even for percent and devices."""
    return str(parse_quantity(text)) if _MILLIONS.fullmatch(text) else text


def findings(
    key: str, hard: Mapping[str, Any], families: Iterable[Family], is_offered: Callable[[str], bool]
) -> list[Finding]:
    """Entries about devices that are not enforced as written, sorted by name.

    Args:
        key: ``namespace/name`` of the ResourceQuota.
        hard: Its ``spec.hard``.
        families: The families served.
        is_offered: Whether some node's kubelet offers an extended resource of that name.
    """
    served = tuple(families)
    resources = limited(served)
    names = {name for family in served for name in family.resources.names()}
    domains = {name.partition("/")[0] for name in names if "/" in name}
    limits = read_limits(key, hard, resources)
    found: list[Finding] = []
    for entry in sorted(hard):
        prefix, resource = _parts(entry)
        limit = limits.get(resource) if prefix == LIMITS else None
        if limit is not None:
            if limit.problem:
                found.append(Finding(Fault.UNREADABLE, entry, limit.problem, limit.fix))
        elif resource in names or resource.partition("/")[0] in domains:
            wrong = _unenforced(entry, resources, names, is_offered)
            found += [wrong] if wrong is not None else []
    return found


def _parts(entry: str) -> tuple[str, str]:
    """The entry's prefix (empty if it is none that we know) and the resource after it."""
    prefix = next((known for known in (LIMITS, REQUESTS) if entry.startswith(known)), "")
    return prefix, entry.removeprefix(prefix)


def _unenforced(
    entry: str, resources: Mapping[str, tuple[Dimension, int]], names: set[str], is_offered: Callable[[str], bool]
) -> Finding | None:
    """The finding about an entry that our scheduler does not enforce; None: Kubernetes enforces it as written."""
    prefix, resource = _parts(entry)
    limited_here = resource in resources
    counts = limited_here and resources[resource][0] is Dimension.DEVICES
    if prefix == REQUESTS and (counts or (resource not in names and is_offered(resource))):
        return None
    if prefix == REQUESTS and resource in names:
        problem = "Kubernetes counts what each container writes, once per container, and nothing of whole devices"
        fix = f"write {LIMITS}{resource}: that is summed over devices" if limited_here else "remove it"
        return Finding(Fault.PARTIAL, entry, problem, fix)
    if limited_here:
        return Finding(Fault.UNENFORCED, entry, "nobody enforces it", f"write {LIMITS}{resource}")
    problem = f"nobody enforces it: no node offers {resource}" if prefix == REQUESTS else "nobody enforces it"
    return Finding(Fault.UNENFORCED, entry, problem, _instead(resource, resources))


def _instead(resource: str, resources: Mapping[str, tuple[Dimension, int]]) -> str:
    """A fix: the limit that was probably meant, or a list of the existing limits."""
    domain, _, name = resource.partition("/")
    there = {limited.partition("/")[2]: limited for limited in resources if limited.startswith(f"{domain}/")}
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
    if near:
        return f"did you mean {LIMITS}{there[near[0]]}?"
    shown = ", ".join(LIMITS + there[name] for name in sorted(there)[:SHOWN])
    return f"existing limits: {shown}" + ("…" if len(there) > SHOWN else "")
