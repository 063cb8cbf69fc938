"""The vendor Vastai: one family. HAMi's Vastai device plugin registers cards or dies, and serves the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import Capability, DoctorNotes, Family, Grade, Neighbour, Resources, SelectorKeys, Support, hookimpl
from hami_core.vendorkit import NODE_LOCK_KEY, default_parse_request, read_json_register
from hami_vastai.config import VastaiConfig
from hami_vastai.dies import choose_dies, die_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import (
        Allocation,
        ContainerSpec,
        Device,
        DeviceUsage,
        NodeFacts,
        PodFacts,
        Reason,
        Request,
    )

WORD: Final = "Vastai"
ALL_CORES: Final = 100

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.PARTIAL, "only as many containers as the plugin registers for a device"),
    Capability.MEMORY_LIMIT: Grade(Support.UNSUPPORTED, "HAMi has no memory resource for Vastai"),
    Capability.CORE_LIMIT: Grade(Support.UNSUPPORTED, "HAMi has no core resource for Vastai"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no memory resource for Vastai"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "HAMi has no such annotations for Vastai"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.PARTIAL, "as far as the plugin registers NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.FULL),
    Capability.HARDWARE_PARTITIONS: Grade(
        Support.PARTIAL, "dies, on nodes whose plugin runs with --device-strategy=die"
    ),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "HAMi's Vastai device plugin serves the nodes"),
}


class Vastai:
    """The scheduler side."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[VastaiConfig]:
        """Section ``vastai``."""
        return VastaiConfig

    @hookimpl
    def families(self, config: VastaiConfig) -> Sequence[Family]:
        """The one family ``Vastai``."""
        self._family = _family(config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The devices of the plugin's register. As in HAMi, each has 100 percent of cores, so that scores count it."""
        devices = read_json_register(node, self._family)
        return devices and [replace(device, cores=ALL_CORES) for device in devices]

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the count. Memory is not booked: containers that share a device share its memory, as in HAMi."""
        found = default_parse_request(container, pod, family)
        return found and replace(found, memory_percent=None)

    @hookimpl
    def choose(
        self, request: Request, candidates: tuple[DeviceUsage, ...], policy: str, devices: tuple[DeviceUsage, ...]
    ) -> tuple[int, ...] | Reason | None:
        """Pick dies of as few cards as possible; under ``mutex`` only of cards that are idle as a whole."""
        return choose_dies(request, candidates, policy, devices)

    @hookimpl
    def score_node(
        self, node: NodeFacts, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]
    ) -> float:
        """Prefer nodes whose dies would be on one card. Under ``spread`` the smallest score wins, so it is negative.

        HAMi adds the same number under every policy. Under ``spread`` it so prefers dies of many cards.
        """
        del node
        score = die_score(allocation.of(WORD), devices)
        return -score if policy == "spread" else score


def _family(config: VastaiConfig) -> Family:
    return Family(
        word=WORD,
        resources=Resources(config.resource_count_name),
        allocated_key="hami.io/Vastai-devices-allocated",
        to_allocate_key="hami.io/Vastai-devices-to-allocate",
        register_key="hami.io/node-va-register",
        handshake_key="hami.io/node-handshake-va",
        offered_resource=config.resource_count_name,
        foreign_lock=NODE_LOCK_KEY,
        uuid_selectors=(SelectorKeys("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),),
        scored_from=2,
        score_bound=1.0,
        capabilities=CAPABILITIES,
        doctor=DoctorNotes(
            neighbours=(Neighbour(("vastai-device-plugin",), "HAMi's Vastai device plugin"),),
            node_labels=(("vastai", "on"),),
        ),
    )
