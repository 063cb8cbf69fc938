"""The table of the NVIDIA agent's metrics. HAMi's metrics keep the labels and values of HAMi v2.10's monitor."""

from __future__ import annotations

from functools import partial
from typing import Final

from hami_core import MetricSpec

_gauge, _counter = partial(MetricSpec.gauge, zoned=True), partial(MetricSpec.counter, zoned=True)
_CARD: Final = ("device_index", "device_uuid", "device_type")
_CONTAINER: Final = ("namespace", "pod", "container")
_SLICE: Final = (*_CONTAINER, "vdevice_index", "device_uuid")
_UTILIZATION: Final = (
    "Percent of the card's time that the container uses (0 to 100). With a core limit in force: its device time since "
    "the scrape before, at least 5 s. Otherwise: NVML's figures of its processes with a known host pid."
)

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
        "Part of the memory held: everything except contexts and code. Includes memory in the host.",
        *_SLICE,
    ),
    _gauge("hami_container_device_utilization_ratio", _UTILIZATION, *_SLICE),
    _gauge(
        "hami_mig_device_info",
        "A MIG instance that a container has; always 1. The device UUID is the card's.",
        *_SLICE,
        "mig_uuid",
        "profile",
        "gpu_instance_id",
        "compute_instance_id",
    ),
)
"""HAMi's metrics, with its labels."""

_OLD_CARD: Final = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
_OLD_SLICE: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")

HAMI_LEGACY: Final = (
    _gauge("HostGPUMemoryUsage", "Device memory in use on the card, by NVML.", *_OLD_CARD),
    _gauge("HostCoreUtilization", "Percent of time a kernel ran on the card (0 to 100).", *_OLD_CARD),
    _gauge("vGPU_device_memory_usage_in_bytes", "Device memory the container holds.", *_OLD_SLICE),
    _gauge("vGPU_device_memory_limit_in_bytes", "Device memory the container may hold; 0: no limit.", *_OLD_SLICE),
    _gauge(
        "Device_memory_desc_of_container",
        "Device memory the container holds, with its parts in bytes as labels.",
        *_OLD_SLICE,
        "context",
        "module",
        "data",
        "offset",
    ),
    _gauge("Device_utilization_desc_of_container", "As hami_container_device_utilization_ratio.", *_OLD_SLICE),
)
"""Metrics under HAMi's old names (``--legacy-metrics``)."""

OURS: Final = (
    _counter(
        "hami_host_gpu_xid_errors_total",
        "XIDs of the card since the agent's start, also those that do not make it unhealthy.",
        "node",
        *_CARD,
        "xid",
    ),
    _gauge(
        "hami_host_gpu_memory_repair_pending",
        "1 while the card waits for a reset to replace faulty memory, which its driver keeps from programs until then.",
        "node",
        *_CARD,
    ),
    _gauge(
        "hami_host_gpu_pcie_bytes_per_second",
        "What the card sends and receives over PCIe. Measured only while containers hold host memory in place of its "
        "memory, since NVML needs 40 ms for an answer.",
        "node",
        *_CARD,
        "direction",
    ),
    _gauge(
        "hami_vgpu_memory_driver_bytes",
        "Device memory that the driver counts for the container's processes. The part above "
        "hami_vgpu_memory_used_bytes is unknown to the library. Only for processes with a known host pid.",
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
        "hami_container_enforcement_info",
        "What enforces the container's slice: mig, driver, mps, interposer, whole or none; always 1.",
        *_SLICE,
        "mechanism",
    ),
    _counter("hami_memory_limit_failures_total", "Times the driver refused to limit a pod's memory.", "node"),
    _gauge(
        "hami_vgpu_region_unreadable", "1 for a container whose region file is truncated or not a region.", *_CONTAINER
    ),
    _counter(
        "hami_vgpu_region_skips_total",
        "Times the agent skipped a running container because its region file was unusable.",
        "node",
    ),
    _gauge(
        "hami_vgpu_suspended",
        "1 while launches wait for a container of higher priority. Only on cards with different priorities, or with "
        "core limits that may pause.",
        *_CONTAINER,
    ),
    _gauge(
        "hami_vgpu_host_memory_limit_bytes",
        "Host memory the container may hold in place of device memory, if memory is scaled above 1.",
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
        "Total size of all allocations placed in host memory. While it keeps growing, the program works over PCIe.",
        *_SLICE,
    ),
    _counter("hami_vgpu_compute_seconds_total", "Device time charged to a container with a core limit.", *_SLICE),
    _counter(
        "hami_vgpu_compute_estimated_seconds_total",
        "Part of the device time that was charged by estimate.",
        *_SLICE,
    ),
    _counter(
        "hami_vgpu_compute_throttled_seconds_total", "Total time that launches waited for the core limit.", *_SLICE
    ),
    _gauge("hami_vgpu_compute_longest_wait_seconds", "Longest wait of a single launch.", *_SLICE),
    _counter(
        "hami_vgpu_compute_grants_total",
        "Number of grants. One grant covers several short launches.",
        *_SLICE,
    ),
    _counter(
        "hami_vgpu_compute_wait_timeouts_total", "Waits for the limit that ended because nothing completed.", *_SLICE
    ),
    _counter("hami_vgpu_compute_turns_total", "Turns the container took on the card.", *_SLICE),
    _counter("hami_vgpu_compute_turn_timeouts_total", "Launches that went ahead without a turn.", *_SLICE),
)
"""Our own metrics. The counters of a container start when the container is made."""

METRICS: Final = (*HAMI, *HAMI_LEGACY, *OURS)
