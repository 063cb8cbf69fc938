"""The vendor Cambricon: one family, devices from register or capacity, and annotations for Cambricon's device plugin.

A node with our agent has a register. On other nodes Cambricon's device plugin runs in mode ``dynamic-smlu``: the cards
follow from the node's capacity, and a pod may ask only for what that plugin can serve.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_cambricon.config import CambriconConfig
from hami_core import (
    Capability,
    ContainerKind,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Reason,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import (
    CARD_TYPE_MISMATCH,
    PROTOCOL_TIME,
    RequestDefaults,
    amount_of,
    capacity_devices,
    card_number,
    default_check_type,
    default_parse_request,
    read_json_register,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, Device, DeviceKind, NodeFacts, PodFacts, Request

WORD: Final = "MLU"
UNIT_MIB: Final = 256
"""MiB per unit of the memory resource."""
SLOTS: Final = 100
ALL_CORES: Final = 100
REGISTER_KEY: Final = "hami.io/node-mlu-register"
"""Node annotation in which our agent lists the node's MLUs. HAMi has no such key."""
MODEL_LABEL: Final = "Model"
"""Node label with the model of the node's MLUs, written by Cambricon's plugin since v2.0.20 with ``--node-label``."""
PLUGIN_MODE: Final = "dynamic-smlu"
"""Mode of the cards on nodes that Cambricon's device plugin serves."""
TYPE_KEYS: Final = SelectorKeys("cambricon.com/use-mlutype", "cambricon.com/nouse-mlutype")
LOCK_KEY: Final = "cambricon.com/dsmlu.lock"
LOCK_TIMEOUT_S: Final = 120.0
ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGNED"
ASSIGNED_VENDOR_SPELLING: Final = "CAMBRICON_DSMLU_ASSIGHED"
PROFILE: Final = "CAMBRICON_DSMLU_PROFILE"
_OUTSIDE: Final = "outside spec.containers"
"""Key in `Request.custom` of a request whose container is an init container or a sidecar."""

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.FULL),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "needs the driver's module cambricon-util_drv on the node"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Cambricon"),
    Capability.TYPE_SELECTORS: Grade(Support.PARTIAL, f"needs our agent on the node, or its label {MODEL_LABEL}"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.PARTIAL, "needs our agent on the node; the capacity says no NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "no links between MLUs are read"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.PARTIAL, "sMLU instances; MIM is left to Cambricon's device plugin"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.FULL),
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
        """Our agent's register; without it, one card for every 100 cores of the node's capacity, as in HAMi."""
        registered = read_json_register(node, self._family)
        if registered is not None:
            return registered
        model = node.labels.get(MODEL_LABEL, "")
        return capacity_devices(
            node,
            self._family,
            "cambricon-mlu",
            counted=self._config.resource_core_name,
            per_card=ALL_CORES,
            slots=SLOTS,
            model=model if WORD in model.upper() else "",
            mode=PLUGIN_MODE,
        )

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """A container with a count in its limits uses devices. Its amounts are checked, and its cores made explicit.

        Cambricon's plugin finishes a pod when the kubelet asks for both its resources, memory and cores. So cores that
        are left out beside an amount of memory become 100. HAMi books cores above 100 as 100; the kubelet must count
        the same.
        """
        if self._config.resource_count_name not in container.limits:
            return None
        request = _parse(container, pod, self._family)
        name = self._config.resource_core_name
        cores = amount_of(container, name)
        is_missing = cores is None and request is not None and request.memory_mib > 0
        written = {name: str(ALL_CORES)} if is_missing or (cores or 0) > ALL_CORES else {}
        return Mutation(uses_devices=True, limits=written, requests=written)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Cores default to 100 percent."""
        request = _parse(container, pod, family)
        if request is None or container.kind is ContainerKind.APP:
            return request
        return replace(request, custom={_OUTSIDE: True})

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Apply the model annotations, and refuse what Cambricon's plugin can't serve on nodes that it serves."""
        if refusal := default_check_type(request, kind, self._family):
            return refusal
        if kind.type == WORD and any(
            request.annotations.get(key, "").strip() for key in (TYPE_KEYS.use, TYPE_KEYS.nouse)
        ):
            return Reason(CARD_TYPE_MISMATCH, detail=f"the node names no model: no agent, no label {MODEL_LABEL}")
        if kind.mode == PLUGIN_MODE and (why := self._unserved(request)):
            return Reason("ModeNotFit", detail=f"Cambricon's device plugin, which serves the node, {why}")
        return None

    @hookimpl
    def patch_annotations(self, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for Cambricon's device plugin: the profile of the pod's first booked device."""
        first = next((pieces[0] for pieces in allocation.of(WORD) if pieces), None)
        if first is None:
            return {}
        profile = f"{card_number(first)}_{first.cores}_{first.memory_mib // UNIT_MIB}"
        written = {ASSIGNED: "false", PROFILE: profile}
        if self._config.vendor_spelling:
            written[ASSIGNED_VENDOR_SPELLING] = "false"
        return written

    def _unserved(self, request: Request) -> str:
        """Why Cambricon's plugin can't serve a request; empty: it can.

        The plugin reads one profile from the pod's annotations, for one container of ``spec.containers``. It sees only
        containers for which the kubelet asks it: those with amounts of memory and of cores.
        """
        config = self._config
        if request.custom:
            return "serves no init containers and no sidecars"
        if request.askers > 1:
            return f"serves one container of a pod, and {request.askers} ask for MLUs"
        if request.count > 1:
            return f"gives a pod one MLU, and the container asks for {request.count}"
        if not request.memory_mib:
            return (
                f"gives a container no MLU without {config.resource_memory_name}; write it in units of {UNIT_MIB} MiB"
            )
        if not request.cores:
            return f"gives a container no MLU without {config.resource_core_name}; write 1 to {ALL_CORES}"
        return ""


def _parse(container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
    return default_parse_request(container, pod, family, RequestDefaults(cores=ALL_CORES))


def _family(config: CambriconConfig) -> Family:
    return Family(
        word=WORD,
        resources=Resources(
            config.resource_count_name, memory=config.resource_memory_name, cores=config.resource_core_name
        ),
        allocated_key="hami.io/cambricon-mlu-devices-allocated",
        to_allocate_key="hami.io/cambricon-mlu-devices-to-allocate",
        register_key=REGISTER_KEY,
        foreign_lock=LOCK_KEY,
        foreign_lock_protocol=PROTOCOL_TIME,
        uuid_selectors=(SelectorKeys("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),),
        type_selectors=(TYPE_KEYS,),
        memory_factor=UNIT_MIB,
        capabilities=CAPABILITIES,
        lock_timeouts_s={LOCK_KEY: LOCK_TIMEOUT_S},
        doctor=DoctorNotes(neighbours=(Neighbour(("cambricon-k8s-device-plugin",), "Cambricon's device plugin"),)),
    )
