"""The vendor Enflame: whole GCUs (family ``GCU``) and DRS slices (family ``Enflame``).

Enflame's plugin gcushare-device-plugin serves the slices. It reads one card for each pod and one profile for each
container, and makes the instance when the kubelet asks for the container.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import (
    Capability,
    ContainerKind,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Reason,
    Request,
    RequestError,
    Resources,
    SelectorKeys,
    Support,
    WireError,
    hookimpl,
)
from hami_core.vendorkit import (
    CARD_INSUFFICIENT_CORE,
    CARD_INSUFFICIENT_MEMORY,
    MODE_NOT_FIT,
    RequestDefaults,
    amount_of,
    capacity,
    capacity_devices,
    default_parse_request,
    quantity_of,
)
from hami_enflame.config import EnflameConfig
from hami_enflame.drs import CAPACITY_KEY, INSTANCE, WORD, profile_of_size, profile_with, read_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, Device, DeviceUsage, NodeFacts, PodFacts, Slice
    from hami_enflame.drs import Profile

WHOLE_WORD: Final = "GCU"
WHOLE_GCU: Final = 100
"""What HAMi books of a whole GCU: 100 of memory and 100 of cores."""
ASSIGNED: Final = "enflame.com/gcu-assigned"
CONTAINERS: Final = "assigned-containers"
SIZE, MEMORY, CORES = "size", "memory", "cores"
"""Keys in `Request.custom`: the slices, or else the memory and the percent of cores that the container asks for."""
OFFERED: Final = "offered"
"""Key in `Device.custom`: the resources of memory and cores that the node's kubelet offers."""
NO_NODE_SIDE: Final = Grade(Support.UNSUPPORTED, "Enflame's device plugin serves the nodes")
NO_LINKS: Final = Grade(Support.UNSUPPORTED, "the nodes do not report links between GCUs")
NO_NUMA: Final = Grade(Support.UNSUPPORTED, "the nodes do not report NUMA nodes")
NO_MODELS: Final = Grade(Support.UNSUPPORTED, "HAMi has no annotation that chooses models of Enflame")
BY_SIZE: Final = "a slice has the memory and cores of its profile"
WHOLE_CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.UNSUPPORTED, "a whole GCU serves one container"),
    Capability.UUID_SELECTORS: Grade(Support.UNSUPPORTED, "the kubelet chooses among whole GCUs"),
    Capability.TYPE_SELECTORS: NO_MODELS,
    Capability.NUMA_BINDING: NO_NUMA,
    Capability.TOPOLOGY: NO_LINKS,
    Capability.NODE_AGENT: NO_NODE_SIDE,
}
DRS_CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, BY_SIZE),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, BY_SIZE),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Enflame"),
    Capability.TYPE_SELECTORS: NO_MODELS,
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: NO_NUMA,
    Capability.TOPOLOGY: NO_LINKS,
    Capability.HARDWARE_PARTITIONS: Grade(Support.FULL),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: NO_NODE_SIDE,
}


class Enflame:
    """Scheduler side of the Enflame vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[EnflameConfig]:
        """Section ``enflame``."""
        return EnflameConfig

    @hookimpl
    def families(self, config: EnflameConfig) -> Sequence[Family]:
        """The families ``GCU`` and ``Enflame``."""
        self._whole, self._drs = _families(config)
        return self._whole, self._drs

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """Whole GCUs out of the node's capacity, and GCUs in DRS mode out of its annotation."""
        whole = capacity_devices(node, self._whole, WHOLE_WORD, memory_mib=WHOLE_GCU)
        text = node.annotations.get(CAPACITY_KEY)
        if text is None:
            return whole
        names = self._drs.resources
        allocatable = replace(node, capacity=node.allocatable)
        offered = tuple(name for name in (names.memory, names.cores) if capacity(allocatable, name))
        drs = (replace(d, custom={**d.custom, OFFERED: offered}) for d in read_devices(node.name, text))
        return (*(whole or ()), *drs)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Check the amounts, and write those of a slice into limits and requests alike, as HAMi does."""
        uses = default_parse_request(container, pod, self._whole) is not None
        if self._slices(container) is None:
            return Mutation(uses_devices=True) if uses else None
        asked = {name: quantity_of(container, name) for name in self._drs.resources.names()}
        missing = [
            {name: text for name, text in asked.items() if text is not None and name not in written}
            for written in (container.limits, container.requests)
        ]
        return Mutation(uses_devices=True, limits=missing[0], requests=missing[1])

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Whole GCUs by their count. A slice is one device, by its size or by memory and cores."""
        if family.word == WHOLE_WORD:
            return default_parse_request(container, pod, family, RequestDefaults(cores=WHOLE_GCU))
        asked = self._slices(container)
        return None if asked is None else Request(WORD, 1, annotations=pod.annotations, custom=asked)

    @hookimpl
    def account(self, request: Request, device: DeviceUsage, piece: Slice) -> Slice | Reason | None:
        """Turn what is asked for into an instance of one of the node's profiles, and book its memory and cores."""
        if request.family != WORD:
            return None
        of, profiles = device.device, device.device.custom["profiles"]
        profile, why = self._profile(request.custom, profiles, of.custom[OFFERED])
        if profile is None or why:
            have = ", ".join(f"{p.name} ({p.size})" for p in profiles)
            return Reason(MODE_NOT_FIT, of.id, detail=f"{why}; the node's profiles are {have}")
        memory, cores = of.memory_mib - device.used_memory_mib, of.cores - device.used_cores
        if memory < profile.memory_mib:
            return Reason(CARD_INSUFFICIENT_MEMORY, of.id, needed=profile.memory_mib, available=memory)
        if cores < profile.cores:
            return Reason(CARD_INSUFFICIENT_CORE, of.id, needed=profile.cores, available=cores)
        instance = profile.instance(of.index, of.custom["minor"])
        return replace(piece, memory_mib=profile.memory_mib, cores=profile.cores, mode=instance)

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for Enflame's plugin: the pod's card, and the profile of each container."""
        slices = [(part.name, piece) for part in allocation.containers for piece in part.slices if piece.family == WORD]
        if not slices:
            return {}
        records, sizes, index, minor = {}, [], "", ""
        for name, piece in slices:
            found = INSTANCE.fullmatch(piece.mode)
            if found is None:
                raise WireError("allocation", -1, f"{piece.device_id} of container {name} has no profile")
            profile, size, number, index, minor = found.groups()
            sizes.append(int(size))
            records[name] = {"allocated": False, "request": int(size), "profileID": number, "profileName": profile}
        return {
            ASSIGNED: "false",
            f"{ASSIGNED}-time": str(pod.decided_at_ns),
            f"{ASSIGNED}-index": index,
            f"{ASSIGNED}-id": index,
            f"{ASSIGNED}-minor": minor,
            "enflame.com/gcu-request-size": str(sum(sizes)),
            CONTAINERS: json.dumps(dict(sorted(records.items())), separators=(",", ":")),  # in Go's order
        }

    def _slices(self, container: ContainerSpec) -> dict[str, int] | None:
        """What a container asks of a GCU in DRS mode; None: nothing.

        Raises:
            RequestError: An amount is 0 or can't be read, size and amounts are mixed, or the plugin serves no such
                container.
        """
        names, where = self._drs.resources, f"container {container.name}"
        named = {SIZE: names.count, MEMORY: names.memory, CORES: names.cores}
        asked = {key: n for key, name in named.items() if (n := amount_of(container, name)) is not None}
        if not asked:
            return None
        for key, amount in asked.items():
            if amount == 0 and key != CORES:
                raise RequestError(where, named[key], f"{named[key]} must be greater than 0", "or leave it out")
        if not 0 < asked.get(CORES, 1) <= WHOLE_GCU:
            fix = "write a percentage from 1 to 100"
            raise RequestError(where, names.cores, f"{names.cores} must be in range (0,100]", fix)
        if SIZE in asked and len(asked) > 1:
            problem = "is written beside an amount of memory or cores, and a slice has those of its size"
            raise RequestError(where, names.count, problem, f"write {names.count} alone")
        if container.kind is not ContainerKind.APP:
            problem = "Enflame's device plugin serves no init containers and no sidecars"
            raise RequestError(where, named[next(iter(asked))], problem, "ask in an app container")
        return asked

    def _profile(
        self, asked: Mapping[str, int], profiles: tuple[Profile, ...], offered: tuple[str, ...]
    ) -> tuple[Profile | None, str]:
        """The profile for a request, and why a node can't give it."""
        names = self._drs.resources
        if size := asked.get(SIZE):
            found = profile_of_size(profiles, size)
            return found, "" if found else f"none has size {size}"
        memory, cores = asked.get(MEMORY, 0), asked.get(CORES, 0)
        found = profile_with(profiles, memory, cores)
        if found is None:
            return None, f"none has {memory} of {names.memory} and {cores} of {names.cores}"
        wanted = [name for name, amount in ((names.memory, memory), (names.cores, cores)) if amount]
        if wanted and not set(wanted) & set(offered):
            return found, f"the kubelet offers no {wanted[0]}; write {names.count}: {found.size}"
        return found, ""


def _families(config: EnflameConfig) -> tuple[Family, Family]:
    doctor = DoctorNotes(neighbours=(Neighbour(("gcushare-device-plugin",), "Enflame's device plugin gcushare"),))
    whole = Family(
        word=WHOLE_WORD,
        resources=Resources(config.resource_name_gcu),
        allocated_key="hami.io/enflame-gcu-devices-allocated",
        to_allocate_key="hami.io/enflame-gcu-devices-to-allocate",
        offered_resource=config.resource_name_gcu,
        account_modes=frozenset(),
        capabilities=WHOLE_CAPABILITIES,
    )
    drs = Family(
        word=WORD,
        resources=Resources(config.slices, memory=config.resource_name_gcu_memory, cores=config.resource_name_gcu_core),
        allocated_key="hami.io/enflame-vgpu-devices-allocated",
        register_key=CAPACITY_KEY,
        offered_resource=config.slices,
        one_choice_per_pod=True,
        count_is_size=True,
        uuid_selectors=(SelectorKeys("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),),
        full_card_rule=False,
        cores_are_units=True,  # metrics show percent of a GCU's 102
        capabilities=DRS_CAPABILITIES,
        doctor=doctor,
    )
    return whole, drs
