"""The vendor AMD: one family, devices from the plugin's register, and compute units counted as the plugin counts them.

HAMi's AMD device plugin (Project-HAMi/amd-device-plugin) serves the nodes. It registers each GPU with its number of
compute units (CUs). Pods ask for percent, and an allocation holds CUs, because the plugin gives each container so many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_amd.config import AmdConfig
from hami_core import (
    Capability,
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
    hookimpl,
)
from hami_core.vendorkit import (
    CARD_INSUFFICIENT_CORE,
    MODE_NOT_FIT,
    NODE_LOCK_KEY,
    amount_of,
    ceil_div,
    default_check_type,
    memory_of,
    read_json_register,
    unregistered_devices,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import ContainerSpec, Device, DeviceKind, DeviceUsage, NodeFacts, PodFacts, Slice

WORD: Final = "AMD"
REGISTER_KEY: Final = "hami.io/node-amd-register"
ALL_CORES: Final = 100
PERCENT: Final = "cores_percent"
"""Key in `Request.custom`: percent of each GPU's compute units."""
GROUP: Final = "cuPerWGP"
"""Key in a registered device's ``custominfo``: CUs that the plugin gives together. Absent: each by itself."""
MAX_GROUP: Final = 64
PLUGIN: Final = "HAMi's amd-device-plugin"

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "kept by the plugin's library, which needs glibc 2.34 or newer"),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "a mask of compute units that a process can change"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for AMD"),
    Capability.TYPE_SELECTORS: Grade(Support.FULL),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "HAMi has no such annotation for AMD"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "the plugin registers no links between GPUs"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.UNSUPPORTED, "a partitioned GPU is registered as several GPUs"),
    Capability.QUOTA: Grade(Support.PARTIAL, "cores are counted in compute units"),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, f"{PLUGIN} serves the nodes"),
}


class Amd:
    """Scheduler side of the AMD vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[AmdConfig]:
        """Section ``amd``."""
        return AmdConfig

    @hookimpl
    def families(self, config: AmdConfig) -> Sequence[Family]:
        """The one family ``AMD``."""
        self._config = config
        self._family = _family(config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The plugin's register. Without it, GPUs that the kubelet offers are shown as not offered, with the reason."""
        registered = read_json_register(node, self._family)
        if registered is not None:
            return registered
        return unregistered_devices(node, self._family, PLUGIN)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec) -> Mutation | None:
        """A container with any of the family's resources in its limits uses devices. HAMi ignores requests."""
        if not any(name in container.limits for name in self._family.resources.names()):
            return None
        if self._config.resource_count_name in container.limits:
            self._percent(container)
        return Mutation(uses_devices=True)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the limits. Memory and cores that are left out are all of the GPU's."""
        limits = replace(container, requests={})
        count = amount_of(limits, family.resources.count)
        memory = memory_of(limits, family.resources.memory)
        if count is None and (lone := [name for name in family.resources.names() if name in limits.limits]):
            fix = f"write {family.resources.count}: 1 beside it"
            raise RequestError(f"container {container.name}", lone[0], "stands alone in the limits", fix)
        if not count:
            return None
        return Request(
            family=family.word,
            count=count,
            memory_mib=memory or 0,
            memory_percent=None if memory else 100,
            annotations=pod.annotations,
            custom={PERCENT: self._percent(limits)},
        )

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Apply the annotations on product names, and refuse pods that the plugin can't finish."""
        if refusal := default_check_type(request, kind, self._family):
            return refusal
        if request.askers > 1 and not self._config.several_containers:
            why = f"serves one container of a pod, and {request.askers} ask for GPUs (amd.severalContainers)"
            return Reason(MODE_NOT_FIT, detail=f"{PLUGIN}, which serves the node, {why}")
        return None

    @hookimpl
    def account(self, request: Request, device: DeviceUsage, piece: Slice) -> Slice | Reason | None:
        """Book compute units: the percentage of the GPU's, at least 1, in whole groups. Refuse if fewer are free."""
        total, percent = device.device.cores, request.custom[PERCENT]
        free = total - device.used_cores
        group = _group(device.device)
        wanted = max(total * percent // ALL_CORES, 1)
        units = min(ceil_div(wanted, group) * group, max(total, 1))
        if units > free:
            available = max(free, 0) * ALL_CORES // total if total else 0
            detail = f"{units} of {total} compute units asked for, {max(free, 0)} free"
            return Reason(CARD_INSUFFICIENT_CORE, device.device.id, percent, available, detail)
        return replace(piece, cores=units)

    def _percent(self, container: ContainerSpec) -> int:
        """The container's percent of cores.

        Raises:
            RequestError: It is not a whole number from 1 to 100; in HAMi's words.
        """
        name = self._config.resource_core_name
        try:
            percent = amount_of(replace(container, requests={}), name)
        except RequestError:
            percent = 0
        if percent is None:
            return ALL_CORES
        if not 1 <= percent <= ALL_CORES:
            problem = f"{container.limits[name]}: {name} must be an integer percentage between 1 and {ALL_CORES}"
            fix = "leave it out to get all compute units"
            raise RequestError(f"container {container.name}", name, problem, fix)
        return percent


def _family(config: AmdConfig) -> Family:
    count = config.resource_count_name
    return Family(
        word=WORD,
        resources=Resources(count, memory=config.resource_memory_name, cores=config.resource_core_name),
        allocated_key="hami.io/amd-devices-allocated",
        to_allocate_key="hami.io/amd-devices-to-allocate",
        register_key=REGISTER_KEY,
        foreign_lock=NODE_LOCK_KEY,
        uuid_selectors=(SelectorKeys("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),),
        type_selectors=(SelectorKeys("amd.com/use-gputype", "amd.com/nouse-gputype"),),
        full_card_rule=False,
        device_type_on_wire=True,
        offered_resource=count,
        cores_are_units=True,
        capabilities=CAPABILITIES,
        doctor=DoctorNotes(
            neighbours=(
                Neighbour(("amd-device-plugin",), PLUGIN),
                Neighbour(("rocm/k8s-device-plugin", "amdgpu-device-plugin"), "AMD's device plugin for ROCm"),
            )
        ),
    )


def _group(device: Device) -> int:
    """How many compute units the plugin gives together: 2 on RDNA, where a mask must not split a pair."""
    told = device.custom.get(GROUP, 1)
    return told if type(told) is int and 1 <= told <= MAX_GROUP else 1
