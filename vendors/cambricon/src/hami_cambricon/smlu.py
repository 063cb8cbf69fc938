"""The life of sMLU profiles and instances: made for a container, found again after a crash, removed without it.

The driver keeps instances when the agent ends. An instance carries a name that follows from its container and card, so
after a crash a lookup by name finds it. Names begin with `PREFIX`; instances with other names are never touched.

A profile has no name. Before the agent makes a profile, it writes a small file (the *note*) with the profile's amounts
in its name. At that moment the card has no such profile, so a later one is ours as long as the node has not booted
again. A profile of ours without instances is removed, and then its note.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import TYPE_CHECKING, Final

from hami_cambricon.cndev import CndevError
from hami_core import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hami_cambricon.cndev import Card, Cndev, Instance, Profile
    from hami_core import ContainerRef

log = logging.getLogger(__name__)

PREFIX: Final = "hami-"


def instance_name(container: ContainerRef, card: str) -> str:
    """The name of a container's instance on a card: 58 characters, the pod's UID among them.

    Example:
        >>> from hami_core import ContainerKind, ContainerRef
        >>> instance_name(ContainerRef("3f1c", "default", "one", "main", ContainerKind.APP), "MLU-0")
        'hami-3f1c-ed98b8eb0e28c1ca'
    """
    return f"{PREFIX}{container.pod_uid}-{hashlib.sha256(f'{container.container}/{card}'.encode()).hexdigest()[:16]}"


class Smlu:
    """Makes and removes profiles and instances, one change at a time.

    Args:
        cndev: The library.
        notes: Folder of the notes. It is made when the first one is written.
        boot_id: Identity of this boot; profiles and instances do not outlive it.
    """

    def __init__(self, cndev: Cndev, notes: Path, boot_id: str) -> None:
        self._cndev = cndev
        self._notes = notes
        self._boot_id = boot_id
        self._lock = threading.Lock()

    def ensure(self, card: Card, name: str, quota: int, memory_bytes: int) -> Instance:
        """The instance of this name, which is made if it does not exist.

        Raises:
            DeviceError: The card has no room, the instance has other amounts, or CNDev does not keep names.
        """
        with self._lock:
            found = self._named(card, name)
            if found is None:
                found = self._make(card, name, quota, memory_bytes)
        if (found.quota, found.memory_bytes) != (quota, memory_bytes):
            raise DeviceError(
                f"sMLU instance {name} of {card.uuid} has {found.quota} % and {found.memory_bytes} bytes instead of "
                f"{quota} % and {memory_bytes} bytes: another program changed it; delete the pod"
            )
        return found

    def _make(self, card: Card, name: str, quota: int, memory_bytes: int) -> Instance:
        try:
            handle = self._cndev.create_instance(card.index, self._profile(card, quota, memory_bytes), name)
            found = self._named(card, name)
            if found is None:
                self._cndev.destroy_handle(handle)
        except DeviceError:
            self._remove_unused_profiles(card)
            raise
        if found is None:
            self._remove_unused_profiles(card)
            raise DeviceError(
                f"CNDev does not report the name of a new sMLU instance of {card.uuid}, so it could not be found again "
                "after a crash; update Cambricon's driver, or serve the node by Cambricon's device plugin"
            )
        log.info("made sMLU instance %s of %s: %d %%, %d bytes", name, card.uuid, quota, memory_bytes)
        return found

    def _profile(self, card: Card, quota: int, memory_bytes: int) -> int:
        """Id of the card's profile of these amounts, which is made if it does not exist."""
        for profile in self._cndev.profiles(card.index):
            if (profile.quota, profile.memory_bytes) == (quota, memory_bytes):
                return profile.id
        note = self._note(card, quota, memory_bytes)
        try:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(self._boot_id)
        except OSError as error:
            raise DeviceError(f"can't note a new sMLU profile in {note.parent}: {error}") from error
        return self._cndev.create_profile(card.index, quota, memory_bytes)

    def remove(self, card: Card, name: str) -> None:
        """Destroy the instance of this name, if it exists, and the profiles of ours that nobody needs any more.

        Raises:
            CndevError: A process still uses the instance, or the card does not answer.
        """
        with self._lock:
            if self._named(card, name) is not None:
                self._destroy(card, name)
            self._remove_unused_profiles(card)

    def sweep(self, card: Card, needed: Callable[[str], bool]) -> None:
        """Destroy the instances of ours that no container needs, and then unused profiles of ours.

        Args:
            card: The card.
            needed: Says whether a container needs the instance of this name. It is called while nothing is made.

        Raises:
            CndevError: The card does not answer.
        """
        with self._lock:
            for instance in self._cndev.instances(card.index):
                if instance.name.startswith(PREFIX) and not needed(instance.name):
                    try:
                        self._destroy(card, instance.name)
                    except CndevError as error:  # it is in use; the next sweep tries again
                        log.warning("can't destroy unneeded sMLU instance %s: %s", instance.name, error)
            self._remove_unused_profiles(card)

    def _destroy(self, card: Card, name: str) -> None:
        self._cndev.destroy_instance(card.index, name)
        log.info("destroyed sMLU instance %s of %s", name, card.uuid)

    def _named(self, card: Card, name: str) -> Instance | None:
        return next((one for one in self._cndev.instances(card.index) if one.name == name), None)

    def _remove_unused_profiles(self, card: Card) -> None:
        """Destroy profiles that have a note and no instance. The driver would not refuse one with instances."""
        notes = sorted((self._notes / card.uuid).glob("*-*"))
        if not notes:
            return
        in_use = {instance.profile for instance in self._cndev.instances(card.index)}
        profiles = self._cndev.profiles(card.index)
        for note in notes:
            ours = self._profiles_of(card, note, profiles)
            for profile in ours:
                if profile.id not in in_use:
                    self._cndev.destroy_profile(card.index, profile.id)
            if not any(profile.id in in_use for profile in ours):
                note.unlink(missing_ok=True)

    def _profiles_of(self, card: Card, note: Path, profiles: list[Profile]) -> list[Profile]:
        if note.read_text() != self._boot_id:
            return []
        return [p for p in profiles if self._note(card, p.quota, p.memory_bytes) == note]

    def _note(self, card: Card, quota: int, memory_bytes: int) -> Path:
        return self._notes / card.uuid / f"{quota}-{memory_bytes}"
