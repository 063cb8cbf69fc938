"""The last judge: does what a pod was promised fit on the cards beside what is there already? Pure.

The scheduler books; two schedulers that both believe they lead, or a booking that came round them, must not put more
on a card than it has. Whoever holds a promise here keeps it; among those that wait, the higher epoch comes first, then
the smaller UID.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_core.model import ContainerKind
from hami_core.wire import env

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.kube.objects import Container
    from hami_core.model import ContainerSlices, Device, Slice


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pod was promised on this node.

    Attributes:
        uid: Pod UID.
        label: ``namespace/name``, for people.
        containers: Slices of every container.
        epoch: Epoch of the leader that signed it; 0 when unsigned.
        signature: As found on the pod.
    """

    uid: str
    label: str
    containers: tuple[ContainerSlices, ...]
    epoch: int = 0
    signature: str = ""

    @property
    def order(self) -> tuple[int, str]:
        """Who comes first among those that wait."""
        return -self.epoch, self.uid


@dataclass(frozen=True, slots=True)
class Use:
    """What is taken of a card: MiB, percent, slots."""

    memory_mib: int = 0
    cores: int = 0
    slots: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(self.memory_mib + other.memory_mib, self.cores + other.cores, self.slots + other.slots)

    def most(self, other: Use) -> Use:
        """The larger of each."""
        return Use(max(self.memory_mib, other.memory_mib), max(self.cores, other.cores), max(self.slots, other.slots))


_NOTHING = Use()


def peak(containers: Iterable[ContainerSlices]) -> dict[str, Use]:
    """The most a pod ever takes of each card.

    Init containers run one after the other, beside the sidecars started before them; then all app containers run
    beside all sidecars.
    """
    running: dict[str, Use] = {}
    highest: dict[str, Use] = {}
    apps: dict[str, Use] = {}
    for container in containers:
        use = _sum(container.slices)
        if container.kind is ContainerKind.APP:
            apps = _add(apps, use)
            continue
        _raise(highest, _add(running, use))
        if container.kind is ContainerKind.SIDECAR:
            running = _add(running, use)
    _raise(highest, _add(running, apps))
    return highest


def _sum(slices: Iterable[Slice]) -> dict[str, Use]:
    found: dict[str, Use] = {}
    for piece in slices:
        found[piece.device_id] = found.get(piece.device_id, _NOTHING) + Use(piece.memory_mib, piece.cores, piece.slots)
    return found


def _add(one: Mapping[str, Use], other: Mapping[str, Use]) -> dict[str, Use]:
    return {card: one.get(card, _NOTHING) + other.get(card, _NOTHING) for card in {*one, *other}}


def _raise(highest: dict[str, Use], use: Mapping[str, Use]) -> None:
    for card, amount in use.items():
        highest[card] = highest.get(card, _NOTHING).most(amount)


def covering(container: Container) -> str:
    """A path at which a container mounts a volume of its pod over files that bind it; empty: there is none.

    Where the runtime has no CDI, a pod's own mount lies on top of ours at the same path. A mount below ours lies on top
    everywhere.
    """
    for mount in container.volume_mounts:
        path = posixpath.normpath(f"/{mount.mount_path.lstrip('/')}")
        if path == env.PRELOAD_PATH or f"{path}/".startswith(f"{env.VGPU_ROOT}/"):
            return mount.mount_path
    return ""


def misfit(claim: Claim, holders: Sequence[Claim], devices: Mapping[str, Device]) -> str:
    """Why a claim does not fit beside those that hold, in words for people; empty when it does."""
    theirs = {h.uid: peak(h.containers) for h in holders if h.uid != claim.uid}
    labels = {h.uid: h.label for h in holders}
    for card, mine in peak(claim.containers).items():
        device = devices.get(card)
        if device is None:
            return f"device {card} of its allocation is not on this node"
        beside = {uid: use[card] for uid, use in theirs.items() if card in use}
        problem = _card_misfit(device, mine, beside)
        if problem:
            names = ", ".join(sorted(labels[uid] for uid in beside)) or "nobody"
            return f"its allocation does not fit on device {card}: {problem} (held by {names})"
    return ""


def _card_misfit(device: Device, mine: Use, beside: Mapping[str, Use]) -> str:
    if device.not_offered:
        return device.not_offered
    taken = sum(beside.values(), _NOTHING)
    free = device.memory_mib - taken.memory_mib
    if mine.memory_mib > free:
        return f"needs {mine.memory_mib} MiB, {max(free, 0)} of {device.memory_mib} MiB are free"
    if mine.cores > device.cores - taken.cores:
        return f"needs {mine.cores} % of its cores, {max(device.cores - taken.cores, 0)} % are free"
    if mine.slots > device.slots - taken.slots:
        return f"needs {mine.slots} slots, {max(device.slots - taken.slots, 0)} of {device.slots} are free"
    if beside and device.cores == 100 and 100 in (mine.cores, *(use.cores for use in beside.values())):
        return "one of the pods has it for itself (100 % of its cores)"
    return ""


def is_whole(slices: Sequence[Slice], claim: Claim, holders: Iterable[Claim], devices: Mapping[str, Device]) -> bool:
    """Whether a container has whole devices: all memory that can be had, cores 0 or 100, nobody else there, ever.

    Nobody else can come where the container has all cores, all memory that the node registers, or the only slot.
    """
    others: Counter[str] = Counter()
    for holder in (*(h for h in holders if h.uid != claim.uid), claim):
        for container in holder.containers:
            others.update(s.device_id for s in container.slices)
    for piece in slices:
        device = devices.get(piece.device_id)
        if device is None or others[piece.device_id] != 1:
            return False
        if piece.memory_mib < device.usable_mib or piece.cores not in (0, 100) or device.cores != 100:
            return False
        if piece.cores != 100 and piece.memory_mib < device.memory_mib and device.slots != 1:
            return False
    return bool(slices)
