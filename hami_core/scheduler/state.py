"""The scheduler's state as samples of HAMi's gauges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError
from hami_core.vendorkit import ceil_div
from hami_core.wire import keys
from hami_core.wire.mig import decode_reservations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hami_core.inventory import Inventory
    from hami_core.kube.objects import Pod
    from hami_core.model import Booking, DeviceUsage
    from hami_core.observe.metrics import Row
    from hami_core.plugins import Loaded

MIB: Final = 2**20


def node_rows(inventory: Inventory, node: str, pods: Iterable[Pod]) -> Iterator[Row]:
    """Every sample of a node: its devices, the pods booked there, and the MIG instances made for ``pods``.

    The rows of all nodes and those of `quota_rows` make up `hami_core.observe.metrics.HAMI_SCHEDULER`.
    """
    devices = inventory.usage(node)
    by_family = {word: rules.family for word, rules in inventory.rules.items()}
    units = {u.device.id: u.device.cores for u in devices if by_family[u.device.family].cores_are_units}
    for usage in devices:
        yield from _device_rows(node, usage, units)
    for booking in inventory.bookings_on(node):
        yield from _booking_rows(booking, units)
    indexes = {usage.device.id: usage.device.index for usage in devices}
    for pod in pods:
        yield from _mig_rows(node, pod, indexes)


def _percent(cores: int, units: int | None) -> float:
    """Cores in percent of a device. ``units`` is the number of its compute units, if that is what cores are."""
    return float(cores if not units else ceil_div(cores * 100, units))


def _device_rows(node: str, usage: DeviceUsage, units: Mapping[str, int]) -> Iterator[Row]:
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
    yield "hami_gpu_core_limit_ratio", labels, _percent(device.cores, units.get(device.id))
    yield "hami_gpu_memory_allocated_bytes", labels | cores, used_bytes
    yield "hami_gpu_shared_count", labels, float(usage.used_slots)
    yield "hami_gpu_core_allocated_ratio", labels, _percent(usage.used_cores, units.get(device.id))
    yield "hami_node_gpu_overview", labels | cores | {"device_memory_limit": str(device.memory_mib)}, used_bytes
    if device.memory_mib > 0:
        yield "hami_node_gpu_memory_allocated_ratio", labels, usage.used_memory_mib / device.memory_mib


def _booking_rows(booking: Booking, units: Mapping[str, int]) -> Iterator[Row]:
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
            yield "hami_vgpu_core_allocated_ratio", labels, _percent(cores, units.get(device_id))


def _mig_rows(node: str, pod: Pod, indexes: Mapping[str, int]) -> Iterator[Row]:
    """MIG instances that the node's agent made for a pod, by its annotation."""
    try:
        reservations = decode_reservations(pod.metadata.annotations.get(keys.MIG_ALLOCATIONS, ""))
    except WireError:
        return  # reported when the pod was read
    for made in (r for r in reservations if r.made):
        labels = {
            "node": node,
            "device_uuid": made.gpu_uuid,
            "device_index": str(indexes.get(made.gpu_uuid, -1)),
            "mig_uuid": made.mig_uuid,
            "profile": made.profile,
            "gpu_instance_id": str(made.gpu_instance_id),
            "compute_instance_id": str(made.compute_instance_id),
            "placement_start": str(made.placement.start),
            "placement_size": str(made.placement.size),
        }
        yield "hami_node_gpu_mig_instance_info", labels, 1.0


def quota_rows(inventory: Inventory) -> Iterator[Row]:
    """Every sample of a namespace's quota."""
    for row in inventory.quota.rows():
        labels = {"namespace": row.namespace, "quota_name": row.resource}
        yield "hami_resource_quota_used", labels | {"limit": str(row.limit or 0)}, float(row.used)
        if row.limit is not None:
            yield "hami_resource_quota_limit", labels, float(row.limit)


def plugin_rows(loaded: Loaded) -> Iterator[Row]:
    """Failures and blocks of each plugin's hooks, and the plugins that could not be loaded."""
    labels = {source.name: source.label for source in (*(v.source for v in loaded.vendors), *loaded.wrappers)}
    reporter = loaded.reporter
    for name, counts in (
        ("hami_plugin_failures_total", reporter.failures),
        ("hami_plugin_blocks_total", reporter.blocks),
    ):
        for (plugin, hook), count in counts.items():
            of = {"plugin": plugin, "distribution": labels.get(plugin, ""), "hook": hook}
            yield name, of, float(count)
    for name, label in {(source.name, source.label) for source in loaded.refused}:
        yield "hami_plugin_refused", {"plugin": name, "distribution": label}, 1.0


_OLD_NAMES: Final = {
    "hami_gpu_memory_limit_bytes": "GPUDeviceMemoryLimit",
    "hami_gpu_core_limit_ratio": "GPUDeviceCoreLimit",
    "hami_gpu_memory_allocated_bytes": "GPUDeviceMemoryAllocated",
    "hami_gpu_shared_count": "GPUDeviceSharedNum",
    "hami_gpu_core_allocated_ratio": "GPUDeviceCoreAllocated",
    "hami_node_gpu_overview": "nodeGPUOverview",
    "hami_node_gpu_memory_allocated_ratio": "nodeGPUMemoryPercentage",
    "hami_resource_quota_used": "QuotaUsed",
    "hami_vgpu_memory_allocated_bytes": "vGPUMemoryAllocated",
    "hami_vgpu_core_allocated_ratio": "vGPUCoreAllocated",
}
_OLD_DEVICE: Final = {
    "node": "nodeid",
    "device_uuid": "deviceuuid",
    "device_index": "deviceidx",
    "device_type": "devicetype",
    "device_cores": "devicecores",
    "device_memory_limit": "devicememorylimit",
}
_OLD_POD: Final = {
    "namespace": "podnamespace",
    "node": "nodename",
    "pod": "podname",
    "container_index": "containeridx",
    "device_uuid": "deviceuuid",
}
_OLD_QUOTA: Final = {"namespace": "quotanamespace", "quota_name": "quotaName", "limit": "limit"}


def legacy(rows: Iterable[Row]) -> Iterator[Row]:
    """The same samples under HAMi's old names and labels."""
    for name, labels, value in rows:
        old = _OLD_NAMES.get(name)
        if old is None:
            continue
        spelling = _OLD_QUOTA if old == "QuotaUsed" else _OLD_POD if old.startswith("vGPU") else _OLD_DEVICE
        kept = {key: text for key, text in labels.items() if (old, key) != ("nodeGPUMemoryPercentage", "device_type")}
        yield old, {spelling[key]: text for key, text in kept.items()}, value
