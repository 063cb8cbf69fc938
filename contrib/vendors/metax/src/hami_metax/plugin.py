"""The vendor MetaX: whole GPUs and sGPUs, each a family of its own. MetaX's device plugin serves the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hami_core import Mutation, hookimpl
from hami_core.vendorkit import RequestDefaults, capacity_devices, default_check_type, default_parse_request
from hami_metax import gpus, register, sgpus, sharing, topology
from hami_metax.config import MetaxConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import (
        Allocation,
        ContainerSpec,
        Device,
        DeviceKind,
        DeviceUsage,
        Family,
        NodeFacts,
        PodFacts,
        Reason,
        Request,
    )


class Metax:
    """Scheduler side of the MetaX vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[MetaxConfig]:
        """Section ``metax``."""
        return MetaxConfig

    @hookimpl
    def families(self, config: MetaxConfig) -> Sequence[Family]:
        """Whole GPUs and sGPUs."""
        self._config = config
        self._gpus, self._sgpus = found = gpus.family(config.gpu), sgpus.family(config)
        return found

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """Whole GPUs out of the node's capacity, and sGPU cards out of the plugin's register."""
        whole = capacity_devices(node, self._gpus, "metax", memory_mib=gpus.CARD_MIB)
        text = node.annotations.get(register.REGISTER_KEY)
        if whole is None and text is None:
            return None
        return (*(whole or ()), *(() if text is None else register.read(text, sgpus.WORD)))

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """A container with a count in its limits uses devices. Pods with sGPUs get the default QoS policy by name."""
        named = [found for found in (self._gpus, self._sgpus) if found.resources.count in container.limits]
        if not named:
            return None
        for found in named:
            self.parse_request(container, pod, found)
        mode = sharing.mode_of(pod.annotations, topology_aware=False) if self._sgpus in named else sharing.ONLINE
        needs_policy = mode != sharing.ONLINE and sharing.QOS_POLICY not in pod.annotations
        return Mutation(
            uses_devices=True,
            pod_annotations={sharing.QOS_POLICY: sharing.BEST_EFFORT} if needs_policy else {},
        )

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Whole GPUs are given with all memory and all cores; sGPUs have amounts."""
        if family.word == sgpus.WORD:
            return sgpus.parse(container, pod, family, topology_aware=self._config.topology_aware)
        return default_parse_request(container, pod, family, RequestDefaults(cores=100))

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Keep containers apart that can't share a card."""
        if kind.family != sgpus.WORD or request.family != sgpus.WORD:
            return default_check_type(request, kind, self._gpus)
        return sharing.mismatch(request, kind)

    @hookimpl
    def custom_filter(self, request: Request, device: DeviceUsage) -> Reason | None:
        """HAMi's rules about whole and sold-out cards."""
        return sharing.no_room(request, device) if request.family == sgpus.WORD else None

    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | None:
        """Pick sGPU cards by links or by app class. MetaX's plugin picks whole GPUs itself."""
        return topology.choose(request, candidates) if request.family == sgpus.WORD else None

    @hookimpl
    def score_node(
        self, node: NodeFacts, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]
    ) -> float:
        """Rate how well the node's links and cards suit the pod."""
        return gpus.score(node, allocation, policy) + sgpus.score(allocation, devices, policy)

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for MetaX's device plugin."""
        return sgpus.patch(pod, allocation)
