"""Finds a node's devices, by its register annotation or by its capacity."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError
from hami_core.model import INT32_MAX, Device
from hami_core.vendorkit.rounding import ceil_div
from hami_core.wire import keys
from hami_core.wire.node import decode_cordon, decode_devices_csv, decode_devices_json, decode_pair_scores
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hami_core.model import Family, NodeFacts, Slice

MAX_CAPACITY: Final = 10**9
"""Largest capacity of one resource that is accepted from a node object."""
MAX_CARDS: Final = 1024
"""Most cards that are derived from a node's capacity."""
_CARD_NUMBER: Final = re.compile(r"(\d{1,4})$", re.ASCII)


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


def read_csv_registers(node: NodeFacts, families: Iterable[Family]) -> tuple[Device, ...] | None:
    """Read the devices of several families from registers in HAMi's older form; None: the node has none of them.

    Raises:
        WireError: An annotation is malformed.

    Example:
        >>> words = ("X1", "X2")
        >>> chips = [Family(w, Resources(f"acme.example/{w}"), f"hami.io/{w}", register_key=f"reg-{w}") for w in words]
        >>> node = NodeFacts("n1", {"reg-X2": "A-0,10,32768,100,X2,0,true,0,hami-core:"})
        >>> [(device.id, device.family) for device in read_csv_registers(node, chips)]
        [('A-0', 'X2')]
    """
    found = [devices for family in families if (devices := read_csv_register(node, family)) is not None]
    return tuple(chain.from_iterable(found)) if found else None


def unregistered_devices(node: NodeFacts, family: Family, plugin: str) -> tuple[Device, ...] | None:
    """List the devices of a node that has no register although the kubelet offers devices of the family.

    Another plugin than HAMi's serves such a node, and only that plugin knows which device a pod would get. So no pod
    gets one. The devices are unhealthy, and the events of pods say why.

    Args:
        node: The node, without the family's register annotation.
        family: The family. One device stands for each of its count resource.
        plugin: The plugin that writes the register.

    Returns:
        The devices; None if the kubelet offers none.

    Raises:
        WireError: The node's capacity can't be read.

    Example:
        >>> acme = Family("ACME", Resources("acme.example/npu"), "hami.io/acme", register_key="acme.example/register")
        >>> node = NodeFacts("n1", capacity={"acme.example/npu": "1"})
        >>> [device.not_offered for device in unregistered_devices(node, acme, "acme-device-plugin")]
        ['the node annotation acme.example/register is missing: another plugin than acme-device-plugin serves the node']
    """
    found = capacity_devices(node, family, f"{family.word.lower()}-unregistered", memory_mib=0, cores=0)
    problem = f"the node annotation {family.register_key} is missing: another plugin than {plugin} serves the node"
    return found and tuple(replace(device, healthy=False, not_offered=problem) for device in found)


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


def capacity_devices(
    node: NodeFacts,
    family: Family,
    prefix: str,
    *,
    counted: str = "",
    per_card: int = 1,
    slots: int = 1,
    memory_mib: int | None = None,
    cores: int = 100,
    model: str = "",
    mode: str = "",
) -> tuple[Device, ...] | None:
    """Derive equal cards from a node's capacity, as HAMi does for vendors whose plugin writes no register.

    A node has one card for every ``per_card`` units of the counted resource, rounded up. Card i has the id
    ``<node>-<prefix>-<i>``.

    Args:
        node: The node.
        family: The family of the cards.
        prefix: HAMi's word in the ids.
        counted: The resource whose capacity says how many cards there are; empty: the family's count.
        per_card: Units of that resource on each card.
        slots: Containers that may share a card.
        memory_mib: MiB of each card. None: the capacity of the family's memory resource, in equal parts.
        cores: Percent of compute of each card.
        model: Model of the cards; empty: the family's word.
        mode: Sharing mode of the cards.

    Returns:
        The cards; None if the node does not have the counted resource.

    Raises:
        WireError: A capacity is not a whole number within its bounds, or the cards would be too many or too large.

    Example:
        >>> names = Resources("acme.example/npu", memory="acme.example/memory", cores="acme.example/cores")
        >>> acme = Family("ACME", names, "hami.io/acme", memory_factor=256)
        >>> node = NodeFacts("n1", capacity={"acme.example/cores": "200", "acme.example/memory": "192"})
        >>> cards = capacity_devices(node, acme, "acme", counted="acme.example/cores", per_card=100, slots=100)
        >>> [(card.id, card.memory_mib) for card in cards]
        [('n1-acme-0', 24576), ('n1-acme-1', 24576)]
    """
    resource = counted or family.resources.count
    if resource not in node.capacity:
        return None
    total = capacity(node, resource)
    if memory_mib is None:
        units = capacity(node, family.resources.memory)
        memory_mib = units * family.memory_factor * per_card // total if total else 0
    cards = ceil_div(total, per_card)
    if cards > MAX_CARDS or memory_mib > INT32_MAX:
        problem = f"{cards} cards of {memory_mib} MiB; at most {MAX_CARDS} cards of {INT32_MAX} MiB are accepted"
        raise WireError(f"capacity {resource}", -1, problem)
    word = family.word
    return tuple(
        Device(f"{node.name}-{prefix}-{i}", i, slots, memory_mib, cores, model or word, word, mode=mode)
        for i in range(cards)
    )


def card_number(piece: Slice) -> int:
    """Return the number of a card of `capacity_devices`: the slice's index, or else the number at the end of its id.

    Raises:
        WireError: The slice has neither.

    Example:
        >>> card_number(Slice("n1-acme-3", "ACME", 24576, 100))
        3
    """
    if piece.index >= 0:
        return piece.index
    found = _CARD_NUMBER.search(piece.device_id)
    if found is None:
        raise WireError("allocation", -1, f"device {piece.device_id!r} has no number at the end of its id")
    return int(found[1])
