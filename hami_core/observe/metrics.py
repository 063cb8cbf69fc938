"""Every metric in one table: name, kind, meaning, labels. HAMi's names keep HAMi's labels and values.

A process builds `Metrics` from the tables it needs; these are counted as things happen. Gauges of the state at the time
of a scrape come from `StateCollector`, which asks for rows then; where there are many, see `exposition`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class Kind(StrEnum):
    """Prometheus' kinds."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric. ``zoned``: carries HAMi's constant label ``zone="vGPU"``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    zoned: bool = False
    buckets: tuple[float, ...] = ()


def _hami(name: str, help: str, *labels: str) -> MetricSpec:  # noqa: A002 - Prometheus' word
    return MetricSpec(name, Kind.GAUGE, help, labels, zoned=True)


_DEVICE: Final = ("node", "device_uuid", "device_index", "device_type")
_MIG: Final = ("mig_uuid", "profile", "gpu_instance_id", "compute_instance_id")
_VGPU: Final = ("namespace", "node", "pod", "container_index", "device_uuid")
_LATENCY: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

BUILD_INFO: Final = MetricSpec(
    "hami_build_info",
    Kind.GAUGE,
    "Version of this program; always 1.",
    ("version", "revision", "build_date", "go_version", "compiler", "platform"),
)

HAMI_SCHEDULER: Final = (
    _hami("hami_gpu_memory_limit_bytes", "Memory the device offers.", *_DEVICE),
    _hami("hami_gpu_core_limit_ratio", "Compute the device offers, percent.", *_DEVICE),
    _hami("hami_gpu_memory_allocated_bytes", "Memory booked on the device.", *_DEVICE, "device_cores"),
    _hami("hami_gpu_shared_count", "Slots booked on the device.", *_DEVICE),
    _hami("hami_gpu_core_allocated_ratio", "Compute booked on the device, percent.", *_DEVICE),
    _hami(
        "hami_node_gpu_overview",
        "Memory booked on the device, with its size in MiB as a label.",
        *("node", "device_uuid", "device_index", "device_cores", "device_memory_limit", "device_type"),
    ),
    _hami("hami_node_gpu_memory_allocated_ratio", "Share of the device's memory that is booked.", *_DEVICE),
    _hami(
        "hami_node_gpu_mig_instance_info",
        "A MIG instance that runs; always 1.",
        *("node", "device_uuid", "device_index", *_MIG, "placement_start", "placement_size"),
    ),
    _hami("hami_resource_quota_used", "Device resource in use in a namespace.", "namespace", "quota_name", "limit"),
    _hami("hami_resource_quota_limit", "Limit of a device resource in a namespace.", "namespace", "quota_name"),
    _hami("hami_vgpu_memory_allocated_bytes", "Memory booked for a pod on a device.", *_VGPU),
    _hami("hami_vgpu_core_allocated_ratio", "Compute booked for a pod on a device, percent.", *_VGPU),
)
"""HAMi v2.10's scheduler metrics (port 9395)."""

_OLD: Final = ("nodeid", "deviceuuid", "deviceidx", "devicetype")
_OLD_VGPU: Final = ("podnamespace", "nodename", "podname", "containeridx", "deviceuuid")

HAMI_SCHEDULER_LEGACY: Final = (
    _hami("GPUDeviceMemoryLimit", "Memory the device offers.", *_OLD),
    _hami("GPUDeviceCoreLimit", "Compute the device offers, percent.", *_OLD),
    _hami("GPUDeviceMemoryAllocated", "Memory booked on the device.", *_OLD, "devicecores"),
    _hami("GPUDeviceSharedNum", "Slots booked on the device.", *_OLD),
    _hami("GPUDeviceCoreAllocated", "Compute booked on the device, percent.", *_OLD),
    _hami("nodeGPUOverview", "Memory booked on the device.", *_OLD, "devicecores", "devicememorylimit"),
    _hami("nodeGPUMemoryPercentage", "Share of the device's memory that is booked.", *_OLD[:3]),
    _hami("QuotaUsed", "Device resource in use in a namespace.", "quotanamespace", "quotaName", "limit"),
    _hami("vGPUMemoryAllocated", "Memory booked for a pod on a device.", *_OLD_VGPU),
    _hami("vGPUCoreAllocated", "Compute booked for a pod on a device, percent.", *_OLD_VGPU),
)
"""The same under HAMi's old names (``--legacy-metrics``)."""

SCHEDULER: Final = (
    MetricSpec(
        "hami_scheduler_request_duration_seconds",
        Kind.HISTOGRAM,
        "Time from a request's body to its answer, by verb and result (ok, refused, error).",
        ("verb", "result"),
        buckets=_LATENCY,
    ),
    MetricSpec("hami_scheduler_holds", Kind.GAUGE, "Placements held between Filter and Bind."),
    MetricSpec("hami_scheduler_bookings", Kind.GAUGE, "Pods with booked devices."),
    MetricSpec("hami_scheduler_leader", Kind.GAUGE, "1 on the replica that binds."),
    MetricSpec("hami_scheduler_epoch", Kind.GAUGE, "Epoch the leader signs allocations with."),
    MetricSpec(
        "hami_scheduler_closed_nodes",
        Kind.GAUGE,
        "Nodes closed to new pods of a vendor: its devices or a pod's allocation there can't be read.",
    ),
    MetricSpec(
        "hami_scheduler_allocations_in_doubt",
        Kind.GAUGE,
        "Live pods whose allocation can't be read (unreadable: their nodes are closed), or is counted though its"
        " signature is missing (unsigned) or not ours (invalid).",
        ("reason",),
    ),
    MetricSpec(
        "hami_scheduler_quota_entries_at_fault",
        Kind.GAUGE,
        "Entries of ResourceQuotas about devices that can't be read and count as 0 (unreadable), that nobody enforces "
        "(unenforced), or of which Kubernetes counts a part (partial).",
        ("reason",),
    ),
    MetricSpec(
        "hami_scheduler_certificate_expiry_timestamp_seconds",
        Kind.GAUGE,
        "When the webhook's certificate runs out, if this process issues it; else 0.",
    ),
    MetricSpec("hami_scheduler_signing_keys", Kind.GAUGE, "Keys whose signatures count."),
    MetricSpec("hami_scheduler_credential_error", Kind.GAUGE, "1 while a credential can't be kept.", ("credential",)),
    MetricSpec("hami_cache_drift", Kind.GAUGE, "Rows that differed when usage was recomputed; must be 0."),
    MetricSpec("hami_informer_objects", Kind.GAUGE, "Objects in the local copy.", ("resource",)),
    MetricSpec("hami_informer_synced", Kind.GAUGE, "1 once the local copy is complete.", ("resource",)),
)
"""Our own scheduler metrics."""

PLUGINS: Final = (
    MetricSpec(
        "hami_plugin_failures",
        Kind.GAUGE,
        "Calls of a hook that failed since the start, by plugin; the log has the first.",
        ("plugin", "distribution", "hook"),
    ),
    MetricSpec(
        "hami_plugin_blocks",
        Kind.GAUGE,
        "Times a hook held up the whole process for a second since the start; the log has the first with its stack.",
        ("plugin", "distribution", "hook"),
    ),
    MetricSpec(
        "hami_plugin_refused",
        Kind.GAUGE,
        "A plugin that is installed and not loaded, or closed; 1.",
        ("plugin", "distribution"),
    ),
)
"""Vendor and wrapper plugins that misbehave."""

Row = tuple[str, Mapping[str, str], float]
"""Metric name, labels, value."""


class Metrics:
    """Counted metrics of one process, by name; a name that is not in the tables is a KeyError."""

    def __init__(self, specs: Sequence[MetricSpec], registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}
        for spec in specs:
            self._made[spec.name] = _make(spec, self.registry)
        ProcessCollector(registry=self.registry)

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return _expect(self._made[name], Counter)

    def gauge(self, name: str) -> Gauge:
        """The gauge of that name."""
        return _expect(self._made[name], Gauge)

    def histogram(self, name: str) -> Histogram:
        """The histogram of that name."""
        return _expect(self._made[name], Histogram)


class StateCollector(Collector):
    """Gauges read at scrape time from ``rows()``; rows with names or labels outside the table are an error."""

    def __init__(self, specs: Sequence[MetricSpec], rows: Callable[[], Iterable[Row]]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._rows = rows

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without samples (so that registering reads no state)."""
        return iter(self._families().values())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with their samples."""
        families = self._families()
        for name, labels, value in self._rows():
            spec = self._specs[name]
            if set(labels) != set(spec.labels):
                raise ValueError(f"{name} has labels {sorted(labels)}, its table says {sorted(spec.labels)}")
            values = [labels[label] for label in spec.labels] + (["vGPU"] if spec.zoned else [])
            families[name].add_metric(values, value)
        return iter(families.values())

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {
            name: GaugeMetricFamily(name, spec.help, labels=[*spec.labels, *(["zone"] if spec.zoned else [])])
            for name, spec in self._specs.items()
        }


def build_info(version: str, *, revision: str = "", build_date: str = "") -> StateCollector:
    """``hami_build_info`` with HAMi's labels; ``go_version`` names the Python that runs."""
    labels = {
        "version": version,
        "revision": revision,
        "build_date": build_date,
        "go_version": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return StateCollector([BUILD_INFO], lambda: [(BUILD_INFO.name, labels, 1.0)])


def _make(spec: MetricSpec, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    if spec.kind is Kind.COUNTER:
        return Counter(spec.name, spec.help, spec.labels, registry=registry)
    if spec.kind is Kind.GAUGE:
        return Gauge(spec.name, spec.help, spec.labels, registry=registry)
    return Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=spec.buckets or _LATENCY)


M = TypeVar("M")


def _expect(made: object, kind: type[M]) -> M:
    if not isinstance(made, kind):
        raise TypeError(f"the table says it is a {type(made).__name__}")
    return made
