"""What a vendor can do, declared by the vendor, printed by ``hami plugins``, proven by the conformance kit."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Capability(StrEnum):
    """One thing a vendor may support.

    Example:
        >>> Capability("memory-limit") is Capability.MEMORY_LIMIT
        True
    """

    SHARING = "sharing"
    """Several containers on one device."""
    MEMORY_LIMIT = "memory-limit"
    """A container's device memory can be limited."""
    CORE_LIMIT = "core-limit"
    """A container's share of device time can be limited."""
    PERCENT_MEMORY = "percent-memory"
    """Memory may be asked for as a percentage of the device."""
    TYPE_SELECTORS = "type-selectors"
    """Pods may choose or refuse device models by annotation."""
    UUID_SELECTORS = "uuid-selectors"
    """Pods may choose or refuse single devices by annotation."""
    NUMA_BINDING = "numa-binding"
    """All devices of a container on one NUMA node."""
    TOPOLOGY = "topology"
    """Devices are chosen by the links between them."""
    HARDWARE_PARTITIONS = "hardware-partitions"
    """Isolation in hardware (MIG, vNPU templates)."""
    QUOTA = "quota"
    """Namespace limits are checked when devices are chosen."""
    NODE_AGENT = "node-agent"
    """Our own agent serves the devices; otherwise the vendor's node plugin does."""


class Support(StrEnum):
    """How well.

    Example:
        >>> [str(word) for word in Support]
        ['full', 'partial', 'planned', 'unsupported']
    """

    FULL = "full"
    PARTIAL = "partial"
    PLANNED = "planned"
    UNSUPPORTED = "unsupported"


class Grade(NamedTuple):
    """Support of one capability, with the reason where it is not full.

    Example:
        >>> Grade(Support.PARTIAL, "kept by Acme's runtime library, not by the driver").support
        <Support.PARTIAL: 'partial'>
    """

    support: Support
    reason: str = ""
