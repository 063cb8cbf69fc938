"""Warnings in the admission answer: valid requests that their author can hardly mean. Pure.

Such a request is accepted as HAMi accepts it; a warning never refuses. It travels in an HTTP header and is cut there.
So every text is ASCII, short and free of double quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.placement.fit import WHOLE_CARD
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES
from hami_core.vendorkit import amount_of, quantity_of
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.model import ContainerSpec, Family, Request

SMALL_MIB: Final = 300
"""No useful program runs with less: a CUDA context and its code take about 100 to 500 MiB of a card."""


def on_policies(annotations: Mapping[str, str]) -> Iterator[str]:
    """Words of the policy annotations that name no policy and are ignored."""
    for key, words in ((keys.NODE_POLICY, NODE_POLICIES), (keys.DEVICE_POLICY, DEVICE_POLICIES)):
        unknown = sorted({word.strip() for word in annotations.get(key, "").split(",")} - {*words, ""})
        if unknown:
            shown = _ascii(unknown[0][:64])
            yield f"pod: annotation {key}: {shown} is not a policy and is ignored (write {', '.join(sorted(words))})"


def on_amounts(container: ContainerSpec, family: Family, request: Request | None, largest_mib: int) -> Iterator[str]:
    """Amounts that a container asks of one family and can hardly mean.

    Args:
        container: The container as the user wrote it.
        family: The family.
        request: The request that the vendor made of it; None: it asks for no device.
        largest_mib: Memory of the largest card of the family on any registered node; 0: there is none.
    """
    names = family.resources
    where = f"container {container.name}"
    if request is None:
        amounts = [n for n in names.names()[1:] if n and quantity_of(container, n) is not None]
        if amounts:
            count = "is 0" if quantity_of(container, names.count) is not None else "is missing"
            yield f"{where}: {amounts[0]} gives no device: {names.count} {count}"
        return
    written = quantity_of(container, names.memory) is not None
    memory = request.memory_mib if written else 0
    if memory > largest_mib > 0:
        yield f"{where}: {names.memory}: {memory} MiB, and the largest card seen has {largest_mib} MiB"
    if 0 < memory < SMALL_MIB:
        yield f"{where}: {names.memory}: {memory} MiB a card; a program's context alone may take more"
    if memory and quantity_of(container, names.memory_percentage) is not None:
        yield f"{where}: {names.memory_percentage} is ignored, because {names.memory} is set too"
    cores = amount_of(container, names.cores) or 0  # the vendor may have written another amount into the pod
    if cores > WHOLE_CARD <= request.cores:
        yield f"{where}: {names.cores}: {cores} is taken as {WHOLE_CARD}"


def _ascii(text: str) -> str:
    return ascii(text).replace('"', "'")
