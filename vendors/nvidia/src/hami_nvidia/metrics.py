"""Every metric of the NVIDIA agent in one table; HAMi's names keep the labels and values of HAMi v2.10's monitor."""

from __future__ import annotations

from functools import partial
from typing import Final

from hami_core import MetricSpec

_gauge, _counter = partial(MetricSpec.gauge, zoned=True), partial(MetricSpec.counter, zoned=True)
_CARD: Final = ("device_index", "device_uuid", "device_type")
_CONTAINER: Final = ("namespace", "pod", "container")
_SLICE: Final = (*_CONTAINER, "vdevice_index", "device_uuid")

HAMI: Final = (
    _gauge("hami_host_gpu_memory_used_bytes", "Device memory in use on the card, by NVML.", "node", *_CARD),
    _gauge("hami_host_gpu_utilization_ratio", "Percent of time a kernel ran on the card (0 to 100).", "node", *_CARD),
    _gauge(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "Percent of time the card's memory was read or written (0 to 100).",
        *_CARD,
    ),
    _gauge("hami_vgpu_memory_used_bytes", "Device memory the container holds.", *_SLICE),
    _gauge("hami_container_device_memory_bytes", "Device memory the container holds; HAMi's other name.", *_SLICE),
    _gauge("hami_vgpu_memory_limit_bytes", "Device memory the container may hold; 0: no limit.", *_SLICE),
    _gauge("hami_vgpu_memory_context_bytes", "Part of the memory held: contexts.", *_SLICE),
    _gauge("hami_vgpu_memory_module_bytes", "Part of the memory held: code that was loaded.", *_SLICE),
    _gauge(
        "hami_vgpu_memory_buffer_bytes",
        "Part of the memory held: all but contexts and code, memory in the host included.",
        *_SLICE,
    ),
)
"""HAMi's, with its labels."""

_OLD_CARD: Final = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
_OLD_SLICE: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")

HAMI_LEGACY: Final = (
    _gauge("HostGPUMemoryUsage", "Device memory in use on the card, by NVML.", *_OLD_CARD),
    _gauge("HostCoreUtilization", "Percent of time a kernel ran on the card (0 to 100).", *_OLD_CARD),
    _gauge("vGPU_device_memory_usage_in_bytes", "Device memory the container holds.", *_OLD_SLICE),
    _gauge("vGPU_device_memory_limit_in_bytes", "Device memory the container may hold; 0: no limit.", *_OLD_SLICE),
)
"""The same under HAMi's old names (``--legacy-metrics``)."""

OURS: Final = (
    _gauge(
        "hami_host_gpu_pcie_bytes_per_second",
        "What the card moves over PCIe (sent, received), while host memory stands in for its own. NVML takes 40 ms to "
        "tell, so no other card is asked.",
        "node",
        *_CARD,
        "direction",
    ),
    _gauge(
        "hami_vgpu_memory_driver_bytes",
        "Device memory that the driver counts for the container's processes. More than hami_vgpu_memory_used_bytes is "
        "what the library does not see. Only for processes whose pid on the host is known.",
        *_SLICE,
    ),
    _counter("hami_vgpu_memory_denied_total", "Allocations refused since the container was made.", *_SLICE),
    _gauge(
        "hami_vgpu_last_denial_time_seconds",
        "When the container was last refused memory, by reason: over its limit, or a damaged limits file or region.",
        *_CONTAINER,
        "reason",
    ),
    _gauge(
        "hami_vgpu_region_unreadable", "1 for a container whose region file is truncated or no region.", *_CONTAINER
    ),
    _counter(
        "hami_vgpu_region_skips_total",
        "Looks at a region file that was none, while the agent looks after running containers.",
        "node",
    ),
    _gauge(
        "hami_vgpu_suspended",
        "1 while launches wait for a container of higher priority. Only where priorities or limits have to be watched.",
        *_CONTAINER,
    ),
    _gauge(
        "hami_vgpu_host_memory_limit_bytes",
        "Host memory the container may hold in place of device memory, where memory is scaled above 1.",
        *_SLICE,
    ),
    _gauge("hami_vgpu_host_memory_used_bytes", "Host memory the container holds in place of device memory.", *_SLICE),
    _gauge(
        "hami_vgpu_host_memory_peak_bytes",
        "The most host memory the container ever held in place of device memory.",
        *_SLICE,
    ),
    _counter(
        "hami_vgpu_host_memory_allocated_bytes_total",
        "Sizes of all allocations ever put into host memory. One that keeps growing runs over the link.",
        *_SLICE,
    ),
    _counter("hami_vgpu_compute_seconds_total", "Device time charged to a container with a core limit.", *_SLICE),
    _counter(
        "hami_vgpu_compute_estimated_seconds_total",
        "Part of the device time that was charged by estimate.",
        *_SLICE,
    ),
    _counter(
        "hami_vgpu_compute_throttled_seconds_total", "How long launches waited for the core limit, summed.", *_SLICE
    ),
    _gauge("hami_vgpu_compute_longest_wait_seconds", "How long one launch waited at most.", *_SLICE),
    _counter(
        "hami_vgpu_compute_grants_total",
        "Times work was let through. One grant covers several short launches.",
        *_SLICE,
    ),
    _counter(
        "hami_vgpu_compute_wait_timeouts_total", "Waits for the limit that ended because nothing completed.", *_SLICE
    ),
    _counter("hami_vgpu_compute_turns_total", "Turns the container took on the card.", *_SLICE),
    _counter("hami_vgpu_compute_turn_timeouts_total", "Launches that went without their turn.", *_SLICE),
)
"""Our own. What a container counts begins when it is made."""

METRICS: Final = (*HAMI, *HAMI_LEGACY, *OURS)
