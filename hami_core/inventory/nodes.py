"""One node in the inventory: its devices by family, with the sums of bookings and holds.

Here the sums are plain integers. The columns of `hami_core.inventory.table` hold copies of them for the whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from hami_core.model import DeviceUsage
from hami_core.placement.card import Card, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import Device, DeviceKind, MigPlacement, NodeFacts, Slice
    from hami_core.placement.pod_usage import Use


MIG_MODE: Final = "mig"
"""Mode of a device that is partitioned into MIG instances."""


class FamilyDevices:
    """One family's devices on one node, in index order. Devices with equal indexes keep the order of the register.

    A device that is listed twice counts once, at its first place. A device in MIG mode may hold a slice without an
    instance, and a device in another mode an instance. Then its free part is unknown, so it takes no new pods until
    that slice has ended.

    Args:
        devices: The devices as their node registers them.
        keeps_slices: Whether the family has a ``mode_key``, so that rules see the slices on each device.
    """

    __slots__ = (
        "_keeping_off",
        "_mixed_mig",
        "_usages",
        "cores",
        "devices",
        "memory",
        "mig",
        "pods",
        "positions",
        "slices",
        "slots",
        "totals",
        "used",
    )

    def __init__(self, devices: Iterable[Device], *, keeps_slices: bool = False) -> None:
        unique: dict[str, Device] = {}
        for device in devices:
            unique.setdefault(device.id, device)
        self.devices = tuple(sorted(unique.values(), key=_index))
        self.positions = {device.id: position for position, device in enumerate(self.devices)}
        self.totals = (
            sum(d.slots for d in self.devices),
            sum(d.cores for d in self.devices),
            sum(d.memory_mib for d in self.devices),
        )
        self.used = [0, 0, 0]
        self.slots = [0] * len(self.devices)
        self.memory = [0] * len(self.devices)
        self.cores = [0] * len(self.devices)
        self.mig: list[tuple[MigPlacement, ...]] = [()] * len(self.devices)
        self.pods: list[tuple[str, ...]] = [()] * len(self.devices)
        self.slices: list[tuple[Slice, ...]] | None = [()] * len(self.devices) if keeps_slices else None
        self._mixed_mig = [0] * len(self.devices)
        self._keeping_off = [0] * len(self.devices)
        self._usages: list[DeviceUsage | None] = [None] * len(self.devices)

    def healthy(self, position: int) -> bool:
        """Whether a device takes new pods. Ignores the cordon."""
        return self.devices[position].healthy and not self._mixed_mig[position]

    def kept(self, position: int) -> bool:
        """Whether a pod keeps others off a device. The word counts only while the pod is alone there.

        So a pod that shares a device gains nothing when it names the policy later.
        """
        return self._keeping_off[position] > 0 and len(self.pods[position]) == 1

    def kind(self, position: int) -> DeviceKind:
        """A device's kind, with the modes in which containers share it now."""
        device = self.devices[position]
        return kind_of(device, self.slices[position]) if self.slices and self.slices[position] else device.kind

    def empty(self) -> FamilyDevices:
        """The same devices with nothing booked."""
        return FamilyDevices(self.devices, keeps_slices=self.slices is not None)

    def apply(self, use: Use, pod: str, sign: int, *, keeps_off: bool = False) -> int:
        """Add (+1) or remove (-1) a pod's usage of a device.

        An annotation may claim any amount. So each slot counts at most the device's own size.

        Returns:
            The device's position; -1: the node has no such device, and nothing is counted.
        """
        position = self.positions.get(use.device_id, -1)
        if position < 0:
            return position
        self._usages[position] = None
        device = self.devices[position]
        if use.unplaced if device.mode == MIG_MODE else use.mig:
            self._mixed_mig[position] += sign
        self._keeping_off[position] += sign * keeps_off
        memory = min(use.memory_mib, device.memory_mib * use.slots)
        cores = min(use.cores, device.cores * use.slots)
        self.slots[position] += sign * use.slots
        self.memory[position] += sign * memory
        self.cores[position] += sign * cores
        self.used[0] += sign * use.slots
        self.used[1] += sign * cores
        self.used[2] += sign * memory
        if sign > 0:
            self.mig[position] += use.mig
            self.pods[position] = tuple(sorted((*self.pods[position], pod)))
        else:
            self.mig[position] = _without(self.mig[position], use.mig)
            self.pods[position] = _without(self.pods[position], (pod,))
        if self.slices is not None:
            held = self.slices[position]
            self.slices[position] = held + use.slices if sign > 0 else _without(held, use.slices)
        return position

    def has_room(self, use: Use) -> bool:
        """Whether a device has room for this usage. MIG instances only need a free placement."""
        position = self.positions.get(use.device_id, -1)
        if position < 0 or self.slots[position] + use.slots > self.devices[position].slots:
            return False
        if use.mig:
            return not any(overlap(mine, theirs) for mine in use.mig for theirs in self.mig[position])
        device = self.devices[position]
        return (
            self.memory[position] + use.memory_mib <= device.memory_mib
            and self.cores[position] + use.cores <= device.cores
        )

    def cards(self) -> list[Card]:
        """Fresh cards to place a pod on."""
        keeps = self.slices is not None
        cards = [
            Card(
                now.device,
                position,
                now.used_slots,
                now.used_memory_mib,
                now.used_cores,
                now.mig_in_use,
                now.pods,
                now.slices if keeps else None,
                now,
            )
            for position, now in enumerate(self.usage())
        ]
        if any(self._keeping_off):
            for card in cards:
                card.kept = self.kept(card.position)
        return cards

    def usage(self) -> list[DeviceUsage]:
        """The devices with their sums. Each is kept until `apply` changes the device."""
        return [kept or self._usage(position) for position, kept in enumerate(self._usages)]

    def _usage(self, position: int) -> DeviceUsage:
        sums = self.slots[position], self.memory[position], self.cores[position]
        slices = self.slices[position] if self.slices is not None else ()
        made = DeviceUsage(self._now(position), *sums, self.pods[position], self.mig[position], slices)
        self._usages[position] = made
        return made

    def _now(self, position: int) -> Device:
        device = self.devices[position]
        return replace(device, healthy=False) if self._mixed_mig[position] else device

    def sums(self) -> tuple[Sequence[object], ...]:
        """Everything that `apply` changes, in a form that does not depend on the order of bookings."""
        mig = [sorted(placements, key=_extent) for placements in self.mig]
        slices = [sorted(map(repr, held)) for held in self.slices or ()]
        return self.slots, self.memory, self.cores, self.used, self._mixed_mig, self._keeping_off, mig, slices


_T = TypeVar("_T")


@dataclass(slots=True)
class Node:
    """One node.

    Attributes:
        facts: The part of the node object that vendors see.
        column: Its column in the cluster's tables; -1: none yet.
        closed: Whether it takes no new pods, because a vendor could not read its devices.
        barred: Common word → why the node gives no new pod devices of that family, such as an absent agent.
        families: Devices by common word.
        generation: A number that grows whenever the devices change.
        verdicts: Whether pods fit, by the number of their shape (`hami_core.inventory.shapes`): what the vendors'
            scores add to the node's score, or None if such a pod does not fit. Empty after each change of the node.
    """

    facts: NodeFacts
    column: int = -1
    closed: bool = False
    barred: Mapping[str, str] = field(default_factory=dict)
    families: dict[str, FamilyDevices] = field(default_factory=dict)
    generation: int = 0
    verdicts: dict[int, float | None] = field(default_factory=dict)

    def totals(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """(used, total) of slots, cores and memory over all devices of all vendors."""
        kinds = self.families.values()
        slots, cores, memory = ((sum(f.used[i] for f in kinds), sum(f.totals[i] for f in kinds)) for i in range(3))
        return slots, cores, memory

    def bar(self, words: Iterable[str]) -> str:
        """Why one of these families is barred on the node; empty: none is."""
        return next((self.barred[word] for word in words if word in self.barred), "") if self.barred else ""

    def cards(self, words: Sequence[str]) -> dict[str, list[Card]]:
        """Fresh cards of the named families."""
        return {word: self.families[word].cards() for word in words if word in self.families}


def overlap(one: MigPlacement, other: MigPlacement) -> bool:
    """Whether two MIG placements share a memory slice."""
    return one.start < other.start + other.size and other.start < one.start + one.size


def _index(device: Device) -> int:
    return device.index


def _extent(placement: MigPlacement) -> tuple[int, int]:
    return placement.start, placement.size


def _without(items: tuple[_T, ...], gone: tuple[_T, ...]) -> tuple[_T, ...]:
    left = list(items)
    for item in gone:
        left.remove(item)
    return tuple(left)
