"""Samples of the cards' activity and of each container's use of them. `hami_nvidia.metrics` has the table."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose import hami_region
from hami_interpose.region import RegionError, read

from hami_core import Sample
from hami_nvidia.nvml import NvmlError
from hami_nvidia.regions import REGION_FILE, hami_region_file, region_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    from hami_interpose.hami_region import HamiDevice
    from hami_interpose.region import ComputeUse, DeviceUse, OversubscriptionUse, Region

    from hami_core import ContainerRef
    from hami_nvidia.health import HealthWatch
    from hami_nvidia.nvml import Card, Nvml, Usage

log = structlog.get_logger(__name__)

NS: Final = 10**9
LEAST_WINDOW_S: Final = 5.0
"""Least time between the two readings of a container's device time that make one figure of its utilization."""


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
        labels = _labels(card)
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


def health_samples(health: HealthWatch, cards: Sequence[Card], node: str) -> Iterator[Sample]:
    """Samples of what the cards' health says, as last read."""
    for card in cards:
        labels = _labels(card) | {"node": node}
        repair = health.repairs.get(card.uuid)
        if repair is not None:
            yield Sample("hami_host_gpu_memory_repair_pending", labels, float(repair.pending))
        for (uuid, xid), count in sorted(health.counts.items()):
            if uuid == card.uuid:
                yield Sample("hami_host_gpu_xid_errors_total", labels | {"xid": str(xid)}, float(count))


def _labels(card: Card) -> dict[str, str]:
    # HAMi's monitor always adds this prefix. HAMi's register adds it only if the name lacks it.
    return {"device_index": str(card.index), "device_uuid": card.uuid, "device_type": f"NVIDIA-{card.name}"}


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


class DeviceTimeShares:
    """Percent of a card's time that containers with a core limit used, from two readings of their device time.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._read: dict[tuple[str, int], tuple[float, int, float | None]] = {}

    def percent(self, record_id: str, position: int, charged: int) -> float | None:
        """Take in a reading. None: it is the first of this slice, or too close to the first.

        Args:
            record_id: The container.
            position: The card's position in its region.
            charged: Device time since the container was made, in ns.
        """
        key, now = (record_id, position), self._clock()
        since, before, known = self._read.get(key, (now, charged, None))
        if now - since >= LEAST_WINDOW_S:
            since, before, known = now, charged, 100 * max(charged - before, 0) / NS / (now - since)
        self._read[key] = (since, before, known)
        return known

    def keep(self, record_ids: Container[str]) -> None:
        """Forget all other containers."""
        self._read = {key: read for key, read in self._read.items() if key[0] in record_ids}


def utilization(
    nvml: Nvml,
    cards: Container[str],
    pids: Callable[[str], Collection[int]],
    shares: DeviceTimeShares,
    now: float,
    *,
    rests: Callable[[str, str], bool],
) -> Callable[[str, int, DeviceUse], float | None]:
    """Make a function that returns the percent of a card's time that a container uses. Each card is asked once.

    Args:
        nvml: The driver.
        cards: UUIDs of the node's cards. Others are ignored, since a region may contain any UUID.
        pids: Returns the host pids of a container's processes by record id.
        shares: The readings of device time.
        now: Unix seconds.
        rests: Returns whether a container's core limit on a card is not in force now, by record id and UUID. Then the
            library accounts no device time.

    Returns:
        A function of record id, the card's position and the card as in the region. It returns None if nothing is known.
    """

    @cache
    def on_card(uuid: str) -> Mapping[int, int] | None:
        try:
            return nvml.process_utilization(uuid, now - LEAST_WINDOW_S)
        except NvmlError as error:
            log.warning("can't measure a card's processes", error=str(error))
            return None

    def percent(record_id: str, position: int, device: DeviceUse) -> float | None:
        if _is_accounted(device) and not rests(record_id, device.uuid):
            return shares.percent(record_id, position, device.compute.charged)
        own = pids(record_id) if device.uuid in cards else ()
        if not own and _is_accounted(device) and not device.used_bytes:
            return 0.0  # no process has a context on the card
        found = on_card(device.uuid) if own else None
        return None if found is None else float(sum(found.get(pid, 0) for pid in own))

    return percent


def _is_accounted(device: DeviceUse) -> bool:
    """Whether the library accounts the container's device time: it has or had a core limit."""
    return bool(device.cores or device.compute.grants)


def container_samples(
    records: Mapping[str, ContainerRef],
    region_dirs: Mapping[str, str],
    told: set[str],
    measured: Callable[[str, str], int | None],
    used: Callable[[str, int, DeviceUse], float | None],
    *,
    cards: Container[str],
    legacy: bool = False,
) -> list[Sample]:
    """Samples of the containers, from their regions.

    If a region can't be read, its only sample says so. A container without a region, which has whole cards, has none.

    Args:
        records: Live containers by record id.
        region_dirs: Their regions' host folders.
        told: Records whose damaged region was already logged. This function updates the set.
        measured: The function that `driver_memory` returns.
        used: The function that `utilization` returns.
        cards: UUIDs of the node's cards.
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
        if isinstance(region, list):
            found += _of_hami(region, labels, ref, cards, legacy=legacy)
        elif region is not None:
            found += _of_region(region, labels)
            found += _of_driver(region, labels, partial(measured, record_id))
            if region.reason:
                own = labels | {"reason": region.reason}
                found.append(Sample("hami_vgpu_last_denial_time_seconds", own, float(region.reason_time)))
            percents = [used(record_id, *place) for place in enumerate(region.devices)]
            found += _of_utilization(region, labels, percents)
            if legacy:
                devices = enumerate(zip(region.devices, percents, strict=True))
                found += [s for place, (device, part) in devices for s in _legacy(device, place, ref, part)]
    return found


def _read(folder: str) -> Region | list[HamiDevice] | None:
    if not Path(folder).is_dir():
        return None
    if not (Path(folder) / REGION_FILE).exists():
        with hami_region_file(folder) as found:
            return None if found is None else hami_region.read(*found)
    with region_file(folder) as fd:
        return read(fd)


def _of_hami(
    devices: Sequence[HamiDevice],
    labels: Mapping[str, str],
    ref: ContainerRef,
    cards: Container[str],
    *,
    legacy: bool,
) -> Iterator[Sample]:
    """Samples of a container with HAMi's own library."""
    for position, device in enumerate(devices):
        if device.uuid in cards:  # a region may contain any text
            own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid}
            yield from _of_memory(device, own)
            yield Sample("hami_container_device_utilization_ratio", own, float(device.percent))
            if legacy:
                yield from _legacy(device, position, ref, float(device.percent))


def _of_memory(device: DeviceUse | HamiDevice, own: Mapping[str, str]) -> Iterator[Sample]:
    parts = device.parts
    yield Sample("hami_vgpu_memory_used_bytes", own, float(device.used_bytes))
    yield Sample("hami_container_device_memory_bytes", own, float(device.used_bytes))
    yield Sample("hami_vgpu_memory_limit_bytes", own, float(device.limit_bytes))
    yield Sample("hami_vgpu_memory_context_bytes", own, float(parts.contexts_bytes))
    yield Sample("hami_vgpu_memory_module_bytes", own, float(parts.modules_bytes))
    yield Sample("hami_vgpu_memory_buffer_bytes", own, float(parts.buffers_bytes))


def _of_region(region: Region, labels: Mapping[str, str]) -> Iterator[Sample]:
    for position, device in enumerate(region.devices):
        own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid[:40]}
        yield from _of_memory(device, own)
        yield Sample("hami_vgpu_memory_denied_total", own, float(device.denied))
        if device.oversubscription.limit_bytes:
            yield from _of_host_memory(device.oversubscription, own)
        if _is_accounted(device):
            yield from _of_compute(device.compute, own)


def _of_driver(region: Region, labels: Mapping[str, str], measured: Callable[[str], int | None]) -> Iterator[Sample]:
    """What the driver counts for a container. The part above the container's own count is unknown to the library."""
    for position, device in enumerate(region.devices):
        size = measured(device.uuid)
        if size is not None:
            own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid[:40]}
            yield Sample("hami_vgpu_memory_driver_bytes", own, float(size))


def _of_utilization(region: Region, labels: Mapping[str, str], percents: Sequence[float | None]) -> Iterator[Sample]:
    for position, (device, percent) in enumerate(zip(region.devices, percents, strict=True)):
        if percent is not None:
            own = dict(labels) | {"vdevice_index": str(position), "device_uuid": device.uuid[:40]}
            yield Sample("hami_container_device_utilization_ratio", own, percent)


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


def _legacy(
    device: DeviceUse | HamiDevice, position: int, ref: ContainerRef, percent: float | None
) -> Iterator[Sample]:
    """A container's memory and utilization under HAMi's old metric names."""
    own = {
        "podnamespace": ref.namespace,
        "podname": ref.pod,
        "ctrname": ref.container,
        "vdeviceid": str(position),
        "deviceuuid": device.uuid[:40],
    }
    yield Sample("vGPU_device_memory_usage_in_bytes", own, float(device.used_bytes))
    yield Sample("vGPU_device_memory_limit_in_bytes", own, float(device.limit_bytes))
    context, module, data = device.parts.contexts_bytes, device.parts.modules_bytes, device.parts.buffers_bytes
    rest = device.used_bytes - context - module - data
    parts = {"context": str(context), "module": str(module), "data": str(data), "offset": str(rest)}
    yield Sample("Device_memory_desc_of_container", own | parts, float(device.used_bytes))
    if percent is not None:
        yield Sample("Device_utilization_desc_of_container", own, percent)
