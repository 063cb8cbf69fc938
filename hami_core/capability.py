"""What a vendor supports. The vendor declares it, ``hami plugins`` shows it, the conformance kit tests it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Capability(StrEnum):
    """A feature that a vendor may support.

    Example:
        >>> Capability("memory-limit") is Capability.MEMORY_LIMIT
        True
    """

    SHARING = "sharing"
    """Several containers can share one device."""
    MEMORY_LIMIT = "memory-limit"
    """A container's device memory can be limited."""
    CORE_LIMIT = "core-limit"
    """A container's share of device time can be limited."""
    PERCENT_MEMORY = "percent-memory"
    """Containers may ask for memory as a percentage of the device."""
    TYPE_SELECTORS = "type-selectors"
    """Pods may choose or refuse device models by annotation."""
    UUID_SELECTORS = "uuid-selectors"
    """Pods may choose or refuse single devices by annotation."""
    NUMA_BINDING = "numa-binding"
    """All devices of a container can be placed on one NUMA node."""
    TOPOLOGY = "topology"
    """Devices are chosen by the links between them."""
    HARDWARE_PARTITIONS = "hardware-partitions"
    """Devices can be divided in hardware, such as by MIG or vNPU templates."""
    QUOTA = "quota"
    """A namespace's quota is checked when devices are chosen."""
    NODE_AGENT = "node-agent"
    """Our agent serves the devices, not the vendor's own node plugin."""


class Support(StrEnum):
    """How well a capability is supported.

    Example:
        >>> [str(word) for word in Support]
        ['full', 'partial', 'planned', 'unsupported']
    """

    FULL = "full"
    PARTIAL = "partial"
    PLANNED = "planned"
    UNSUPPORTED = "unsupported"


class Grade(NamedTuple):
    """Support of one capability, with the reason if it is not full.

    Example:
        >>> Grade(Support.PARTIAL, "kept by Acme's runtime library, not by the driver").support
        <Support.PARTIAL: 'partial'>
    """

    support: Support
    reason: str = ""
