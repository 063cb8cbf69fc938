"""The agent's own check that a pod's allocation fits on the cards beside those of other pods. Pure.

The scheduler normally guarantees this. Two schedulers that both believe they lead, or an allocation that bypassed the
scheduler, could still put more on a card than it has. A pod that holds a promise here keeps it. Among waiting pods the
higher epoch comes first, then the smaller UID.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_core.placement.pod_usage import uses
from hami_core.wire import env

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hami_core.kube.objects import Container
    from hami_core.model import ContainerSlices, Device, MigPlacement, Slice
    from hami_core.placement.pod_usage import Use


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pod was promised on this node.

    Attributes:
        uid: Pod UID.
        label: ``namespace/name``, for messages.
        containers: Slices of every container.
        epoch: Epoch of the leader that signed the allocation; 0 if unsigned.
        signature: The signature as found on the pod.
    """

    uid: str
    label: str
    containers: tuple[ContainerSlices, ...]
    epoch: int = 0
    signature: str = ""

    @property
    def order(self) -> tuple[int, str]:
        """Sort key among waiting claims: the first one is admitted first."""
        return -self.epoch, self.uid


def covering_mount(container: Container) -> str:
    """The path of a volume mount that would hide the files that limit a container; empty if there is none.

    Without CDI, a pod's mount covers ours at the same path. A mount below ours covers it in every mode.
    """
    for mount in container.volume_mounts:
        path = posixpath.normpath(f"/{mount.mount_path.lstrip('/')}")
        if path == env.PRELOAD_PATH or f"{path}/".startswith(f"{env.VGPU_ROOT}/"):
            return mount.mount_path
    return ""


def misfit(claim: Claim, holders: Sequence[Claim], devices: Mapping[str, Device]) -> str:
    """Why a claim does not fit beside the claims of ``holders``, for people; empty if it fits."""
    own = uses(claim.containers)
    all_uses = [(claim.label, use) for use in own]
    all_uses += [(h.label, use) for h in holders if h.uid != claim.uid for use in uses(h.containers)]
    for mine in own:
        card = mine.device_id
        device = devices.get(card)
        if device is None:
            return f"device {card} of its allocation is not on this node"
        beside = [(label, use) for label, use in all_uses if use.device_id == card and use is not mine]
        problem = _card_misfit(device, mine, [use for _, use in beside]) or _place_misfit(card, claim, holders)
        if problem:
            names = ", ".join(sorted({label for label, _ in beside})) or "nobody"
            return f"its allocation does not fit on device {card}: {problem} (held by {names})"
    return ""


def _card_misfit(device: Device, mine: Use, beside: Sequence[Use]) -> str:
    if device.not_offered:
        return device.not_offered
    free = device.memory_mib - sum(use.memory_mib for use in beside)
    cores = device.cores - sum(use.cores for use in beside)
    slots = device.slots - sum(use.slots for use in beside)
    if mine.memory_mib > free:
        return f"needs {mine.memory_mib} MiB, {max(free, 0)} of {device.memory_mib} MiB are free"
    # MIG instances are bounded by their places. Their shares of the cores are rounded up, so seven of 1/7 make 105 %.
    if mine.cores > cores and not device.mig_profiles:
        return f"needs {mine.cores} % of its cores, {max(cores, 0)} % are free"
    if mine.slots > slots:
        return f"needs {mine.slots} slots, {max(slots, 0)} of {device.slots} are free"
    if beside and device.cores == 100 and 100 in (mine.cores, *(use.cores for use in beside)):
        return "one of the pods has the device to itself (100 % of its cores)"
    return ""


def _place_misfit(card: str, claim: Claim, holders: Sequence[Claim]) -> str:
    """Why an instance of the claim can't lie on a card: its place overlaps that of another pod's."""
    others = [place for holder in holders if holder.uid != claim.uid for place in _places(card, holder)]
    for mine in _places(card, claim):
        for other in others:
            if mine.start < other.start + other.size and other.start < mine.start + mine.size:
                return f"the place of its MIG instance, {mine.start} to {mine.start + mine.size - 1}, is taken"
    return ""


def _places(card: str, claim: Claim) -> Iterator[MigPlacement]:
    for container in claim.containers:
        for piece in container.slices:
            if piece.device_id == card and piece.mig_placement is not None:
                yield piece.mig_placement


def is_whole(slices: Sequence[Slice], claim: Claim, holders: Iterable[Claim], devices: Mapping[str, Device]) -> bool:
    """Whether a container has whole devices, which no other container can ever share.

    It must have all usable memory and 0 or 100 % of the cores, and no other container may hold a slice. No other can
    come later if it has all cores, all memory that the node registers, or the only slot.
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
