"""Reads a node's devices from its register annotation or its capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError
from hami_core.wire import keys
from hami_core.wire.node import decode_cordon, decode_devices_csv, decode_devices_json, decode_pair_scores
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from hami_core.model import Device, Family, NodeFacts

MAX_CAPACITY: Final = 10**9
"""Largest capacity of one resource that is accepted from a node object."""


def read_json_register(node: NodeFacts, family: Family) -> tuple[Device, ...] | None:
    """Read devices from the family's register annotation in JSON; None: the node has no such annotation.

    Raises:
        WireError: The annotation is malformed.

    Example:
        >>> acme = Family("ACME", Resources("acme.example/npu"), "hami.io/acme", register_key="acme.example/register")
        >>> text = '[{"id": "A-0", "count": 10, "devmem": 32768, "devcore": 100, "type": "X1", "health": true}]'
        >>> [device.id for device in read_json_register(NodeFacts("n1", {"acme.example/register": text}), acme)]
        ['A-0']
    """
    text = node.annotations.get(family.register_key)
    return None if text is None else decode_devices_json(text, key=family.register_key, family=family.word)


def read_csv_register(node: NodeFacts, family: Family) -> tuple[Device, ...] | None:
    """Read devices from the family's register annotation in HAMi's older form; None: the node has no such annotation.

    Raises:
        WireError: The annotation is malformed.

    Example:
        >>> acme = Family("ACME", Resources("acme.example/npu"), "hami.io/acme", register_key="acme.example/register")
        >>> node = NodeFacts("n1", {"acme.example/register": "A-0,10,32768,100,X1,0,true,0,hami-core:"})
        >>> [(device.id, device.slots, device.memory_mib) for device in read_csv_register(node, acme)]
        [('A-0', 10, 32768)]
    """
    text = node.annotations.get(family.register_key)
    return None if text is None else decode_devices_csv(text, key=family.register_key, family=family.word)


def read_cordon(node: NodeFacts) -> frozenset[str]:
    """Read the ids of the devices that an operator closed to new containers (``hami.io/device-cordon``).

    Example:
        >>> sorted(read_cordon(NodeFacts("n1", {"hami.io/device-cordon": "ACME-1, ACME-0"})))
        ['ACME-0', 'ACME-1']
    """
    return decode_cordon(node.annotations.get(keys.DEVICE_CORDON, ""))


def read_pair_scores(node: NodeFacts, key: str) -> dict[str, dict[str, int]]:
    """Read the scores of the links between a node's devices: device id → other device id → score; empty: none.

    Raises:
        WireError: The annotation is malformed.

    Example:
        >>> text = '[{"uuid": "ACME-0", "score": {"ACME-1": 100}}]'
        >>> read_pair_scores(NodeFacts("n1", {"acme.example/links": text}), "acme.example/links")
        {'ACME-0': {'ACME-1': 100}}
    """
    text = node.annotations.get(key)
    return decode_pair_scores(text, key=key) if text else {}


def capacity(node: NodeFacts, resource: str) -> int:
    """Return a node's capacity of an extended resource; 0: it has none.

    Raises:
        WireError: The capacity is not a whole number from 0 to 10⁹.

    Example:
        >>> capacity(NodeFacts("n1", capacity={"acme.example/npu": "1k"}), "acme.example/npu")
        1000
    """
    text = node.capacity.get(resource, "") if resource else ""
    if not text:
        return 0
    try:
        value = parse_quantity(text)
    except WireError as error:
        raise WireError(f"capacity {resource}", -1, error.problem) from None
    if not isinstance(value, int) or not 0 <= value <= MAX_CAPACITY:
        raise WireError(f"capacity {resource}", -1, f"{text!r} is not a whole number from 0 to {MAX_CAPACITY}")
    return value
