"""NVIDIA GPUs for HAMi: the scheduler side, which loads no driver library. The node side is `hami_nvidia.node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hami_core import hookimpl
from hami_core.vendorkit import default_check_uuid
from hami_nvidia import mig, request, rules, topology
from hami_nvidia.config import NvidiaConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core import (
        ContainerSpec,
        Device,
        DeviceKind,
        DeviceUsage,
        Family,
        Mutation,
        NodeContext,
        NodeFacts,
        PodFacts,
        Reason,
        Request,
        Slice,
    )

__all__ = ["Nvidia", "NvidiaConfig"]


class Nvidia:
    """NVIDIA GPUs, scheduler side."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    """Version of the hook contract that this class implements."""

    def __init__(self) -> None:
        self._config = NvidiaConfig()
        self._family = rules.family(self._config)

    @hookimpl
    def config_model(self) -> type[NvidiaConfig]:
        """The ``nvidia`` section."""
        return NvidiaConfig

    @hookimpl
    def families(self, config: NvidiaConfig | None, node: NodeContext | None) -> Sequence[Family]:
        """One family, ``NVIDIA``; the same on every node."""
        del node
        self._config = config or NvidiaConfig()
        self._family = rules.family(self._config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """GPUs from the register annotation, with cordons and pair scores."""
        return rules.register(node, self._family)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Default count, exclusive cores, environment, runtime class."""
        return request.mutate(container, pod, self._family, self._config)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Count, memory, percentage, cores, NUMA binding."""
        return request.parse_request(container, pod, family, self._config)

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Model selectors and sharing mode."""
        return rules.check_type(request, kind, self._family)

    @hookimpl
    def check_uuid(self, request: Request, device_id: str) -> Reason | None:
        """UUID selectors."""
        return default_check_uuid(request, device_id, self._family)

    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...]:
        """The best-linked cards. Called only under the policy ``topology-aware``."""
        return topology.choose([usage.device for usage in candidates], request.count)

    @hookimpl
    def account(self, device: DeviceUsage, piece: Slice) -> Slice | Reason | None:
        """A MIG instance, on cards in MIG mode."""
        return mig.account(device, piece)
