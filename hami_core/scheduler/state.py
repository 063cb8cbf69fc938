"""The scheduler's state as metrics: HAMi's gauges, read at scrape time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.inventory import Inventory
    from hami_core.model import Booking, DeviceUsage
    from hami_core.observe.metrics import Row
    from hami_core.scheduler.cluster import Cluster

MIB: Final = 2**20


def rows(cluster: Cluster) -> Iterator[Row]:
    """Every sample of `hami_core.observe.metrics.HAMI_SCHEDULER`."""
    inventory = cluster.inventory
    for node, usage in inventory.metrics_rows():
        yield from _device_rows(node, usage)
    for booking in inventory.bookings():
        yield from _booking_rows(booking)
    yield from _quota_rows(inventory)


def _device_rows(node: str, usage: DeviceUsage) -> Iterator[Row]:
    device = usage.device
    labels = {
        "node": node,
        "device_uuid": device.id,
        "device_index": str(device.index),
        "device_type": device.type,
    }
    cores = {"device_cores": str(device.cores)}
    used_bytes = float(usage.used_memory_mib * MIB)
    yield "hami_gpu_memory_limit_bytes", labels, float(device.memory_mib * MIB)
    yield "hami_gpu_core_limit_ratio", labels, float(device.cores)
    yield "hami_gpu_memory_allocated_bytes", labels | cores, used_bytes
    yield "hami_gpu_shared_count", labels, float(usage.used_slots)
    yield "hami_gpu_core_allocated_ratio", labels, float(usage.used_cores)
    yield "hami_node_gpu_overview", labels | cores | {"device_memory_limit": str(device.memory_mib)}, used_bytes
    if device.memory_mib > 0:
        yield "hami_node_gpu_memory_allocated_ratio", labels, usage.used_memory_mib / device.memory_mib


def _booking_rows(booking: Booking) -> Iterator[Row]:
    for index, container in enumerate(booking.allocation.containers):
        sums: dict[str, tuple[int, int]] = {}
        for piece in container.slices:
            memory, cores = sums.get(piece.device_id, (0, 0))
            sums[piece.device_id] = (memory + piece.memory_mib, cores + piece.cores)
        for device_id, (memory, cores) in sums.items():
            labels = {
                "namespace": booking.namespace,
                "node": booking.allocation.node,
                "pod": booking.name,
                "container_index": str(index),
                "device_uuid": device_id,
            }
            yield "hami_vgpu_memory_allocated_bytes", labels, float(memory * MIB)
            yield "hami_vgpu_core_allocated_ratio", labels, float(cores)


def _quota_rows(inventory: Inventory) -> Iterator[Row]:
    for row in inventory.quota.rows():
        labels = {"namespace": row.namespace, "quota_name": row.resource}
        yield "hami_resource_quota_used", labels | {"limit": str(row.limit or 0)}, float(row.used)
        if row.limit is not None:
            yield "hami_resource_quota_limit", labels, float(row.limit)
