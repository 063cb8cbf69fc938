"""The vendor's family, the devices on a node object, and which of them may serve a pod."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hami_core import Capability, Family, Grade, Reason, Resources, SelectorKeys, Support, vendorkit
from hami_core.documents import one_line
from hami_nvidia import mig, topology
from hami_nvidia.neighbours import DOCTOR
from hami_nvidia.request import NUMA_BIND

if TYPE_CHECKING:
    from hami_core import Device, DeviceKind, NodeFacts, Request
    from hami_nvidia.config import NvidiaConfig

WORD: Final = "NVIDIA"
"""HAMi's common word for NVIDIA."""

REGISTER: Final = "hami.io/node-nvidia-register"
"""Node annotation: the node's cards."""
PAIR_SCORES: Final = "hami.io/node-nvidia-score"
"""Node annotation: how the cards are linked."""
HANDSHAKE: Final = "hami.io/node-handshake"
"""Node annotation: HAMi's handshake."""
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""Pod annotation: the booked slices. HAMi keeps NVIDIA's pod keys without a vendor part."""
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
"""Pod annotation: the slices that HAMi's device plugin has not yet given."""

VGPU_MODE: Final = "nvidia.com/vgpu-mode"
"""Pod annotation: the sharing modes a pod accepts; it must contain the device's mode."""

CAPABILITIES: Final = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.FULL),
    Capability.CORE_LIMIT: Grade(Support.FULL),
    Capability.PERCENT_MEMORY: Grade(Support.FULL),
    Capability.TYPE_SELECTORS: Grade(Support.FULL),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.FULL),
    Capability.TOPOLOGY: Grade(Support.FULL),
    Capability.HARDWARE_PARTITIONS: Grade(Support.FULL),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.FULL),
}


def family(config: NvidiaConfig) -> Family:
    """The one family, with the resource names of the configuration."""
    return Family(
        word=WORD,
        resources=Resources(
            count=config.resource_count_name,
            memory=config.resource_memory_name,
            memory_percentage=config.resource_memory_percentage_name,
            cores=config.resource_core_name,
            priority=config.resource_priority_name,
        ),
        allocated_key=ALLOCATED,
        to_allocate_key=TO_ALLOCATE,
        register_key=REGISTER,
        handshake_key=HANDSHAKE,
        foreign_lock=vendorkit.NODE_LOCK_KEY,
        pod_keys=(NUMA_BIND, VGPU_MODE),
        uuid_selectors=(SelectorKeys("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),),
        type_selectors=(SelectorKeys("nvidia.com/use-gputype", "nvidia.com/nouse-gputype"),),
        memory_factor=max(config.memory_factor, 1),
        account_modes=frozenset({mig.MODE}),
        choose_policies=frozenset({topology.POLICY}),
        choose_is_preference=True,
        capabilities=MappingProxyType(CAPABILITIES),
        doctor=DOCTOR,
    )


def register(node: NodeFacts, served: Family) -> tuple[Device, ...] | None:
    """Read a node's GPUs, with cordons and pair scores; None if the node has no NVIDIA register.

    If the kubelet reports no allocatable slots, its device plugin is gone or not registered yet. Then no card takes new
    pods, since the kubelet would reject them for good.

    Raises:
        WireError: An annotation is malformed.
    """
    devices = vendorkit.read_json_register(node, served)
    if devices is None:
        return None
    cordoned = vendorkit.read_cordon(node)
    scores = vendorkit.read_pair_scores(node, PAIR_SCORES)
    served_now = not node.allocatable or node.allocatable.get(served.resources.count, "0") != "0"
    if not cordoned and not scores and served_now:
        return devices
    return tuple(
        replace(
            d,
            healthy=d.healthy and served_now,
            cordoned=d.id in cordoned,
            pair_scores=MappingProxyType(scores.get(d.id, {})),
        )
        for d in devices
    )


def check_type(request: Request, kind: DeviceKind, served: Family) -> Reason | None:
    """Family, model selectors and sharing mode."""
    refusal = vendorkit.default_check_type(request, kind, served)
    if refusal is not None:
        return refusal
    wanted = request.annotations.get(VGPU_MODE)
    if vendorkit.mode_accepted(wanted, kind.mode):
        return None
    if wanted and wanted.strip():
        rule = f"; the pod takes {one_line(wanted, 80)} ({VGPU_MODE})"
    else:
        rule = f", {VGPU_MODE} is empty: name the modes to accept, or leave it out"
    return Reason(vendorkit.CARD_TYPE_MISMATCH, detail=f"mode {kind.mode}{rule}")
