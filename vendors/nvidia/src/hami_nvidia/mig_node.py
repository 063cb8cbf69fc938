"""MIG on a node: what its cards offer, and the instances of its containers.

In operating mode ``mig`` the agent makes instances. With ``migStrategy`` it offers an administrator's
(`hami_nvidia.mig_static`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import DeviceError, Sample
from hami_core.vendorkit.node import Owner
from hami_nvidia import mig
from hami_nvidia.driver import device_node, driver_major
from hami_nvidia.mig_instances import MigInstances
from hami_nvidia.mig_static import NO_INSTANCES, StaticMig, resource_of
from hami_nvidia.modes import MIG_LEFT_OFF, MIG_OFF, NO_PROFILES, NO_RIGHT, UNREADABLE
from hami_nvidia.nvml import ERROR_NO_PERMISSION, NvmlError
from hami_nvidia.nvml_mig import NvmlMig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hami_core import ContainerRef, Device, DeviceNode, MigInstance, MigProfile, Slice
    from hami_nvidia.config import MigAllowance
    from hami_nvidia.mig_static import Part
    from hami_nvidia.nvml import Card, Nvml
    from hami_nvidia.nvml_mig import Profile
    from hami_nvidia.settings import NodeOptions, NodeSettings

log = structlog.get_logger(__name__)

_CAPS: Final = "nvidia-caps"
_FIRST_CAP: Final = 3
_CAPS_PER_CARD: Final = 135
_CAPS_PER_INSTANCE: Final = 9
"""How the driver numbers ``/dev/nvidia-caps/nvidia-cap<N>``: cards by minor number, 15 GPU instances each, and for each
of these its own node and those of 8 compute instances. Source: NVIDIA's MIG guide, ``/proc/driver/nvidia-caps``."""


class MigNode:
    """See the module's text.

    Args:
        nvml: The opened library.
        allowances: ``migProfileAllowlist``.
        folder: Folder of the instances' intents.
        settings: The node's settings.
        dev_root: Returns the host's folder of the driver's device nodes.
        options: Returns the node's options, which may change.
    """

    def __init__(
        self,
        nvml: Nvml,
        allowances: Sequence[MigAllowance],
        folder: Path,
        settings: NodeSettings,
        *,
        dev_root: Callable[[], Path],
        options: Callable[[], NodeOptions],
    ) -> None:
        self._nvml = nvml
        self._driver = NvmlMig(nvml)
        self._allowances = allowances
        self._instances = MigInstances(self._driver, folder)
        self._settings = settings
        self._slices: Mapping[str, tuple[Slice, ...]] = {}
        self._dev_root = dev_root
        self._options = options
        self.static = StaticMig(self._driver, self._instances, lambda: options().hidden_uuids)

    @property
    def _makes(self) -> bool:
        return self._options().mode == mig.MODE

    @property
    def _strategy(self) -> str:
        return self._options().mig_strategy

    def _allowed(self, card: Card) -> dict[str, Profile]:
        return mig.allowed(card.name, self._allowances, self._driver.profiles(card.uuid))

    def slots(self, card: Card) -> int:
        """How many containers can have a booked instance of a card at once, which is its number of slots.

        A lost card keeps its number, since profiles are asked for once. Instances that an administrator made are
        counted as last read. Those of a card that only gives out native ones are not booked.
        """
        if not self._makes:
            there = len(self.static.known(card.uuid))
            return 0 if there and self._strategy == "mixed" else max(there, 1)
        try:
            return max((profile.instances for profile in self._allowed(card).values()), default=1)
        except DeviceError:
            return 1

    def offer(self, card: Card) -> tuple[tuple[MigProfile, ...], str]:
        """The profiles of a card, and why it is not offered, if so."""
        try:
            if not self._makes and self._strategy == "single":
                return self.static.offer(card)
            if self._strategy == "mixed" and card.modes.mig:
                native = self.static.read(card.uuid)
                if not self._makes:
                    return (), "" if native else NO_INSTANCES.format(index=card.index)
            profiles = self._allowed(card)
            if not profiles or not card.modes.mig:
                off = MIG_OFF if self._settings.mig_enable else MIG_LEFT_OFF.format(card=card.uuid)
                return (), off if profiles else NO_PROFILES
            return mig.offers(profiles, [one.placement for one in self._instances.foreign(card.uuid)]), ""
        except DeviceError as error:
            no_right = isinstance(error, NvmlError) and error.code == ERROR_NO_PERMISSION
            return (), UNREADABLE.format(error=error) + (NO_RIGHT if no_right else "")

    def nodes(self, card: Card, made: MigInstance) -> list[DeviceNode]:
        """The device nodes of an instance and its card.

        Those of the instance may be missing on the host, where ``nvidia-modprobe`` makes them. So they have numbers.
        """
        first = _FIRST_CAP + _CAPS_PER_CARD * card.minor + _CAPS_PER_INSTANCE * made.gpu_instance_id
        major = driver_major(self._settings.proc_root, _CAPS)
        root = self._dev_root()
        caps = [
            replace(device_node(root, f"{_CAPS}/nvidia-cap{number}"), major=major, minor=number if major else 0)
            for number in (first, first + 1 + made.compute_instance_id)
        ]
        return [device_node(root, f"nvidia{card.minor}"), *caps]

    def allocate(self, card: Card, piece: Slice, container: ContainerRef) -> tuple[MigInstance, list[DeviceNode]]:
        """Make the instance of one slice, unless it exists, and return it with its device nodes for the container.

        Under ``migStrategy: single`` the instance must exist.

        Raises:
            DeviceError: The slice is not planned as an instance, its profile is not allowed, or the driver refuses.
        """
        if not self._makes:
            there = self.static.give(card.uuid, piece)
            return there, self.nodes(card, there)
        profile = self._allowed(card).get(piece.mig_profile)
        if profile is None or piece.mig_placement is None:
            what = f"profile {piece.mig_profile!r} is not offered" if piece.mig_profile else "no instance is planned"
            raise DeviceError(f"card {card.uuid}: {what}, but this node's operatingmode is mig")
        if piece.mig_placement not in profile.placements:
            raise DeviceError(f"card {card.uuid}: {piece.mig_profile} can't lie at {piece.mig_placement.start}")
        made = self._instances.ensure(card.uuid, profile, piece.mig_placement, _owner(container))
        return made, self.nodes(card, made)

    def native(self, devices: Iterable[Device], cards: Mapping[str, Card]) -> Iterator[tuple[str, Card, Part]]:
        """Resource, card and instance of each slot of ``migStrategy: mixed``."""
        for device in devices if self._strategy == "mixed" else ():
            card = cards.get(device.id)
            if card is not None and card.modes.mig:
                yield from ((resource_of(part.profile.name), card, part) for part in self.static.known(card.uuid))

    def release(self, container: ContainerRef) -> None:
        """Destroy the instances of a container that is gone.

        Raises:
            DeviceError: A process still uses one, or the card does not answer.
        """
        self._instances.release(_owner(container))

    def tend(
        self,
        records: Mapping[str, ContainerRef],
        slices: Mapping[str, tuple[Slice, ...]],
        cards: Mapping[str, Card],
    ) -> None:
        """Destroy what crashes left behind, and turn MIG mode on where nobody uses the card.

        Args:
            records: The containers of this node.
            slices: What they hold.
            cards: The cards that should be in MIG mode.
        """
        self._slices = slices
        try:
            self._instances.reconcile({_owner(container) for container in records.values()})
        except DeviceError as error:
            log.warning("MIG instances can't be looked after", error=str(error))
        if not self._settings.mig_enable:
            return
        held = {piece.device_id for pieces in slices.values() for piece in pieces}
        for uuid in cards.keys() - held:
            try:
                modes = self._nvml.modes(uuid)
                off = not modes.problem and not modes.mig and not modes.mig_after_reset
                if off and self._allowed(cards[uuid]) and not self._nvml.processes(uuid):
                    self._driver.enable(uuid)
                    log.info("MIG mode is on", card=uuid)
            except DeviceError as error:
                log.warning("MIG mode can't be turned on", card=uuid, error=str(error))

    def samples(self, records: Mapping[str, ContainerRef]) -> list[Sample]:
        """``hami_mig_device_info`` of every instance that a container has, from what the agent made.

        HAMi reads it from the pods' annotations, which tenants can edit. A container is listed from the next `tend` on.

        Args:
            records: Live containers by record id.
        """
        owners = {record_id: _owner(ref) for record_id, ref in records.items() if self._holds_instances(record_id)}
        if not owners:
            return []
        try:
            made = self._instances.made(frozenset(owners.values()))
        except DeviceError as error:
            log.warning("MIG instances can't be listed", error=str(error))
            return []
        return [
            Sample("hami_mig_device_info", labels, 1.0)
            for record_id, owner in owners.items()
            for labels in _labels(
                records[record_id],
                self._slices[record_id],
                [*made.get(owner, ()), *self._static_of(self._slices[record_id])],
            )
        ]

    def _static_of(self, slices: Sequence[Slice]) -> list[MigInstance]:
        cards = {piece.device_id for piece in slices}
        return [part.instance for card in cards for part in self.static.known(card)]

    def _holds_instances(self, record_id: str) -> bool:
        return any(piece.mig_profile for piece in self._slices.get(record_id, ()))


def _labels(container: ContainerRef, slices: Sequence[Slice], made: Sequence[MigInstance]) -> Iterator[dict[str, str]]:
    """HAMi's labels. The index is the slice's position in the container's list, as in the pod's annotation."""
    by_place = {(one.card, one.placement): one for one in made}
    for index, piece in enumerate(slices):
        one = by_place.get((piece.device_id, piece.mig_placement)) if piece.mig_placement else None
        if one is not None:
            yield {
                "namespace": container.namespace,
                "pod": container.pod,
                "container": container.container,
                "vdevice_index": str(index),
                "device_uuid": one.card,
                "mig_uuid": one.uuid,
                "profile": piece.mig_profile,
                "gpu_instance_id": str(one.gpu_instance_id),
                "compute_instance_id": str(one.compute_instance_id),
            }


def _owner(container: ContainerRef) -> Owner:
    return Owner(container.pod_uid, container.container)
