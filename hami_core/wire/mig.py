"""MIG instances on the wire: the scheduler plans them, the node agent adds the ids of those that it made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import msgspec

from hami_core.errors import WireError
from hami_core.model import MigPlacement
from hami_core.wire import jsontext, keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import Allocation, MigInstance, Slice

_Index = Annotated[int, msgspec.Meta(ge=0, le=4096)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Slot = Annotated[int, msgspec.Meta(ge=0, le=1024)]


@dataclass(frozen=True, slots=True)
class MigReservation:
    """The MIG instance of one device in a container's list.

    Attributes:
        container_index: Position of the container in the pod, init containers first.
        device_index: Position of the device in the container's list of the family.
        gpu_uuid: UUID of the physical card.
        profile: Name of the profile, such as ``1g.5gb``.
        placement: Place of the instance on the card.
        mig_uuid: UUID of the instance that the node agent made; empty: not made yet.
        gpu_instance_id: The driver's id of the GPU instance, which may be 0; None: not made yet.
        compute_instance_id: The driver's id of the compute instance, which may be 0; None: not made yet.
    """

    container_index: int
    device_index: int
    gpu_uuid: str
    profile: str
    placement: MigPlacement
    mig_uuid: str = ""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None

    @property
    def made(self) -> bool:
        """Whether the node agent has made the instance."""
        return bool(self.mig_uuid) and self.gpu_instance_id is not None and self.compute_instance_id is not None

    @property
    def planned(self) -> MigReservation:
        """The reservation as the scheduler wrote it."""
        return replace(self, mig_uuid="", gpu_instance_id=None, compute_instance_id=None)


class _Placement(msgspec.Struct, kw_only=True):
    start: _Slot = 0
    size: Annotated[int, msgspec.Meta(ge=1, le=1024)]


class _Entry(msgspec.Struct, omit_defaults=True):
    containerIndex: _Index  # noqa: N815 - the wire's spelling
    deviceIndex: _Index  # noqa: N815
    gpuUUID: _Name  # noqa: N815
    profile: _Name
    placement: _Placement
    migUUID: Annotated[str, msgspec.Meta(max_length=253)] = ""  # noqa: N815
    gpuInstanceID: _Index | None = None  # noqa: N815
    computeInstanceID: _Index | None = None  # noqa: N815


_IDS = ("migUUID", "gpuInstanceID", "computeInstanceID")
_ENTRIES = msgspec.json.Decoder(list[_Entry] | None)


def encode_reservations(reservations: Iterable[MigReservation]) -> str:
    """Encode reservations in HAMi's JSON form."""
    return jsontext.encode(
        [
            _Entry(
                r.container_index,
                r.device_index,
                r.gpu_uuid,
                r.profile,
                _Placement(start=r.placement.start, size=r.placement.size),
                r.mig_uuid,
                r.gpu_instance_id,
                r.compute_instance_id,
            )
            for r in reservations
        ]
    )


def decode_reservations(text: str, *, key: str = keys.MIG_ALLOCATIONS) -> tuple[MigReservation, ...]:
    """Decode reservations; an empty text holds none.

    Raises:
        WireError: The text is malformed, a number is out of bounds, one (container, device) is listed twice, or only
            some of the three fields of the node agent are present. The whole value is then void.
    """
    if not text:
        return ()
    reservations: list[MigReservation] = []
    seen: set[tuple[int, int]] = set()
    for position, entry in enumerate(jsontext.decode(_ENTRIES, text, key=key) or []):
        made = (bool(entry.migUUID), entry.gpuInstanceID is not None, entry.computeInstanceID is not None)
        if any(made) and not all(made):
            raise WireError(key, position, "needs all of migUUID, gpuInstanceID and computeInstanceID, or none")
        where = (entry.containerIndex, entry.deviceIndex)
        if where in seen:
            raise WireError(key, position, f"container {where[0]}, device {where[1]} is reserved twice")
        seen.add(where)
        reservations.append(
            MigReservation(
                *where,
                entry.gpuUUID,
                entry.profile,
                MigPlacement(entry.placement.start, entry.placement.size),
                entry.migUUID,
                entry.gpuInstanceID,
                entry.computeInstanceID,
            )
        )
    return tuple(reservations)


def with_ids(text: str, made: Mapping[int, Sequence[MigInstance]], *, key: str = keys.MIG_ALLOCATIONS) -> str:
    """Add the ids of instances that were made to the reservations that they are for.

    Everything else stays as it is, also fields that are unknown here.

    Args:
        text: The annotation.
        made: The instances of each container, by the container's position in the pod.
        key: The annotation's key, for errors.

    Returns:
        The new annotation; ``text`` itself if it has all ids already.

    Raises:
        WireError: The text is malformed, as in `decode_reservations`.
    """
    reserved = decode_reservations(text, key=key)
    changed = False
    rows = msgspec.json.decode(text) if reserved else []
    for row, reservation in zip(rows, reserved, strict=True):
        place = reservation.gpu_uuid, reservation.placement
        own = next((m for m in made.get(reservation.container_index, ()) if (m.card, m.placement) == place), None)
        if own is not None:
            ids = (own.uuid, own.gpu_instance_id, own.compute_instance_id)
            changed |= ids != (reservation.mig_uuid, reservation.gpu_instance_id, reservation.compute_instance_id)
            row.update(zip(_IDS, ids, strict=True))
    return jsontext.encode(rows) if changed else text


def reservations(allocation: Allocation) -> tuple[MigReservation, ...]:
    """Return the reservations of an allocation's slices, as the scheduler writes them."""
    found: list[MigReservation] = []
    for position, container in enumerate(allocation.containers):
        index: dict[str, int] = {}
        for piece in container.slices:
            ordinal = index.get(piece.family, 0)
            index[piece.family] = ordinal + 1
            if piece.mig_profile and piece.mig_placement is not None:
                found.append(MigReservation(position, ordinal, piece.device_id, piece.mig_profile, piece.mig_placement))
    return tuple(found)


def apply_reservations(
    slices: Sequence[list[Slice]], reserved: Iterable[MigReservation], *, strict: bool = True
) -> None:
    """Write reservations into the slices that they are for, in place.

    Args:
        slices: The slices of each container, in the order of their lists.
        reserved: Decoded reservations.
        strict: Whether a reservation without its slice is an error; otherwise it is ignored.

    Raises:
        WireError: A reservation names a container, device or card that the slices do not have.
    """
    for number, reservation in enumerate(reserved):
        position = _position(slices, reservation)
        if position is None:
            if strict:
                problem = f"no slice of {reservation.gpu_uuid!r} for container {reservation.container_index}"
                raise WireError(keys.MIG_ALLOCATIONS, number, problem)
            continue
        container = slices[reservation.container_index]
        container[position] = replace(
            container[position], mig_profile=reservation.profile, mig_placement=reservation.placement, mode="mig"
        )


def _position(slices: Sequence[list[Slice]], reservation: MigReservation) -> int | None:
    if reservation.container_index >= len(slices):
        return None
    ordinals: dict[str, int] = {}
    for position, piece in enumerate(slices[reservation.container_index]):
        ordinal = ordinals.get(piece.family, 0)
        ordinals[piece.family] = ordinal + 1
        if ordinal == reservation.device_index and piece.device_id == reservation.gpu_uuid:
            return position
    return None
