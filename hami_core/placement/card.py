"""One device while a pod is being placed: its sums change as containers take slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.model import DeviceUsage

if TYPE_CHECKING:
    from hami_core.model import Device, MigPlacement, Slice


class Card:
    """A device with the sums booked on it, mutable and short-lived.

    Attributes:
        device: The device as advertised.
        position: Its place among the node's devices of the family, in index order.
        used_slots: Slots taken.
        used_memory: MiB taken.
        used_cores: Percent taken.
        mig: Placements of MIG instances taken.
        pods: ``namespace/name`` of the pods on it.
        kept: Whether a pod on it keeps other pods off; set after the card is made.
        score: Device score including the present container's request; set before the cards are sorted.
    """

    __slots__ = ("device", "kept", "mig", "pods", "position", "score", "used_cores", "used_memory", "used_slots")

    def __init__(  # noqa: PLR0917 - sums in the order of DeviceUsage
        self,
        device: Device,
        position: int,
        used_slots: int = 0,
        used_memory: int = 0,
        used_cores: int = 0,
        mig: tuple[MigPlacement, ...] = (),
        pods: tuple[str, ...] = (),
    ) -> None:
        self.device = device
        self.position = position
        self.used_slots = used_slots
        self.used_memory = used_memory
        self.used_cores = used_cores
        self.mig = mig
        self.pods = pods
        self.kept = False
        self.score = 0.0

    @property
    def numa(self) -> int:
        """NUMA node."""
        return self.device.numa

    def take(self, piece: Slice) -> None:
        """Book a slice."""
        self.used_slots += max(piece.slots, 1)
        self.used_memory += piece.memory_mib
        self.used_cores += piece.cores
        if piece.mig_placement is not None:
            self.mig = (*self.mig, piece.mig_placement)

    def give_back(self, piece: Slice) -> None:
        """Undo `take` of the same slice."""
        self.used_slots -= max(piece.slots, 1)
        self.used_memory -= piece.memory_mib
        self.used_cores -= piece.cores
        if piece.mig_placement is not None:
            left = list(self.mig)
            left.remove(piece.mig_placement)
            self.mig = tuple(left)

    def usage(self, extra: tuple[MigPlacement, ...] = ()) -> DeviceUsage:
        """The card as hooks see it. ``extra`` has the MIG placements that the present container has taken so far."""
        return DeviceUsage(
            self.device, self.used_slots, self.used_memory, self.used_cores, self.pods, (*self.mig, *extra)
        )

    @classmethod
    def of(cls, usage: DeviceUsage, position: int) -> Card:
        """Make a card from a frozen usage."""
        used = (usage.used_slots, usage.used_memory_mib, usage.used_cores)
        return cls(usage.device, position, *used, usage.mig_in_use, usage.pods)
