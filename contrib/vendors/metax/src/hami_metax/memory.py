"""Reads the memory of an sGPU: a bare number counts GiB, a number with a unit counts bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core import RequestError, WireError
from hami_core.vendorkit import parse_amount, parse_quantity, quantity_of

if TYPE_CHECKING:
    from hami_core import ContainerSpec

MIB: Final = 1 << 20
MIB_PER_GIB: Final = 1024
MOST_GIB: Final = (2**31 - 1) // MIB_PER_GIB
"""Largest amount: HAMi keeps MiB in 32 bits."""


def vmemory_mib(container: ContainerSpec, resource: str) -> int:
    """Return the MiB that a container asks for on each sGPU; 0: it names no amount and gets all memory of the card.

    As in HAMi, any letter makes the number one of bytes, and parts of a MiB are dropped. The API server writes 1000 as
    ``1k``, so a bare number of thousands is refused too; no card has so many GiB.

    Raises:
        RequestError: The amount can't be read, is less than 1 MiB, or is above `MOST_GIB`.
    """
    text = quantity_of(container, resource)
    if text is None:
        return 0
    where = f"container {container.name}"
    if not any(character.isalpha() for character in text):
        return parse_amount(text, where=where, field=resource, maximum=MOST_GIB) * MIB_PER_GIB
    try:
        found = parse_quantity(text)
    except WireError as error:
        raise RequestError(where, resource, error.problem, "write 16 for 16 GiB, or 16Gi") from None
    if found != 0 and not MIB <= found <= MOST_GIB * MIB_PER_GIB * MIB:
        problem = f"{text!r} has a unit, so it counts bytes; it must be from 1Mi to {MOST_GIB}Gi"
        raise RequestError(where, resource, problem, "write GiB without a unit, or an amount such as 512Mi")
    return int(found // MIB)
