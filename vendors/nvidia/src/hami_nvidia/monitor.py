"""Samples of the cards' activity and of each container's use of them. `hami_nvidia.metrics` has the table."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose.region import RegionError, read

from hami_core import Sample
from hami_nvidia.nvml import NvmlError
from hami_nvidia.regions import region_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    from hami_interpose.region import ComputeUse, OversubscriptionUse, Region

    from hami_core import ContainerRef
    from hami_nvidia.nvml import Card, Nvml, Usage

log = structlog.get_logger(__name__)

NS: Final = 10**9


def host_samples(
    nvml: Nvml, cards: Sequence[Card], node: str, oversubscribed: Container[str] = (), *, legacy: bool = False
) -> list[Sample]:
    """Samples of the cards. A card that does not answer has none.

    Args:
        nvml: The driver.
        cards: The cards.
        node: The node's name.
        oversubscribed: Cards of which containers hold host memory instead. Only their PCIe traffic is measured, since
            NVML needs 40 ms for each card.
        legacy: Also add samples under HAMi's old names.
    """
    found: list[Sample] = []
    for card in cards:
        try:
            usage = nvml.usage(card.uuid)
        except NvmlError as error:
            log.warning("can't measure a card", error=str(error))
            continue
        labels = {
            "device_index": str(card.index),
            "device_uuid": card.uuid,
            # HAMi's monitor always adds this prefix. HAMi's register adds it only if the name lacks it.
            "device_type": f"NVIDIA-{card.name}",
        }
        at_node = labels | {"node": node}
        for name, wanted, value in (
            ("hami_host_gpu_memory_used_bytes", at_node, usage.memory_used_bytes),
            ("hami_host_gpu_utilization_ratio", at_node, usage.gpu_percent),
            ("hami_host_gpu_memory_controller_utilization_ratio", labels, usage.memory_percent),
        ):
            if value is not None:
                found.append(Sample(name, wanted, float(value)))
        if card.uuid in oversubscribed:
            found += _link(nvml, card, at_node)
        if legacy:
            found += _legacy_host(card, usage, node)
    return found


def _link(nvml: Nvml, card: Card, labels: Mapping[str, str]) -> Iterator[Sample]:
    """Samples of a card's PCIe traffic. A failure does not affect the card's other samples."""
    try:
        traffic = nvml.link_traffic(card.uuid)
    except NvmlError as error:
        log.warning("can't measure a card's PCIe traffic", error=str(error))
        return
    if traffic is not None:
        for direction, rate in (("sent", traffic.sent), ("received", traffic.received)):
            own = dict(labels) | {"direction": direction}
            yield Sample("hami_host_gpu_pcie_bytes_per_second", own, float(rate))


def oversubscribed_cards(samples: Iterable[Sample]) -> set[str]:
    """Cards of which containers now hold host memory instead, from the samples of `container_samples`."""
    name = "hami_vgpu_host_memory_used_bytes"
    return {s.labels["device_uuid"] for s in samples if s.name == name and s.value > 0}


def _legacy_host(card: Card, usage: Usage, node: str) -> Iterator[Sample]:
    own = {
        "nodeid": node,
        "deviceidx": str(card.index),
        "deviceuuid": card.uuid,
        "devicetype": f"NVIDIA-{card.name}",
    }
    if usage.memory_used_bytes is not None:
        yield Sample("HostGPUMemoryUsage", own, float(usage.memory_used_bytes))
    if usage.gpu_percent is not None:
        yield Sample("HostCoreUtilization", own, float(usage.gpu_percent))


def driver_memory(
    nvml: Nvml, cards: Container[str], pids: Callable[[str], Collection[int]]
) -> Callable[[str, str], int | None]:
    """Make a function that returns how much memory the driver counts for a container. Each card is asked once.

    Args:
        nvml: The driver.
        cards: UUIDs of the node's cards. Others are ignored, since a region may contain any UUID.
        pids: Returns the host pids of a container's processes by record id.

    Returns:
        A function of record id and card UUID. It returns bytes, or None if no process is known or the driver does not
        say.
    """

    @cache
    def on_card(uuid: str) -> Mapping[int, int]:
        try:
            return nvml.processes(uuid)
        except NvmlError as error:
            log.warning("can't list a card's processes", error=str(error))
            return {}

    def measured(record_id: str, uuid: str) -> int | None:
        own = pids(record_id) if uuid in cards else ()
        figures = [size for pid, size in on_card(uuid).items() if pid in own] if own else []
        return sum(figures) if figures and all(figures) else None

    return measured


def container_samples(
    records: Mapping[str, ContainerRef],
    region_dirs: Mapping[str, str],
    told: set[str],
    measured: Callable[[str, str], int | None],
    *,
    legacy: bool = False,
) -> list[Sample]:
    """Samples of the containers, from their regions.

    If a region can't be read, its only sample says so. A container without a region, which has whole cards, has none.

    Args:
        records: Live containers by record id.
        region_dirs: Their regions' host folders.
        told: Records whose damaged region was already logged. This function updates the set.
        measured: The function that `driver_memory` returns.
        legacy: Also add samples under HAMi's old names.
    """
    found: list[Sample] = []
    told &= records.keys()
    for record_id, ref in sorted(records.items()):
        labels = {"namespace": ref.namespace, "pod": ref.pod, "container": ref.container}
        try:
            region = _read(region_dirs[record_id]) if record_id in region_dirs else None
        except (RegionError, OSError) as error:
            if record_id not in told:
                log.warning("can't read a container's region", record=record_id, error=str(error))
            told.add(record_id)
            found.append(Sample("hami_vgpu_region_unreadable", labels, 1.0))
            continue
        told.discard(record_id)
        if region is not None:
            found += _of_region(region, labels)
            found += _of_driver(region, labels, partial(measured, record_id))
            if region.reason:
                own = labels | {"reason": region.reason}
                found.append(Sample("hami_vgpu_last_denial_time_seconds", own, float(region.reason_time)))
            found += _legacy(region, ref) if legacy else ()
    return found


def _read(folder: str) -> Region | None:
    if not Path(folder).is_dir():
        return None
    with region_file(folder) as fd:
        return read(fd)


def _of_region(region: Region, labels: Mapping[str, str]) -> Iterator[Sample]:
    for position, device in enumerate(region.devices):
        own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid[:40]}
        parts = device.parts
        yield Sample("hami_vgpu_memory_used_bytes", own, float(device.used_bytes))
        yield Sample("hami_container_device_memory_bytes", own, float(device.used_bytes))
        yield Sample("hami_vgpu_memory_limit_bytes", own, float(device.limit_bytes))
        yield Sample("hami_vgpu_memory_context_bytes", own, float(parts.contexts_bytes))
        yield Sample("hami_vgpu_memory_module_bytes", own, float(parts.modules_bytes))
        yield Sample("hami_vgpu_memory_buffer_bytes", own, float(parts.buffers_bytes))
        yield Sample("hami_vgpu_memory_denied_total", own, float(device.denied))
        if device.oversubscription.limit_bytes:
            yield from _of_host_memory(device.oversubscription, own)
        if device.cores or device.compute.grants:
            yield from _of_compute(device.compute, own)


def _of_driver(region: Region, labels: Mapping[str, str], measured: Callable[[str], int | None]) -> Iterator[Sample]:
    """What the driver counts for a container. The part above the container's own count is unknown to the library."""
    for position, device in enumerate(region.devices):
        size = measured(device.uuid)
        if size is not None:
            own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid[:40]}
            yield Sample("hami_vgpu_memory_driver_bytes", own, float(size))


def _of_host_memory(use: OversubscriptionUse, own: Mapping[str, str]) -> Iterator[Sample]:
    """Host memory in place of device memory. Called only if the administrator scales memory above 1."""
    yield Sample("hami_vgpu_host_memory_limit_bytes", own, float(use.limit_bytes))
    yield Sample("hami_vgpu_host_memory_used_bytes", own, float(use.used_bytes))
    yield Sample("hami_vgpu_host_memory_peak_bytes", own, float(use.peak_bytes))
    yield Sample("hami_vgpu_host_memory_allocated_bytes_total", own, float(use.allocated_bytes))


def _of_compute(use: ComputeUse, own: Mapping[str, str]) -> Iterator[Sample]:
    """The account of device time since the container was made. Called only if it has or had a core limit."""
    yield Sample("hami_vgpu_compute_seconds_total", own, use.charged / NS)
    yield Sample("hami_vgpu_compute_estimated_seconds_total", own, use.estimated / NS)
    yield Sample("hami_vgpu_compute_throttled_seconds_total", own, use.waited / NS)
    yield Sample("hami_vgpu_compute_longest_wait_seconds", own, use.longest_wait / NS)
    yield Sample("hami_vgpu_compute_grants_total", own, float(use.grants))
    yield Sample("hami_vgpu_compute_wait_timeouts_total", own, float(use.timeouts))
    yield Sample("hami_vgpu_compute_turns_total", own, float(use.turns))
    yield Sample("hami_vgpu_compute_turn_timeouts_total", own, float(use.turn_timeouts))


def _legacy(region: Region, ref: ContainerRef) -> Iterator[Sample]:
    """A container's memory under HAMi's old metric names."""
    for position, device in enumerate(region.devices):
        own = {
            "podnamespace": ref.namespace,
            "podname": ref.pod,
            "ctrname": ref.container,
            "vdeviceid": str(position),
            "deviceuuid": device.uuid[:40],
        }
        yield Sample("vGPU_device_memory_usage_in_bytes", own, float(device.used_bytes))
        yield Sample("vGPU_device_memory_limit_in_bytes", own, float(device.limit_bytes))
