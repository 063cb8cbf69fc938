"""The vendor Biren: one family of whole cards, or of SVI instances, from the plugin's register.

HAMi's device plugin for Biren (Project-HAMi/biren-device-plugin) serves the nodes. Versions of it differ in the list
that they consume while they serve a pod: ``…-to-allocate`` as other plugins do, or ``…-allocated``. A third list stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_biren.config import BirenConfig
from hami_core import (
    Capability,
    DoctorNotes,
    Family,
    Grade,
    Neighbour,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import NODE_LOCK_KEY, default_parse_request, read_json_register, unregistered_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import ContainerSpec, Device, NodeFacts, PodFacts, Request

PLUGIN: Final = "HAMi's biren-device-plugin"

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.UNSUPPORTED, "a container gets whole cards or whole SVI instances"),
    Capability.MEMORY_LIMIT: Grade(Support.UNSUPPORTED, "a container has all memory of its cards"),
    Capability.CORE_LIMIT: Grade(Support.UNSUPPORTED, "a container has all cores of its cards"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "a container has all memory of its cards"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "HAMi reads no such annotation for Biren"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "the plugin registers no NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "the plugin registers no links between cards"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.PARTIAL, "SVI instances that exist; one size for the whole cluster"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, f"{PLUGIN} serves the nodes"),
}


class Biren:
    """Scheduler side of the Biren vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[BirenConfig]:
        """Section ``biren``."""
        return BirenConfig

    @hookimpl
    def families(self, config: BirenConfig) -> Sequence[Family]:
        """The one family ``Biren``."""
        self._family = _family(config.resource_count_name)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The plugin's register, which says nothing of cores: each card has 100 percent."""
        registered = read_json_register(node, self._family)
        if registered is None:
            return unregistered_devices(node, self._family, PLUGIN)
        return [replace(card, cores=100) for card in registered]

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the number of cards. As in HAMi, no memory is booked: a card has one slot."""
        request = default_parse_request(container, pod, family)
        return request and replace(request, memory_percent=None)


def _family(count: str) -> Family:
    return Family(
        word="Biren",
        resources=Resources(count),
        allocated_key="hami.io/Biren-devices-allocated",
        to_allocate_key="hami.io/Biren-devices-to-allocate",
        kept_key="hami.io/Biren-devices-kept-allocated",
        register_key="hami.io/node-biren-register",
        handshake_key="hami.io/node-handshake-biren",
        foreign_lock=NODE_LOCK_KEY,
        offered_resource=count,
        uuid_selectors=(SelectorKeys("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),),
        full_card_rule=False,
        capabilities=CAPABILITIES,
        doctor=DoctorNotes(neighbours=(Neighbour(("biren-device-plugin",), PLUGIN),)),
    )
