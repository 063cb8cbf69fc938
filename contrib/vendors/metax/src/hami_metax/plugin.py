"""The vendor MetaX: whole GPUs and sGPUs, each a family of its own. MetaX's device plugin serves the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hami_core import Mutation, hookimpl
from hami_core.vendorkit import RequestDefaults, capacity_devices, default_parse_request
from hami_metax import gpus
from hami_metax.config import MetaxConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core import Allocation, ContainerSpec, Device, Family, NodeFacts, PodFacts, Request


class Metax:
    """Scheduler side of the MetaX vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self) -> None:
        self.families(MetaxConfig())

    @hookimpl
    def config_model(self) -> type[MetaxConfig]:
        """Section ``metax``."""
        return MetaxConfig

    @hookimpl
    def families(self, config: MetaxConfig) -> Sequence[Family]:
        """Whole GPUs."""
        self._gpus = gpus.family(config.gpu)
        return (self._gpus,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """Whole GPUs out of the node's capacity."""
        return capacity_devices(node, self._gpus, "metax", memory_mib=gpus.CARD_MIB)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """A container with a count in its limits uses devices."""
        if self._gpus.resources.count not in container.limits:
            return None
        self.parse_request(container, pod, self._gpus)
        return Mutation(uses_devices=True)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Whole GPUs are given with all memory and all cores."""
        return default_parse_request(container, pod, family, RequestDefaults(cores=100))

    @hookimpl
    def score_node(self, node: NodeFacts, allocation: Allocation, policy: str) -> float:
        """Rate how well the node's links suit the pod."""
        return gpus.score(node, allocation, policy)
