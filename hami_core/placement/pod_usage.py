"""A pod's usage of each device, at its peak and in steady state, by Kubernetes' rule for the kinds of containers.

An init container runs together with the sidecars that started before it. The app containers run together with all
sidecars. The peak of each quantity on each device is its greatest value over these moments. HAMi v2.10 does not know
sidecars; for pods without sidecars both rules give the same numbers.

Example: an init container of 8 GiB, a sidecar of 1 GiB and an app of 4 GiB, started in this order on one card. The peak
is 8 GiB. Once the init container has ended, 5 GiB count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hami_core.model import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hami_core.model import ContainerSlices, MigPlacement, Slice

_Key = tuple[str, str]


class Amounts(NamedTuple):
    """Usage of one family by a pod or a namespace, summed over devices."""

    memory_mib: int = 0
    cores: int = 0
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A pod's usage of one device.

    Attributes:
        family: Common word.
        device_id: The device.
        slots: Slots.
        memory_mib: MiB.
        cores: Percent.
        mig: Placements of its MIG instances there.
        unplaced: Whether some slice there is not a MIG instance.
        slices: Its slices there, in families whose slices are kept.
    """

    family: str
    device_id: str
    slots: int
    memory_mib: int
    cores: int
    mig: tuple[MigPlacement, ...] = ()
    unplaced: bool = True
    slices: tuple[Slice, ...] = ()


class PeakUsage:
    """Adds up containers in start order, which is the order of the allocation."""

    __slots__ = ("_mig", "_mig_running", "_peak", "_running", "_unplaced")

    def __init__(self) -> None:
        self._running: dict[_Key, tuple[int, int, int]] = {}
        self._peak: dict[_Key, tuple[int, int, int]] = {}
        self._mig: dict[_Key, dict[MigPlacement, None]] = {}
        self._mig_running: dict[_Key, dict[MigPlacement, None]] = {}
        self._unplaced: set[_Key] = set()

    def add(self, kind: ContainerKind, slices: Iterable[Slice]) -> None:
        """Add the next container."""
        stays = kind is not ContainerKind.INIT
        for key, (slots, memory, cores) in _sum(slices).items():
            run = self._running.get(key, (0, 0, 0))
            now = (run[0] + slots, run[1] + memory, run[2] + cores)
            top = self._peak.get(key, (0, 0, 0))
            self._peak[key] = (max(top[0], now[0]), max(top[1], now[1]), max(top[2], now[2]))
            if stays:
                self._running[key] = now
        for piece in slices:
            key = (piece.family, piece.device_id)
            if piece.mig_placement is None:
                self._unplaced.add(key)
            else:
                self._mig.setdefault(key, {})[piece.mig_placement] = None
                if stays:
                    self._mig_running.setdefault(key, {})[piece.mig_placement] = None

    def total_with(self, family: str, slices: Iterable[Slice]) -> Amounts:
        """The pod's peak usage of one family if the next container takes ``slices``."""
        total = [0, 0, 0]
        for key, top in self._peak.items():
            if key[0] == family:
                total = [have + peak for have, peak in zip(total, top, strict=True)]
        for key, more in _sum(slices).items():
            run, top = self._running.get(key, (0, 0, 0)), self._peak.get(key, (0, 0, 0))
            total = [have + max(r + m - t, 0) for have, r, m, t in zip(total, run, more, top, strict=True)]
        slots, memory, cores = total
        return Amounts(memory, cores, slots)

    def peak(self) -> tuple[Use, ...]:
        """Per device, the peak over the pod's whole life; sorted by family and device."""
        return self._uses(self._peak, self._mig)

    def steady(self) -> tuple[Use, ...]:
        """Per device, the usage after every init container has ended."""
        return self._uses(self._running, self._mig_running)

    def _uses(
        self, sums: dict[_Key, tuple[int, int, int]], mig: dict[_Key, dict[MigPlacement, None]]
    ) -> tuple[Use, ...]:
        return tuple(Use(*key, *sums[key], tuple(mig.get(key, ())), key in self._unplaced) for key in sorted(sums))


def uses(
    containers: Sequence[ContainerSlices], *, init_done: bool = False, keep_slices: Collection[str] = ()
) -> tuple[Use, ...]:
    """A pod's usage of each device, at its peak or after the init containers have ended.

    Args:
        containers: Slices of each container, in HAMi's order.
        init_done: Whether every init container has ended.
        keep_slices: Common words of the families for which `Use.slices` is filled.
    """
    peak = PeakUsage()
    for container in containers:
        peak.add(container.kind, container.slices)
    found = peak.steady() if init_done else peak.peak()
    if not keep_slices:
        return found
    held = [s for c in containers if not (init_done and c.kind is ContainerKind.INIT) for s in c.slices]
    return tuple(
        replace(use, slices=tuple(s for s in held if (s.family, s.device_id) == (use.family, use.device_id)))
        if use.family in keep_slices
        else use
        for use in found
    )


def amounts_by_family(taken: Iterable[Use]) -> dict[str, Amounts]:
    """A pod's usage by family, as it counts against a namespace's quota."""
    sums: dict[str, Amounts] = {}
    for use in taken:
        memory, cores, devices = sums.get(use.family, Amounts())
        sums[use.family] = Amounts(memory + use.memory_mib, cores + use.cores, devices + use.slots)
    return sums


def _sum(slices: Iterable[Slice]) -> dict[_Key, tuple[int, int, int]]:
    sums: dict[_Key, tuple[int, int, int]] = {}
    for piece in slices:
        key = (piece.family, piece.device_id)
        slots, memory, cores = sums.get(key, (0, 0, 0))
        sums[key] = (slots + max(piece.slots, 1), memory + piece.memory_mib, cores + piece.cores)
    return sums
