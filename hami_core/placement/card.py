"""One device while a pod is being placed: its sums change as containers take slices."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hami_core.model import UNKNOWN_MODE, DeviceUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hami_core.model import Device, DeviceKind, MigPlacement, Slice


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
        slices: The slices taken; None: the family has no ``mode_key``, and they are not kept.
        kept: Whether a pod on it keeps other pods off; set after the card is made.
        frozen: The card as `usage` shows it; None: it has to be made.
        score: Device score including the present container's request; set before the cards are sorted.
    """

    __slots__ = (
        "device", "frozen", "kept", "mig", "pods", "position", "score", "slices", "used_cores", "used_memory",
        "used_slots",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - sums in the order of DeviceUsage
        self,
        device: Device,
        position: int,
        used_slots: int = 0,
        used_memory: int = 0,
        used_cores: int = 0,
        mig: tuple[MigPlacement, ...] = (),
        pods: tuple[str, ...] = (),
        slices: tuple[Slice, ...] | None = None,
        frozen: DeviceUsage | None = None,
    ) -> None:
        self.device = device
        self.position = position
        self.used_slots = used_slots
        self.used_memory = used_memory
        self.used_cores = used_cores
        self.mig = mig
        self.pods = pods
        self.slices = slices
        self.frozen = frozen
        self.kept = False
        self.score = 0.0

    @property
    def numa(self) -> int:
        """NUMA node."""
        return self.device.numa

    @property
    def kind(self) -> DeviceKind:
        """The device's kind, with the modes of the slices taken."""
        return kind_of(self.device, self.slices) if self.slices else self.device.kind

    def take(self, piece: Slice) -> None:
        """Book a slice."""
        self.frozen = None
        self.used_slots += max(piece.slots, 1)
        self.used_memory += piece.memory_mib
        self.used_cores += piece.cores
        if piece.mig_placement is not None:
            self.mig = (*self.mig, piece.mig_placement)
        if self.slices is not None:
            self.slices = (*self.slices, piece)

    def give_back(self, piece: Slice) -> None:
        """Undo `take` of the same slice."""
        self.frozen = None
        self.used_slots -= max(piece.slots, 1)
        self.used_memory -= piece.memory_mib
        self.used_cores -= piece.cores
        if piece.mig_placement is not None:
            left = list(self.mig)
            left.remove(piece.mig_placement)
            self.mig = tuple(left)
        if self.slices is not None:
            kept = list(self.slices)
            kept.remove(piece)
            self.slices = tuple(kept)

    def usage(self, extra: tuple[MigPlacement, ...] = ()) -> DeviceUsage:
        """The card as hooks see it. ``extra`` has the MIG placements that the present container has taken so far."""
        if extra:
            return self._usage((*self.mig, *extra))
        if self.frozen is None:
            self.frozen = self._usage(self.mig)
        return self.frozen

    def _usage(self, mig: tuple[MigPlacement, ...]) -> DeviceUsage:
        used = (self.used_slots, self.used_memory, self.used_cores)
        return DeviceUsage(self.device, *used, self.pods, mig, self.slices or ())

    @classmethod
    def of(cls, usage: DeviceUsage, position: int) -> Card:
        """Make a card from a frozen usage."""
        used = (usage.used_slots, usage.used_memory_mib, usage.used_cores)
        return cls(usage.device, position, *used, usage.mig_in_use, usage.pods)


def kind_of(device: Device, slices: Iterable[Slice]) -> DeviceKind:
    """The kind of a device that these slices share, in a family that keeps modes. A slice without a mode is unknown."""
    return _shared(device.kind, frozenset(piece.mode or UNKNOWN_MODE for piece in slices))


@lru_cache(maxsize=1024)  # more than the kinds of a cluster
def _shared(kind: DeviceKind, modes: frozenset[str]) -> DeviceKind:
    return replace(kind, shared_as=",".join(sorted(modes)))
