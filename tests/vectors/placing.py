"""Converts device, request and pod records of the placement groups to our types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hami_nvidia import Nvidia, NvidiaConfig

from hami_core.inventory.nodes import FamilyDevices, Node
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    Device,
    NodeFacts,
    PodRequest,
    Request,
    Slice,
    VendorRules,
    Weights,
)
from hami_core.placement import Card

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory import Inventory

UNSET = 101
"""HAMi's value for "no percentage given"."""


def nvidia_rules(**config: Any) -> VendorRules:
    """NVIDIA's rules, as placement uses them."""
    nvidia = Nvidia()
    (family,) = nvidia.families(NvidiaConfig(**config), None)
    return VendorRules(
        family,
        check_type=nvidia.check_type,
        check_uuid=nvidia.check_uuid,
        choose=lambda request, candidates, policy, devices: nvidia.choose(request, candidates),
        account=lambda request, device, piece, taken: nvidia.account(device, piece),
    )


def device(record: Mapping[str, Any], position: int, *, cordoned: bool = False, **changes: Any) -> Device:
    """A device record (keys as in the conventions of the file)."""
    values = {
        "id": record.get("id", f"device-{position}"),
        "index": record.get("index", 0),
        "slots": record.get("count", 0),
        "memory_mib": record.get("totalmem", record.get("devmem", 0)),
        "cores": record.get("totalcore", record.get("devcore", 0)),
        "type": record.get("type", "NVIDIA"),
        "family": "NVIDIA",
        "numa": record.get("numa", 0),
        "mode": record.get("mode", ""),
        "healthy": record.get("health", True),
        "cordoned": cordoned,
    }
    return Device(**(values | changes))


def card(record: Mapping[str, Any], position: int = 0, **changes: Any) -> Card:
    """A device record with its use."""
    used = (record.get("used", 0), record.get("usedmem", 0), record.get("usedcores", 0))
    return Card(device(record, position, **changes), position, *used)


def request(
    record: Mapping[str, Any], annotations: Mapping[str, str] | None = None, *, numa_bind: bool = False
) -> Request:
    """A request record."""
    percent = record.get("pct", UNSET)
    return Request(
        record.get("type", "NVIDIA"),
        record.get("nums", 1),
        record.get("mem", 0),
        None if percent == UNSET else percent,
        record.get("cores", 0),
        annotations=annotations or {},
        numa_bind=numa_bind,
    )


def pod(
    init: Sequence[Mapping[str, Any] | None],
    app: Sequence[Mapping[str, Any] | None],
    *,
    device_policy: str = "",
    node_policy: str = "",
    weights: Mapping[str, int] | None = None,
    numa_bind: bool = False,
) -> PodRequest:
    """A pod of request records. None is a container without a request."""
    kinds = [(ContainerKind.INIT, r) for r in init] + [(ContainerKind.APP, r) for r in app]
    containers = tuple(
        ContainerRequest(f"c{i}", kind, () if r is None else (request(r, numa_bind=numa_bind),))
        for i, (kind, r) in enumerate(kinds)
    )
    return PodRequest("uid", "default", "pod", containers, node_policy, device_policy, Weights(**(weights or {})))


def register(inventory: Inventory, name: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Put a node into an inventory. One running pod holds what the records say is used."""
    devices = [device(record, position) for position, record in enumerate(records)]
    inventory.set_node(NodeFacts(name), {"NVIDIA": devices})
    slices = tuple(
        Slice(one.id, "NVIDIA", record.get("usedmem", 0), record.get("usedcores", 0), slots=record["used"])
        for one, record in zip(devices, records, strict=True)
        if record.get("used")
    )
    if slices:
        inventory.set_pod(booking(f"on-{name}", name, [(ContainerKind.APP, slices)]))


def node(records: Sequence[Mapping[str, Any]]) -> Node:
    """The inventory's state of a node with the use in the records."""
    family = FamilyDevices(device(record, position) for position, record in enumerate(records))
    for record, one in zip(records, family.devices, strict=True):
        position = family.positions[one.id]
        amounts = (record.get("used", 0), record.get("usedcores", 0), record.get("usedmem", 0))
        family.slots[position], family.cores[position], family.memory[position] = amounts
        family.used = [sum(pair) for pair in zip(family.used, amounts, strict=True)]
    return Node(NodeFacts("n1"), families={"NVIDIA": family})


def rows(raw: Sequence[Any]) -> list[list[Slice]]:
    """Slices by container, parsed from the rows of the groups.

    A row is an object, or a list ``[uuid, mem, cores]`` with an optional type after ``uuid`` and optional slots at the
    end. A list of rows is one container.
    """
    if raw and (isinstance(raw[0], dict) or (isinstance(raw[0], list) and raw[0] and isinstance(raw[0][0], str))):
        raw = [raw]
    return [[_row(row) for row in container or ()] for container in raw]


def _row(row: Any) -> Slice:
    if isinstance(row, dict):
        row = [row.get("uuid") or row.get("id"), *(row.get(f"used{k}", row.get(k, 0)) for k in ("mem", "cores"))]
    uuid, *amounts = row
    if amounts and isinstance(amounts[0], str):
        amounts = amounts[1:]
    memory, cores, slots = (*amounts, *(0, 0, 1)[len(amounts) :])
    return Slice(uuid, "NVIDIA", memory, cores, slots=slots)


def booking(uid: str, node: str, containers: Sequence[tuple[ContainerKind, Sequence[Slice]]]) -> Booking:
    """A running pod."""
    parts = tuple(ContainerSlices(f"c{i}", kind, tuple(slices)) for i, (kind, slices) in enumerate(containers))
    return Booking(uid, "default", uid, Allocation(node, parts))
