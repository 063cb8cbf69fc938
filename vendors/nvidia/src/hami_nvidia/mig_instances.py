"""The life of MIG instances: made for a container, adopted after a restart, destroyed when the container is gone.

`ensure` first writes an *intent*, a file that names card, profile, place and container. Then it makes the GPU instance
and the compute instance in it. `release` destroys both and then removes the intent. The next call of either continues
what a crash has cut off.

An instance at a place without an intent is somebody else's, such as the administrator's. It is never touched: no intent
is written for a place where something lies, and the driver refuses a second instance at a place.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import DeviceError, MigInstance, MigPlacement
from hami_core.vendorkit.node import Intents, Owner
from hami_nvidia.mig import overlap

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from hami_nvidia.nvml_mig import Instance, NvmlMig, Profile

log = structlog.get_logger(__name__)

WHAT: Final = "MIG instance"


@dataclass(frozen=True, slots=True)
class MigIntent:
    """The agent's decision to give a container one MIG instance.

    Attributes:
        card: UUID of the card.
        profile: The driver's id of the profile.
        start: Where the instance starts on the card.
        size: How many memory slices it takes.
        owner: The container.
    """

    card: str
    profile: int
    start: int
    size: int
    owner: Owner

    @property
    def key(self) -> str:
        """The place claims the instance."""
        return f"{self.card}-{self.start}"

    @property
    def placement(self) -> MigPlacement:
        """Where the instance lies."""
        return MigPlacement(self.start, self.size)


class MigInstances:
    """See the module's text.

    Args:
        driver: The driver.
        folder: Folder of the intents.
    """

    def __init__(self, driver: NvmlMig, folder: Path) -> None:
        self._driver = driver
        self._intents = Intents(folder, MigIntent, WHAT)
        self._lock = threading.Lock()
        self._unowned: frozenset[str] = frozenset()
        self._made: dict[MigIntent, MigInstance] = {}

    def ensure(self, card: str, profile: Profile, placement: MigPlacement, owner: Owner) -> MigInstance:
        """Give a container its instance. Repeated for one container, it returns the same instance.

        Raises:
            DeviceError: The place is another's, or the driver refuses. What was begun is continued by the next call or
                undone by `release`.
        """
        intent = MigIntent(card, profile.id, placement.start, placement.size, owner)
        with self._lock:
            there = self._driver.instances(card)
            known = next((one for one in self._intents.load() if one.key == intent.key), None)
            if known is None:
                in_the_way = [one for one in there if overlap(one.placement, placement)]
                if in_the_way:
                    raise DeviceError(f"{_place(intent)} is taken by {_told(in_the_way)}, not made by this agent")
                if not self._intents.add(intent):
                    raise DeviceError(f"{_place(intent)} is being taken by another process")
            elif known != intent:
                raise DeviceError(f"{_place(intent)} is kept until container {known.owner.container} is gone")
            return self._complete(intent, profile, there)

    def _complete(self, intent: MigIntent, profile: Profile, there: Sequence[Instance]) -> MigInstance:
        """Make what is missing of an intent's instance."""
        found = _of(intent, there)
        instance = self._driver.create(intent.card, profile.id, intent.placement) if found is None else found.id
        if found is not None and found.compute:
            compute = found.compute[0]
        else:
            compute = self._driver.create_compute(intent.card, instance, profile.slices)
            log.info("MIG instance made", card=intent.card, profile=profile.name, start=intent.start, id=instance)
        uuid = self._driver.devices(intent.card).get((instance, compute))
        if uuid is None:
            raise DeviceError(f"{_place(intent)}: the driver shows no MIG device of GPU instance {instance}")
        self._made[intent] = MigInstance(intent.card, intent.placement, uuid, instance, compute)
        return self._made[intent]

    def release(self, owner: Owner) -> None:
        """Destroy the instances of a container that is gone. It may have none.

        Raises:
            DeviceError: A process still uses one, or the card does not answer. Call again later.
        """
        with self._lock:
            for intent in self._intents.load():
                if intent.owner == owner:
                    self._destroy(intent)

    def _destroy(self, intent: MigIntent) -> None:
        found = _of(intent, self._driver.instances(intent.card))
        if found is not None:
            for compute in found.compute:
                self._driver.destroy_compute(intent.card, found.id, compute)
            self._driver.destroy(intent.card, found.id)
            log.info("MIG instance destroyed", card=intent.card, start=intent.start, id=found.id)
        self._intents.remove(intent)
        self._made.pop(intent, None)

    def made(self, owners: Collection[Owner]) -> dict[Owner, list[MigInstance]]:
        """The instances that containers have. The driver is only asked about those made before the agent's start.

        Args:
            owners: The containers.

        Raises:
            DeviceError: A card does not answer, or the intents can't be read.
        """
        found: dict[Owner, list[MigInstance]] = {}
        with self._lock:
            for intent in self._intents.load():
                if intent.owner in owners:
                    known = self._made.get(intent) or self._look(intent)
                    found.setdefault(intent.owner, []).extend([known] if known else [])
        return found

    def _look(self, intent: MigIntent) -> MigInstance | None:
        there = _of(intent, self._driver.instances(intent.card))
        if there is None or not there.compute:
            return None
        ids = there.id, there.compute[0]
        uuid = self._driver.devices(intent.card).get(ids)
        if uuid is not None:
            self._made[intent] = MigInstance(intent.card, intent.placement, uuid, *ids)
        return self._made.get(intent)

    def reconcile(self, live: Collection[Owner]) -> None:
        """Destroy instances whose container is unknown, after a crash.

        That happens at the second call that finds it so, since the container may have been admitted after `live` was
        read.

        Args:
            live: Containers that hold devices.

        Raises:
            DeviceError: The intents can't be read.
        """
        with self._lock:
            unowned = {intent.key: intent for intent in self._intents.load() if intent.owner not in live}
            for key, intent in unowned.items():
                if key in self._unowned:
                    try:
                        self._destroy(intent)
                    except DeviceError as error:
                        log.warning(
                            "a MIG instance can't be destroyed; trying again", card=intent.card, error=str(error)
                        )
            self._unowned = frozenset(unowned)

    def foreign(self, card: str) -> list[Instance]:
        """Instances that are not the agent's on a card in MIG mode.

        Raises:
            DeviceError: The card does not answer, or the intents can't be read.
        """
        with self._lock:
            mine = {(intent.card, intent.placement) for intent in self._intents.load()}
            return [one for one in self._driver.instances(card) if (card, one.placement) not in mine]


def _of(intent: MigIntent, there: Sequence[Instance]) -> Instance | None:
    return next((one for one in there if (one.profile, one.placement) == (intent.profile, intent.placement)), None)


def _place(intent: MigIntent) -> str:
    return f"card {intent.card}: place {intent.start} to {intent.start + intent.size - 1}"


def _told(instances: Sequence[Instance]) -> str:
    return ", ".join(f"GPU instance {one.id}" for one in instances)
