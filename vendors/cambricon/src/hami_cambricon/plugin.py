"""The vendor Cambricon: one family, devices from a node's capacity, and annotations for Cambricon's device plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from hami_cambricon.config import CambriconConfig
from hami_core import (
    Capability,
    Device,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Resources,
    SelectorKeys,
    Support,
    WireError,
    hookimpl,
)
from hami_core.vendorkit import PROTOCOL_TIME, RequestDefaults, capacity, ceil_div, default_parse_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, NodeFacts, PodFacts, Request, Slice

WORD: Final = "MLU"
UNIT_MIB: Final = 256
"""MiB per unit of the memory resource."""
SLOTS: Final = 100
LOCK_KEY: Final = "cambricon.com/dsmlu.lock"
LOCK_TIMEOUT_S: Final = 120.0
ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGNED"
ASSIGNED_VENDOR_SPELLING: Final = "CAMBRICON_DSMLU_ASSIGHED"
PROFILE: Final = "CAMBRICON_DSMLU_PROFILE"
MAX_CARDS: Final = 1024
_MAX_MEMORY: Final = 2**31 - 1
_ORDINAL = re.compile(r"(\d{1,4})$")

_THEIRS = "Cambricon's device plugin does it on the node; our node side is planned"
CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, _THEIRS),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, _THEIRS),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Cambricon"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "the capacity does not say the model"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "the capacity does not say NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "the capacity does not say links"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.PARTIAL, f"sMLU profiles; {_THEIRS}"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.PLANNED, "Cambricon's device plugin serves the devices"),
}


class Cambricon:
    """Scheduler side of the Cambricon vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self) -> None:
        self._config = CambriconConfig()
        self._family = _family(self._config)

    @hookimpl
    def config_model(self) -> type[CambriconConfig]:
        """Section ``cambricon``."""
        return CambriconConfig

    @hookimpl
    def families(self, config: CambriconConfig | None) -> Sequence[Family]:
        """The one family ``MLU``."""
        self._config = config or CambriconConfig()
        self._family = _family(self._config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """One card for every 100 cores of the node's capacity, rounded up, with an equal share of its memory."""
        if self._config.resource_core_name not in node.capacity:
            return None
        cores = capacity(node, self._config.resource_core_name)
        if cores == 0:
            return ()
        cards = ceil_div(cores, 100)
        memory = capacity(node, self._config.resource_memory_name) * UNIT_MIB * 100 // cores
        if cards > MAX_CARDS or memory > _MAX_MEMORY:
            problem = f"{cards} cards of {memory} MiB; at most {MAX_CARDS} cards of {_MAX_MEMORY} MiB are accepted"
            raise WireError(f"capacity {self._config.resource_core_name}", -1, problem)
        return [_card(node.name, index, memory) for index in range(cards)]

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """A container with a count in its limits uses devices. Its amounts are checked and nothing is changed."""
        if self._config.resource_count_name not in container.limits:
            return None
        default_parse_request(container, pod, self._family)
        return Mutation(uses_devices=True)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Cores default to 100 percent."""
        return default_parse_request(container, pod, family, RequestDefaults(cores=100))

    @hookimpl
    def patch_annotations(self, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for Cambricon's device plugin: the profile of the pod's first booked device."""
        first = next((pieces[0] for pieces in allocation.of(WORD) if pieces), None)
        if first is None:
            return {}
        profile = f"{_ordinal(first)}_{first.cores}_{first.memory_mib // UNIT_MIB}"
        written = {ASSIGNED: "false", PROFILE: profile}
        if self._config.vendor_spelling:
            written[ASSIGNED_VENDOR_SPELLING] = "false"
        return written

    @hookimpl
    def lock_annotations(self) -> Mapping[str, str]:
        """Cambricon's device plugin serves one pod at a time, and then removes the lock."""
        return {LOCK_KEY: PROTOCOL_TIME}


def _family(config: CambriconConfig) -> Family:
    return Family(
        word=WORD,
        resources=Resources(
            config.resource_count_name, memory=config.resource_memory_name, cores=config.resource_core_name
        ),
        allocated_key="hami.io/cambricon-mlu-devices-allocated",
        to_allocate_key="hami.io/cambricon-mlu-devices-to-allocate",
        uuid_selectors=(SelectorKeys("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),),
        memory_factor=UNIT_MIB,
        capabilities=CAPABILITIES,
        lock_timeouts_s={LOCK_KEY: LOCK_TIMEOUT_S},
        doctor=DoctorNotes(neighbours=(Neighbour(("cambricon-k8s-device-plugin",), "Cambricon's device plugin"),)),
    )


def _card(node: str, index: int, memory: int) -> Device:
    return Device(
        id=f"{node}-cambricon-mlu-{index}",
        index=index,
        slots=SLOTS,
        memory_mib=memory,
        cores=100,
        type=WORD,
        family=WORD,
        healthy=True,
    )


def _ordinal(piece: Slice) -> int:
    """The card's number: the booked index, or else the number at the end of its id."""
    if piece.index >= 0:
        return piece.index
    found = _ORDINAL.search(piece.device_id)
    if found is None:
        raise WireError("allocation", -1, f"device {piece.device_id!r} has no number for {PROFILE}")
    return int(found[1])
