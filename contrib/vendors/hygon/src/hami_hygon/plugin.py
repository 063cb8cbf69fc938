"""The vendor Hygon: DCUs of nodes with HAMi's DCU plugin, and HCUs of nodes with Hygon's own plugin.

Both are the same cards. The plugins differ in every name, so each has a family. Hygon's plugin also needs some requests
to be refused, because it deletes their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import (
    Capability,
    ContainerKind,
    DoctorNotes,
    Family,
    Grade,
    Neighbour,
    Reason,
    RequestError,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import (
    MODE_NOT_FIT,
    NODE_LOCK_KEY,
    RequestDefaults,
    default_parse_request,
    read_csv_registers,
)
from hami_hygon.config import DCU, HCU, HygonConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from hami_core import ContainerSpec, Device, DeviceUsage, NodeFacts, PodFacts, Request

ALL_CORES: Final = 100
UUID_KEYS: Final = SelectorKeys("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid")
PLUGINS: Final = {
    DCU: Neighbour(("dcu-vgpu-device-plugin",), "HAMi's DCU plugin"),
    HCU: Neighbour(("hcu-device-plugin",), "Hygon's HCU plugin"),
}

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "kept for containers with one card; several cards are given whole"),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "kept for containers with one card and a part of its memory"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Hygon"),
    Capability.TYPE_SELECTORS: Grade(Support.FULL),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "HAMi's DCU plugin does not report NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "the nodes do not report links between cards"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.UNSUPPORTED, "instances of MIG mode are resources of Hygon's plugin"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "HAMi's DCU plugin or Hygon's HCU plugin serves the nodes"),
}


class Hygon:
    """Scheduler side of the Hygon vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[HygonConfig]:
        """Section ``hygon``."""
        return HygonConfig

    @hookimpl
    def families(self, config: HygonConfig) -> Sequence[Family]:
        """The families ``DCU`` and ``HCU``."""
        self._families = tuple(_family(word, config) for word in (DCU, HCU))
        return self._families

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The cards of the node's register annotations."""
        return read_csv_registers(node, self._families)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Cores default to 100 percent.

        Hygon's plugin counts a pod's containers from the first init container and looks the number up in
        ``spec.containers``. So it may fail a pod whose init container asks for HCUs, after the pod was bound.
        """
        request = default_parse_request(container, pod, family, RequestDefaults(cores=ALL_CORES))
        if request and family.word == HCU and container.kind is not ContainerKind.APP:
            problem = "is asked for by an init container, which Hygon's device plugin does not serve"
            fix = "ask for it in spec.containers"
            raise RequestError(f"container {container.name}", family.resources.count, problem, fix)
        return request

    @hookimpl
    def custom_filter(self, request: Request, device: DeviceUsage) -> Reason | None:
        """Refuse what Hygon's plugin would delete: pods that name memory, and get neither a vHCU nor whole HCUs.

        The plugin makes a vHCU for a container with one HCU and less than all of its memory. It gives an HCU as a whole
        if the container has all memory and all cores. It deletes a running pod that names memory and has neither.
        """
        if not _names_hcu_memory(request):
            return None
        is_all_memory = request.memory_mib >= device.device.memory_mib
        if (request.cores >= ALL_CORES) if is_all_memory else (request.count == 1):
            return None
        names = next(family.resources for family in self._families if family.word == HCU)
        part = f"all memory without all {names.cores}" if is_all_memory else "a part of several HCUs"
        detail = f"Hygon's device plugin, which serves the node, does not give {part}; leave {names.memory} out"
        return Reason(MODE_NOT_FIT, device.device.id, detail=detail)

    @hookimpl
    def fit_mask(self, request: Request, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Answer `custom_filter` for all cards at once. Otherwise Filter would ask about each DCU too."""
        memory = columns["total_memory"]
        if not _names_hcu_memory(request):
            return memory >= 0
        is_all_memory = memory <= request.memory_mib
        return (is_all_memory & (request.cores >= ALL_CORES)) | (~is_all_memory & (request.count == 1))


def _names_hcu_memory(request: Request) -> bool:
    return request.family == HCU and request.memory_mib > 0


def _family(word: str, config: HygonConfig) -> Family:
    stem = word.lower()
    resources = config.resources(word)
    return Family(
        word=word,
        resources=resources,
        offered_resource=resources.count,
        allocated_key=f"hami.io/{stem}-devices-allocated",
        to_allocate_key=f"hami.io/{stem}-devices-to-allocate",
        register_key=f"hami.io/node-{stem}-register",
        handshake_key=f"hami.io/node-handshake-{stem}",
        foreign_lock=NODE_LOCK_KEY,
        uuid_selectors=(UUID_KEYS,),
        type_selectors=(SelectorKeys(f"hygon.com/use-{stem}type", f"hygon.com/nouse-{stem}type"),),
        memory_factor=config.memory_factor or 1,
        scored_from=None,
        capabilities=CAPABILITIES,
        doctor=DoctorNotes(neighbours=(PLUGINS[word],), node_labels=((stem, "on"),)),  # as in the plugins' manifests
    )
