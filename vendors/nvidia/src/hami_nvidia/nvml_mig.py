"""MIG through NVML: profiles, instances and MIG devices of a card, typed. `hami_nvidia.nvml` has all other calls.

A *GPU instance* has a place and a profile on the card. A *compute instance* lies in it; this package only makes those
that fill their GPU instance. The two together are a *MIG device*, which has a UUID and is what a container gets.
"""

from __future__ import annotations

from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core import DeviceError, MigPlacement
from hami_nvidia.nvml import ERROR_NOT_FOUND, NO_SUCH_QUESTION, NvmlError, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_nvidia.nvml import Nvml

PROFILES: Final = 32
"""GPU instance profiles are asked for by numbers below this; NVML has 18 of them today."""
COMPUTE_PROFILES: Final = 16
SHARED_ENGINES: Final = 0
"""NVML's only engine profile of compute instances."""
_MOST: Final = 16
"""Instances of one profile, or compute instances of one GPU instance, that are listed at most."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU instance profile of a card.

    Attributes:
        name: Name as nvidia-smi shows it, such as ``1g.5gb`` or ``1g.5gb+me``.
        number: NVML's number of it, the same on all cards (``NVML_GPU_INSTANCE_PROFILE_1_SLICE`` = 0 and so on).
        id: The card's id of it.
        memory_mib: Memory of an instance.
        sms: Multiprocessors of an instance.
        slices: Compute slices of an instance.
        instances: How many fit on an empty card.
        placements: Where an instance may lie.
    """

    name: str
    number: int
    id: int
    memory_mib: int
    sms: int
    slices: int
    instances: int
    placements: tuple[MigPlacement, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance that exists.

    Attributes:
        id: The driver's id on this card.
        profile: Id of its profile.
        placement: Where it lies.
        compute: Ids of its compute instances.
        filled: Whether one compute instance has all of it.
    """

    id: int
    profile: int
    placement: MigPlacement
    compute: tuple[int, ...]
    filled: bool = False


class NvmlMig:
    """MIG calls of one NVML.

    Args:
        nvml: The opened library.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._profiles: dict[str, tuple[Profile, ...]] = {}

    def profiles(self, card: str) -> tuple[Profile, ...]:
        """The profiles of a card, whatever its MIG mode; none of a card without MIG. What was found is kept.

        Raises:
            NvmlError: The card does not answer.
        """
        if not self._profiles.get(card):
            self._profiles[card] = tuple(self._ask(card))
        return self._profiles[card]

    def _ask(self, card: str) -> Iterator[Profile]:
        handle = self._nvml.handle(card)
        for number in range(PROFILES):
            try:
                with self._nvml.calling("nvmlDeviceGetGpuInstanceProfileInfoV", card) as nvml:
                    info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
            except NvmlError as error:
                if error.code in NO_SUCH_QUESTION:
                    continue
                raise
            name = text_of(info.name).removeprefix("MIG ")
            sizes = (int(info.memorySizeMB), int(info.multiprocessorCount), int(info.sliceCount))
            places = self._placements(card, handle, int(info.id))
            yield Profile(name, number, int(info.id), *sizes, int(info.instanceCount), places)

    def _placements(self, card: str, handle: Any, profile: int) -> tuple[MigPlacement, ...]:  # noqa: ANN401 - opaque
        with self._nvml.calling("nvmlDeviceGetGpuInstancePossiblePlacements", card) as nvml:
            count = c_uint(0)
            nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, byref(count))
            room = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
            nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, room, byref(count))
            return tuple(MigPlacement(int(at.start), int(at.size)) for at in room[: count.value])

    def instances(self, card: str) -> list[Instance]:
        """The GPU instances of a card in MIG mode.

        Raises:
            NvmlError: The card does not answer, or is not in MIG mode.
        """
        handle = self._nvml.handle(card)
        found: list[Instance] = []
        profiles = self.profiles(card)
        if not profiles:  # "no instances" would make the agent forget those that it made
            raise NvmlError("nvmlDeviceGetGpuInstanceProfileInfoV", -1, "the card names no profile", card)
        for profile in profiles:
            with self._nvml.calling("nvmlDeviceGetGpuInstances", card) as nvml:
                room = (nvml.c_nvmlGpuInstance_t * _MOST)()
                count = c_uint(_MOST)
                nvml.nvmlDeviceGetGpuInstances(handle, profile.id, room, byref(count))
                for one in room[: count.value]:
                    info = nvml.nvmlGpuInstanceGetInfo(one)
                    place = MigPlacement(int(info.placement.start), int(info.placement.size))
                    sizes = {number: slices for number, _, slices in self._compute(card, one)}
                    filled = list(sizes.values()) == [profile.slices]
                    found.append(Instance(int(info.id), profile.id, place, tuple(sizes), filled))
        return sorted(found, key=lambda one: one.placement.start)

    def _compute(self, card: str, instance: Any) -> Iterator[tuple[int, Any, int]]:  # noqa: ANN401 - opaque handle
        """Id, handle and slices of each compute instance of a GPU instance."""
        seen = set()
        for profile, slices in self._compute_profiles(card, instance):
            with self._nvml.calling("nvmlGpuInstanceGetComputeInstances", card) as nvml:
                room = (nvml.c_nvmlComputeInstance_t * _MOST)()
                count = c_uint(_MOST)
                nvml.nvmlGpuInstanceGetComputeInstances(instance, profile, room, byref(count))
                for one in room[: count.value]:
                    number = int(nvml.nvmlComputeInstanceGetInfo(one).id)
                    if number not in seen:
                        seen.add(number)
                        yield number, one, slices

    def _compute_profiles(self, card: str, instance: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - opaque
        """Id and slices of each compute instance profile of a GPU instance."""
        for number in range(COMPUTE_PROFILES):
            try:
                with self._nvml.calling("nvmlGpuInstanceGetComputeInstanceProfileInfo", card) as nvml:
                    info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, SHARED_ENGINES, 1)
            except NvmlError as error:
                if error.code in NO_SUCH_QUESTION:
                    continue
                raise
            yield int(info.id), int(info.sliceCount)

    def devices(self, card: str) -> dict[tuple[int, int], str]:
        """The MIG devices of a card: GPU and compute instance id → UUID.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self._nvml.handle(card)
        found = {}
        with self._nvml.calling("nvmlDeviceGetMaxMigDeviceCount", card) as nvml:
            most = int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
        for index in range(most):
            try:
                with self._nvml.calling("nvmlDeviceGetMigDeviceHandleByIndex", card) as nvml:
                    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                    ids = nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device)
                    found[int(ids[0]), int(ids[1])] = text_of(nvml.nvmlDeviceGetUUID(device))
            except NvmlError as error:
                if error.code != ERROR_NOT_FOUND and error.code not in NO_SUCH_QUESTION:
                    raise
        return found

    # --- changes ---------------------------------------------------------------------------------------------------

    def enable(self, card: str) -> None:
        """Turn MIG mode on. If the card is in use, nothing changes; an idle one the driver may reset by itself.

        Raises:
            NvmlError: The driver refuses.
            DeviceError: The card is in use.
        """
        handle = self._nvml.handle(card)
        with self._nvml.calling("nvmlDeviceSetMigMode", card) as nvml:
            status = int(nvml.nvmlDeviceSetMigMode(handle, 1))
            if status:
                nvml.nvmlDeviceSetMigMode(handle, 0)  # else a later reset would change the mode
        if status:
            raise DeviceError(f"card {card}: MIG mode can't be turned on now (NVML error {status})")

    def create(self, card: str, profile: int, placement: MigPlacement) -> int:
        """Make a GPU instance at a place and return its id.

        Raises:
            NvmlError: The driver refuses, since something lies there.
        """
        handle = self._nvml.handle(card)
        with self._nvml.calling("nvmlDeviceCreateGpuInstanceWithPlacement", card) as nvml:
            at = byref(nvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size))
            made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile, at)
            return int(nvml.nvmlGpuInstanceGetInfo(made).id)

    def create_compute(self, card: str, instance: int, slices: int) -> int:
        """Make the compute instance that fills a GPU instance, and return its id.

        Raises:
            NvmlError: The driver refuses.
            DeviceError: The GPU instance has no compute profile of its own size.
        """
        handle = self._instance(card, instance)
        for profile, size in self._compute_profiles(card, handle):
            if size == slices:
                with self._nvml.calling("nvmlGpuInstanceCreateComputeInstance", card) as nvml:
                    made = nvml.nvmlGpuInstanceCreateComputeInstance(handle, profile)
                    return int(nvml.nvmlComputeInstanceGetInfo(made).id)
        raise DeviceError(f"card {card}: GPU instance {instance} has no compute profile of {slices} slices")

    def destroy_compute(self, card: str, instance: int, compute: int) -> None:
        """Destroy a compute instance. It may be gone already.

        Raises:
            NvmlError: A process uses it (NVML's IN_USE), or the card does not answer.
        """
        handles = {number: one for number, one, _ in self._compute(card, self._instance(card, instance))}
        if compute in handles:
            with self._nvml.calling("nvmlComputeInstanceDestroy", card) as nvml:
                nvml.nvmlComputeInstanceDestroy(handles[compute])

    def destroy(self, card: str, instance: int) -> None:
        """Destroy a GPU instance without compute instances.

        Raises:
            NvmlError: It has some, or the card does not answer.
        """
        handle = self._instance(card, instance)
        with self._nvml.calling("nvmlGpuInstanceDestroy", card) as nvml:
            nvml.nvmlGpuInstanceDestroy(handle)

    def _instance(self, card: str, instance: int) -> Any:  # noqa: ANN401 - NVML's opaque handle
        handle = self._nvml.handle(card)
        with self._nvml.calling("nvmlDeviceGetGpuInstanceById", card) as nvml:
            return nvml.nvmlDeviceGetGpuInstanceById(handle, instance)
