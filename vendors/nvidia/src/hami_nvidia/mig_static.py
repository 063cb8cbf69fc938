"""Static MIG: instances that an administrator made are offered as they are, and never made, changed or destroyed.

With ``migStrategy`` ``single`` the scheduler plans them like instances that the agent would make. With ``mixed`` each
one is a slot of a resource such as ``nvidia.com/mig-1g.10gb``, which the kubelet hands out by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import DeviceError, MigInstance
from hami_nvidia import mig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core import Device, MigProfile, Slice
    from hami_nvidia.health import HealthWatch
    from hami_nvidia.mig_instances import MigInstances
    from hami_nvidia.nvml import Card
    from hami_nvidia.nvml_mig import Instance, NvmlMig, Profile

log = structlog.get_logger(__name__)

NO_INSTANCES: Final = (
    "card is in MIG mode and has no MIG instance to offer (administrator: nvidia-smi mig -i {index} -cgi PROFILE -C)"
)
_NOT_FILLED: Final = "GPU instance {id} at place {start}: it needs one compute instance that fills it"
_HIDDEN: Final = "GPU instance {id} at place {start}: filterdevices names {uuid}"


@dataclass(frozen=True, slots=True)
class Part:
    """An instance that an administrator made, with one compute instance that fills it.

    Attributes:
        profile: Its profile.
        instance: Card, place, UUID and ids.
    """

    profile: Profile
    instance: MigInstance


class StaticMig:
    """The administrator's instances of a node's cards, as last read from the driver.

    Args:
        driver: The driver.
        instances: Knows the instances that the agent made.
        hidden: Returns the UUIDs of MIG devices that are not offered.
    """

    def __init__(self, driver: NvmlMig, instances: MigInstances, hidden: Callable[[], frozenset[str]]) -> None:
        self._driver = driver
        self._instances = instances
        self._hidden = hidden
        self._parts: dict[str, tuple[Part, ...]] = {}
        self._devices: dict[str, Mapping[tuple[int, int], str]] = {}
        self._withheld: dict[str, tuple[str, ...]] = {}

    def read(self, card: str) -> tuple[Part, ...]:
        """Read a card's instances, and log those that can't be given to containers.

        Raises:
            DeviceError: The card does not answer, or the intents can't be read. What was known stays.
        """
        there, uuids = self._instances.foreign(card), self._driver.devices(card)
        found, withheld = parts(card, self._driver.profiles(card), there, uuids, self._hidden())
        if withheld != self._withheld.get(card, ()):
            for reason in withheld:
                log.warning("a MIG instance is not offered", card=card, reason=reason)
        self._parts[card], self._devices[card], self._withheld[card] = found, uuids, withheld
        return found

    def known(self, card: str) -> tuple[Part, ...]:
        """A card's instances as last read, also while it does not answer."""
        return self._parts.get(card, ())

    @property
    def uuids(self) -> frozenset[str]:
        """UUIDs of all MIG devices that were read, hidden ones included."""
        return frozenset(uuid for of_card in self._devices.values() for uuid in of_card.values())

    def changed(self, card: str) -> bool:
        """Whether MIG devices of a card came or went since they were read; False if it does not answer."""
        try:
            return card in self._devices and self._driver.devices(card) != self._devices[card]
        except DeviceError:
            return False

    def offer(self, card: Card) -> tuple[tuple[MigProfile, ...], str]:
        """What a card registers under ``single``, and why it is not offered, if so.

        Each profile has the places where an instance lies.

        Raises:
            DeviceError: The card does not answer, or the intents can't be read.
        """
        places: dict[str, tuple[Part, ...]] = {}
        for part in self.read(card.uuid):
            places[part.profile.name] = (*places.get(part.profile.name, ()), part)
        offered = mig.offers({profile.name: profile for profile in self._driver.profiles(card.uuid)}, ())
        found = tuple(
            replace(one, placements=tuple(part.instance.placement for part in places[one.name]))
            for one in offered
            if one.name in places
        )
        return found, "" if found else NO_INSTANCES.format(index=card.index)

    def give(self, card: str, piece: Slice) -> MigInstance:
        """The instance of a slice.

        Raises:
            DeviceError: It is not there, or the card does not answer.
        """
        for part in self.read(card):
            if (part.profile.name, part.instance.placement) == (piece.mig_profile, piece.mig_placement):
                return part.instance
        planned = f"{piece.mig_profile} at place {piece.mig_placement.start}" if piece.mig_placement else "none"
        raise DeviceError(f"card {card}: the planned MIG instance ({planned}) is not there; delete the pod")


def parts(
    card: str,
    profiles: Iterable[Profile],
    there: Iterable[Instance],
    uuids: Mapping[tuple[int, int], str],
    hidden: frozenset[str],
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The instances of a card that can be given to containers, by their places, and why others can't.

    Args:
        card: UUID of the card.
        profiles: The card's profiles.
        there: Instances that are not the agent's.
        uuids: UUIDs of the MIG devices by the ids of GPU instance and compute instance.
        hidden: UUIDs that are not offered.
    """
    by_id = {profile.id: profile for profile in profiles}
    found: list[Part] = []
    withheld: list[str] = []
    for one in sorted(there, key=lambda one: one.placement.start):
        ids = one.id, one.compute[0] if one.filled else -1
        uuid = uuids.get(ids)
        if uuid is None:
            withheld.append(_NOT_FILLED.format(id=one.id, start=one.placement.start))
        elif uuid in hidden:
            withheld.append(_HIDDEN.format(id=one.id, start=one.placement.start, uuid=uuid))
        else:
            found.append(Part(by_id[one.profile], MigInstance(card, one.placement, uuid, *ids)))
    return tuple(found), tuple(withheld)


def resource_of(profile: str) -> str:
    """The resource of a profile under ``mixed``, named as by NVIDIA's device plugin."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


class PartHealth:
    """The health of native instances. An error of one instance withdraws no other of its card.

    A card with an error of an instance is unhealthy, and its instances are looked at one by one until it has recovered.

    Args:
        health: The cards' health.
    """

    def __init__(self, health: HealthWatch) -> None:
        self._health = health
        self._sick: frozenset[MigInstance] = frozenset()
        self._one_by_one: set[str] = set()

    def read(self, found: Iterable[Part]) -> set[str]:
        """Look at instances after the cards' health was read. Returns the cards of those whose health changed."""
        sick = frozenset(part.instance for part in found if self._error_of(part))
        changed, self._sick = sick ^ self._sick, sick
        self._one_by_one |= {instance.card for instance in sick}
        return {instance.card for instance in changed}

    def is_healthy(self, card: Device, part: Part) -> bool:
        """Whether containers can use an instance.

        Args:
            card: Its card, with its present health.
            part: The instance.
        """
        if card.healthy:
            self._one_by_one.discard(card.id)
        works = card.healthy or (card.id in self._one_by_one and not card.not_offered)
        return works and not self._health.answers.get(card.id) and not self._error_of(part)

    def _error_of(self, part: Part) -> str:
        one = part.instance
        return self._health.error_of(one.card, one.gpu_instance_id, one.compute_instance_id)
