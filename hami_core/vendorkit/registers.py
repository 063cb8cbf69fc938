"""Where devices come from: a register annotation on the node, or the node's capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError
from hami_core.wire.node import decode_devices_csv, decode_devices_json
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from hami_core.model import Device, Family, NodeFacts

MAX_CAPACITY: Final = 10**9
"""Largest capacity of one resource taken from a node object."""


def read_json_register(node: NodeFacts, family: Family) -> tuple[Device, ...] | None:
    """Devices from the family's register annotation in JSON form; None: the node has no such annotation.

    Raises:
        WireError: The annotation is malformed.
    """
    text = node.annotations.get(family.register_key)
    return None if text is None else decode_devices_json(text, key=family.register_key, family=family.word)


def read_csv_register(node: NodeFacts, family: Family) -> tuple[Device, ...] | None:
    """Devices from the family's register annotation in HAMi's older form; None: the node has no such annotation.

    Raises:
        WireError: The annotation is malformed.
    """
    text = node.annotations.get(family.register_key)
    return None if text is None else decode_devices_csv(text, key=family.register_key, family=family.word)


def capacity(node: NodeFacts, resource: str) -> int:
    """How much of an extended resource a node has; 0: none of it.

    Raises:
        WireError: The node's capacity is no whole number from 0 to 10⁹.
    """
    text = node.capacity.get(resource, "") if resource else ""
    if not text:
        return 0
    try:
        value = parse_quantity(text)
    except WireError as error:
        raise WireError(f"capacity {resource}", -1, error.problem) from None
    if not isinstance(value, int) or not 0 <= value <= MAX_CAPACITY:
        raise WireError(f"capacity {resource}", -1, f"{text!r} is no whole number from 0 to {MAX_CAPACITY}")
    return value
