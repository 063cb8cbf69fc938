"""``GET /usage``: nodes, devices and the slices booked on them as JSON, for ``hami top``.

Pods are named by UID alone, since a caller may have no right to list them. The text is made in pieces of about a
millisecond, between which other tasks run, so a Filter never waits for it. Each node is whole; two nodes may be of
different moments.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

import msgspec

from hami_core import clock
from hami_core.http.serve import Response, Route, text
from hami_core.http.token import guarded, no_token
from hami_core.placement.pod_usage import uses
from hami_core.scheduler.pace import PIECE_S, Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from datetime import datetime

    from hami_core.http.serve import Request
    from hami_core.inventory import Inventory
    from hami_core.model import Booking, DeviceUsage

SCHEMA: Final = 1
"""Version of the form. It grows when a field changes its meaning or goes; a new field leaves it as it is."""
PIECE_BYTES: Final = 64 * 1024


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """An amount of a device.

    Attributes:
        slots: Slots.
        memory_mib: MiB.
        cores: Percent of the device's compute, or compute units (`DeviceUse.cores_are_units`).
    """

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0


class SliceUse(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one container has booked of a device, all its slices there together.

    Attributes:
        pod: UID of the pod.
        container: Name of the container.
        kind: Kind of the container: app, init or sidecar. An init container's slices count only until it has ended.
        slots: Slots.
        memory_mib: MiB; 0: no limit.
        cores: As in `Amounts`; 0: no limit.
    """

    pod: str
    container: str
    kind: str = "app"
    slots: int = 1
    memory_mib: int = 0
    cores: int = 0


class DeviceUse(msgspec.Struct, frozen=True):
    """A device.

    Attributes:
        id: Id, unique on the node.
        index: Ordinal on the node; -1: unknown.
        type: Model.
        family: Common word of the device's family.
        mode: Sharing mode.
        healthy: Whether new containers may get it.
        cordoned: Whether an operator closed it to new containers.
        registered: Whether its node lists it. If not, pods still have slices of a device that is gone.
        cores_are_units: Whether cores are compute units in place of percent.
        total: What the device offers.
        booked: What pods have booked.
        held: What is held for pods between Filter and Bind.
        slices: The slices booked on it.
    """

    id: str
    index: int
    type: str
    family: str
    mode: str
    healthy: bool
    cordoned: bool
    registered: bool
    cores_are_units: bool
    total: Amounts
    booked: Amounts
    held: Amounts
    slices: tuple[SliceUse, ...]


class NodeUse(msgspec.Struct, frozen=True):
    """A node with devices, or with pods that have booked some.

    Attributes:
        name: The node's name.
        holds: Number of pods that hold a place between Filter and Bind.
        devices: Its devices.
    """

    name: str
    holds: int
    devices: tuple[DeviceUse, ...]


class Usage(msgspec.Struct, frozen=True):
    """The whole answer.

    Attributes:
        schema: `SCHEMA`.
        time: When the answer was begun (RFC 3339, UTC).
        nodes: The nodes, in no order.
    """

    schema: int
    time: str
    nodes: tuple[NodeUse, ...]


_encode: Final = msgspec.json.Encoder().encode


def usage_route(
    inventory: Inventory,
    is_synced: Callable[[], bool],
    token: Callable[[], str] = no_token,
    *,
    now: Callable[[], datetime] = clock.now,
    piece_s: float = PIECE_S,
) -> Route:
    """The route. The query ``node=NAME``, which may be repeated, asks for these nodes only.

    Args:
        inventory: Nodes, bookings and holds.
        is_synced: Whether the cluster has been read.
        token: As for `hami_core.http.token.guarded`.
        now: The time.
        piece_s: How long to work before other tasks run.
    """

    async def usage(request: Request) -> Response:
        if not is_synced():
            return text(503, "the scheduler has not read the cluster yet\n")
        names = request.query.getall("node", []) or [*inventory.node_names(), *inventory.booked_nodes()]
        return Response(stream=_pieces(inventory, dict.fromkeys(names), now(), Pace(piece_s)))

    return Route("GET", "/usage", guarded(usage, token))


async def _pieces(inventory: Inventory, names: Iterable[str], now: datetime, pace: Pace) -> AsyncIterator[bytes]:
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    piece = bytearray(b'{"schema":%d,"time":"%s","nodes":[' % (SCHEMA, time.encode()))
    first = True
    for name in names:
        node = node_use(inventory, name)
        if node.devices:
            piece += _encode(node) if first else b"," + _encode(node)
            first = False
        if len(piece) > PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
        await pace.pause()
    yield bytes(piece) + b"]}"


def node_use(inventory: Inventory, name: str) -> NodeUse:
    """What `Usage` says of a node; without devices if it has none and none is booked there."""
    holds = inventory.holds_on(name)
    held = _held(holds)
    slices = _slices(inventory.bookings_on(name))
    known = inventory.usage(name)
    units = {word for word, rules in inventory.rules.items() if rules.family.cores_are_units}
    devices = [
        _device(usage, held.get(usage.device.id, Amounts()), slices.get(usage.device.id, {}), units) for usage in known
    ]
    gone = slices.keys() - {usage.device.id for usage in known}
    devices += [_gone(device, slices[device], units) for device in sorted(gone)]
    return NodeUse(name, len(holds), tuple(devices))


def _device(usage: DeviceUsage, held: Amounts, slices: dict[_Key, SliceUse], units: set[str]) -> DeviceUse:
    device = usage.device
    # A device may have been registered again with less memory than a hold was placed for.
    held = Amounts(
        min(held.slots, usage.used_slots),
        min(held.memory_mib, usage.used_memory_mib),
        min(held.cores, usage.used_cores),
    )
    booked = Amounts(
        usage.used_slots - held.slots, usage.used_memory_mib - held.memory_mib, usage.used_cores - held.cores
    )
    return DeviceUse(
        id=device.id,
        index=device.index,
        type=device.type,
        family=device.family,
        mode=device.mode,
        healthy=device.healthy,
        cordoned=device.cordoned,
        registered=True,
        cores_are_units=device.family in units,
        total=Amounts(device.slots, device.memory_mib, device.cores),
        booked=booked,
        held=held,
        slices=tuple(slices.values()),
    )


def _gone(device: str, slices: dict[_Key, SliceUse], units: set[str]) -> DeviceUse:
    family = next(iter(slices))[0]
    memory, cores = sum(s.memory_mib for s in slices.values()), sum(s.cores for s in slices.values())
    return DeviceUse(
        id=device,
        index=-1,
        type="",
        family=family,
        mode="",
        healthy=False,
        cordoned=False,
        registered=False,
        cores_are_units=family in units,
        total=Amounts(),
        booked=Amounts(sum(s.slots for s in slices.values()), memory, cores),
        held=Amounts(),
        slices=tuple(slices.values()),
    )


_Key = tuple[str, str, str]
"""Family, pod UID and container."""


def _slices(bookings: Iterable[Booking]) -> dict[str, dict[_Key, SliceUse]]:
    """Slices by device."""
    found: dict[str, dict[_Key, SliceUse]] = {}
    for booking in bookings:
        for container in booking.allocation.containers:
            for piece in container.slices:
                here = found.setdefault(piece.device_id, {})
                key = piece.family, booking.uid, container.name
                one = here.get(key)
                slots, memory, cores = (one.slots, one.memory_mib, one.cores) if one else (0, 0, 0)
                slots, memory, cores = slots + max(piece.slots, 1), memory + piece.memory_mib, cores + piece.cores
                here[key] = SliceUse(booking.uid, container.name, container.kind.value, slots, memory, cores)
    return found


def _held(holds: Iterable[Booking]) -> dict[str, Amounts]:
    """What holds take of each device. Usage counts a hold at its peak, too."""
    found: dict[str, Amounts] = {}
    for hold in holds:
        for use in uses(hold.allocation.containers):
            one = found.get(use.device_id, Amounts())
            found[use.device_id] = Amounts(
                one.slots + use.slots, one.memory_mib + use.memory_mib, one.cores + use.cores
            )
    return found
