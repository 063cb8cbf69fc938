"""The vendor Iluvatar: a family for each chip, on nodes that Iluvatar's gpu-manager serves.

The gpu-manager offers cores and memory to the kubelet as well. So admission writes how many cores a container gets, and
the kubelet counts the same as the scheduler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import (
    Capability,
    Caution,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import NODE_LOCK_KEY, amount_of, default_parse_request, read_csv_registers
from hami_iluvatar.config import IluvatarConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import ContainerSpec, Device, NodeFacts, PodFacts, Request
    from hami_iluvatar.config import Chip

UNIT_MIB: Final = 256
"""MiB per unit of the memory resource."""
WHOLE_GPU: Final = 100
"""Units of the core resource that each GPU has."""
CONTAINER_NAME: Final = "SOL_CONTINER_NAME"
"""Variable by which Iluvatar's library learns its container's name. The spelling is HAMi's and Iluvatar's."""

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "for containers with one GPU; several GPUs are given whole"),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "for containers with one GPU; several GPUs are given whole"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Iluvatar"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "each chip has resource names of its own"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "HAMi has no such annotation for Iluvatar"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "the nodes do not report links between GPUs"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.UNSUPPORTED, "GPUs are shared in software"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "Iluvatar's gpu-manager serves the nodes"),
}

DOCTOR: Final = DoctorNotes(
    neighbours=(
        Neighbour(("gpu-manager",), "Iluvatar's gpu-manager"),
        Neighbour(("ix-device-plugin",), "Iluvatar's plugin for whole GPUs"),
    ),
    cautions=(
        Caution(
            "gpu-admission",
            ("gpu-admission",),
            "by image",
            "Iluvatar's gpu-admission runs and changes the same pods as HAMi",
            "remove it: nodes need the gpu-manager only",
        ),
    ),
)


class Iluvatar:
    """Scheduler side of the Iluvatar vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[IluvatarConfig]:
        """Section ``iluvatars``."""
        return IluvatarConfig

    @hookimpl
    def families(self, config: IluvatarConfig) -> Sequence[Family]:
        """One family for each configured chip."""
        self._families = tuple(_family(chip) for chip in config.root)
        return self._families

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The GPUs of every chip's register annotation."""
        return read_csv_registers(node, self._families)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Write the cores of whole GPUs, and the container's name for Iluvatar's library.

        A container with several GPUs gets all of their cores. More than one GPU's cores for one GPU are written as one
        GPU's: the scheduler books so many, and the kubelet must count the same.
        """
        asked = [family for family in self._families if family.resources.count in container.limits]
        if not asked:
            return None
        written: dict[str, str] = {}
        for family in asked:
            request = default_parse_request(container, pod, family)
            cores = amount_of(container, family.resources.cores) or 0
            if request and (request.count > 1 or cores > WHOLE_GPU):
                written[family.resources.cores] = str(WHOLE_GPU * request.count)
        return Mutation(uses_devices=True, limits=written, requests=written, env=((CONTAINER_NAME, container.name),))

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Several GPUs are given with all cores, so no other container uses them."""
        request = default_parse_request(container, pod, family)
        return replace(request, cores=WHOLE_GPU) if request and request.count > 1 else request


def _family(chip: Chip) -> Family:
    word = chip.common_word
    return Family(
        word=word,
        resources=Resources(chip.resource_count_name, memory=chip.resource_memory_name, cores=chip.resource_core_name),
        offered_resource=chip.resource_count_name,
        register_key=f"hami.io/node-{word}-register",
        handshake_key=f"hami.io/node-handshake-{word}",
        to_allocate_key=f"hami.io/{word}-devices-to-allocate",
        allocated_key=f"hami.io/{word}-devices-allocated",
        uuid_selectors=(SelectorKeys(f"hami.io/use-{word}-uuid", f"hami.io/no-use-{word}-uuid"),),
        foreign_lock=NODE_LOCK_KEY,
        memory_factor=UNIT_MIB,
        scored_from=None,
        capabilities=CAPABILITIES,
        doctor=DOCTOR,
    )
