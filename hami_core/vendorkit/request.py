"""Turns container limits into numbers, by HAMi's rules for count, memory, percentage and cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_core.model import INT32_MAX, Request
from hami_core.wire.quantity import parse_amount, parse_memory, parse_whole

if TYPE_CHECKING:
    from hami_core.model import ContainerSpec, Family, PodFacts


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """What a container gets that names no memory or no cores.

    Attributes:
        memory_mib: MiB on each device; 0: all memory of the device.
        cores: Percent of each device's compute.

    Example:
        >>> RequestDefaults(memory_mib=4096).cores
        0
    """

    memory_mib: int = 0
    cores: int = 0


_NONE = RequestDefaults()


def quantity_of(container: ContainerSpec, resource: str) -> str | None:
    """Return a container's amount of a resource as written: its limit, else its request; None: it has neither.

    Example:
        >>> quantity_of(ContainerSpec("main", ContainerKind.APP, {"acme.example/npu": "2"}), "acme.example/npu")
        '2'
    """
    if not resource:
        return None
    found = container.limits.get(resource)
    return container.requests.get(resource) if found is None else found


def amount_of(container: ContainerSpec, resource: str, *, maximum: int = INT32_MAX) -> int | None:
    """Return a container's amount of a resource, a whole number from 0 to ``maximum``; None: it has none.

    Raises:
        RequestError: The amount is negative, fractional, too large or not a quantity.

    Example:
        >>> main = ContainerSpec("main", ContainerKind.APP, {"acme.example/npu": "2"})
        >>> amount_of(main, "acme.example/npu"), amount_of(main, "acme.example/npu-cores")
        (2, None)
    """
    text = quantity_of(container, resource)
    if text is None:
        return None
    return parse_amount(text, where=f"container {container.name}", field=resource, maximum=maximum)


def memory_of(container: ContainerSpec, resource: str, factor: int = 1) -> int | None:
    """Return a container's amount of a memory resource in MiB, at most 1 TiB; None: it has none.

    Args:
        container: The container.
        resource: The memory resource.
        factor: MiB per unit of the resource; 0 counts as 1.

    Raises:
        RequestError: The amount is negative, fractional, too large, has a unit or is not a quantity.

    Example:
        >>> main = ContainerSpec("main", ContainerKind.APP, {"acme.example/npu-memory": "6"})
        >>> memory_of(main, "acme.example/npu-memory", factor=512)
        3072
    """
    text = quantity_of(container, resource)
    if text is None:
        return None
    return parse_memory(text, where=f"container {container.name}", field=resource, factor=max(factor, 1))


def is_zero_beside_amounts(container: ContainerSpec, family: Family) -> bool:
    """Whether a container writes a count of 0 together with other amounts of the family.

    Such a container gets no device, but its pod must go to our scheduler. No node has the other amounts as resources,
    and only our scheduler ignores them.

    Raises:
        RequestError: The count is not a whole number.

    Example:
        >>> acme = Family("ACME", Resources("acme.example/npu", "acme.example/npu-memory"), "hami.io/acme")
        >>> limits = {"acme.example/npu": "0", "acme.example/npu-memory": "4096"}
        >>> is_zero_beside_amounts(ContainerSpec("main", ContainerKind.APP, limits), acme)
        True
    """
    names = family.resources
    others = any(name in container.limits for name in names.names() if name != names.count)
    return others and names.count in container.limits and amount_of(container, names.count) == 0


def default_parse_request(
    container: ContainerSpec, pod: PodFacts, family: Family, defaults: RequestDefaults = _NONE
) -> Request | None:
    """Read count, memory, percentage and cores of one container for one family.

    The rules are HAMi's. A limit wins over a request. Memory is in units of ``memory_factor`` MiB. An amount of memory
    above 0 wins over a percentage. A percentage above 100 counts as 100; a percentage of 0 or less counts as none.
    Without amount and percentage, the container gets the default memory, or all memory if there is no default. Unlike
    HAMi, which treats a malformed amount as no request, this function refuses it.

    Returns:
        The request, or None if the count is missing or 0.

    Raises:
        RequestError: An amount is negative, fractional, too large, has a unit or is not a quantity.

    Example:
        >>> acme = Family("ACME", Resources("acme.example/npu", "acme.example/npu-memory"), "hami.io/acme")
        >>> limits = {"acme.example/npu": "2", "acme.example/npu-memory": "4096"}
        >>> main = ContainerSpec("main", ContainerKind.APP, limits)
        >>> request = default_parse_request(main, PodFacts("default", "one", "3f1c"), acme)
        >>> request.count, request.memory_mib
        (2, 4096)
    """
    names = family.resources
    count = amount_of(container, names.count)
    if not count:
        return None
    memory = memory_of(container, names.memory, family.memory_factor) or 0
    percent = _percentage(container, names.memory_percentage)
    if not memory and percent is None:
        memory = defaults.memory_mib
        percent = None if memory else 100
    cores = amount_of(container, names.cores)
    return Request(
        family=family.word,
        count=count,
        memory_mib=memory,
        memory_percent=percent,
        cores=defaults.cores if cores is None else cores,
        annotations=pod.annotations,
    )


def _percentage(container: ContainerSpec, resource: str) -> int | None:
    text = quantity_of(container, resource)
    if text is None:
        return None
    value = parse_whole(text, where=f"container {container.name}", field=resource)
    return min(value, 100) if value > 0 else None
