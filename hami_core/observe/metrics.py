"""Tables of the metrics of scheduler and agent: name, kind, meaning, labels. Vendors have their own tables.

Metrics with HAMi's names have HAMi's labels and values. `Metrics` holds the metrics that a process counts as things
happen. `StateCollector` reads the others at scrape time, by asking for rows. For many rows, see `exposition`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hami_core.model import MetricKind, MetricSpec


def _hami(name: str, help: str, *labels: str) -> MetricSpec:  # noqa: A002 - Prometheus' word
    return MetricSpec.gauge(name, help, *labels, zoned=True)


_gauge, _counter = MetricSpec.gauge, MetricSpec.counter
_DEVICE: Final = ("node", "device_uuid", "device_index", "device_type")
_MIG: Final = ("mig_uuid", "profile", "gpu_instance_id", "compute_instance_id")
_VGPU: Final = ("namespace", "node", "pod", "container_index", "device_uuid")
_LATENCY: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

BUILD_INFO: Final = _gauge(
    "hami_build_info",
    "Version of this program; always 1.",
    "version",
    "revision",
    "build_date",
    "go_version",
    "compiler",
    "platform",
)
"""The version metric of every process, with HAMi's name and labels."""

HAMI_SCHEDULER: Final = (
    _hami("hami_gpu_memory_limit_bytes", "Memory the device offers.", *_DEVICE),
    _hami("hami_gpu_core_limit_ratio", "Compute the device offers, percent.", *_DEVICE),
    _hami("hami_gpu_memory_allocated_bytes", "Memory booked on the device.", *_DEVICE, "device_cores"),
    _hami("hami_gpu_shared_count", "Slots booked on the device.", *_DEVICE),
    _hami("hami_gpu_core_allocated_ratio", "Compute booked on the device, percent.", *_DEVICE),
    _hami(
        "hami_node_gpu_overview",
        "Memory booked on the device, with its size in MiB as a label.",
        "node",
        "device_uuid",
        "device_index",
        "device_cores",
        "device_memory_limit",
        "device_type",
    ),
    _hami("hami_node_gpu_memory_allocated_ratio", "Share of the device's memory that is booked.", *_DEVICE),
    _hami(
        "hami_node_gpu_mig_instance_info",
        "An existing MIG instance; always 1.",
        "node",
        "device_uuid",
        "device_index",
        *_MIG,
        "placement_start",
        "placement_size",
    ),
    _hami("hami_resource_quota_used", "Device resource used in a namespace.", "namespace", "quota_name", "limit"),
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
    _hami("QuotaUsed", "Device resource used in a namespace.", "quotanamespace", "quotaName", "limit"),
    _hami("vGPUMemoryAllocated", "Memory booked for a pod on a device.", *_OLD_VGPU),
    _hami("vGPUCoreAllocated", "Compute booked for a pod on a device, percent.", *_OLD_VGPU),
)
"""HAMi's scheduler metrics under their old names (``--legacy-metrics``)."""

SCHEDULER: Final = (
    MetricSpec(
        "hami_scheduler_request_duration_seconds",
        MetricKind.HISTOGRAM,
        "Time from reading a request's body to its answer, by verb and result (ok, refused, error).",
        ("verb", "result"),
        buckets=_LATENCY,
    ),
    _gauge("hami_scheduler_holds", "Placements held between Filter and Bind."),
    _gauge("hami_scheduler_bookings", "Pods with booked devices."),
    _gauge("hami_scheduler_leader", "1 on the replica that binds pods."),
    _gauge("hami_scheduler_epoch", "Epoch with which the leader signs allocations."),
    _gauge(
        "hami_scheduler_closed_nodes",
        "Nodes that take no new pods of a vendor, because its devices or a pod's allocation there can't be read.",
    ),
    _gauge(
        "hami_scheduler_allocations_in_doubt",
        "Live pods with a doubtful allocation: unreadable (its node takes no new pods), or counted although its "
        "signature is missing (unsigned) or not ours (invalid).",
        "reason",
    ),
    _gauge(
        "hami_scheduler_quota_entries_at_fault",
        "ResourceQuota entries about devices that can't be read and count as 0 (unreadable), that nothing enforces "
        "(unenforced), or that Kubernetes counts in part (partial).",
        "reason",
    ),
    _gauge(
        "hami_scheduler_certificate_expiry_timestamp_seconds",
        "When the webhook's certificate expires, if this process issues it; else 0.",
    ),
    _gauge("hami_scheduler_signing_keys", "Public keys whose signatures are accepted."),
    _gauge(
        "hami_scheduler_credential_error",
        "1 while this process fails to keep up a credential that it manages; the log says why.",
        "credential",
    ),
    _gauge("hami_cache_drift", "Sums that differed when usage was recomputed; any value other than 0 is a bug."),
    _gauge("hami_informer_objects", "Objects in the local copy.", "resource"),
    _gauge("hami_informer_synced", "1 once the local copy is complete.", "resource"),
)
"""The scheduler's own metrics, which HAMi does not have."""

_HOOK: Final = ("plugin", "distribution", "hook")

PLUGINS: Final = (
    _counter("hami_plugin_failures_total", "Failed calls of a hook; the log has the first one.", *_HOOK),
    _counter(
        "hami_plugin_blocks_total",
        "Times that a hook blocked the whole process for a second; the log has the first one with its stack.",
        *_HOOK,
    ),
    _gauge(
        "hami_plugin_refused",
        "1 for an installed plugin that could not be loaded or is closed.",
        "plugin",
        "distribution",
    ),
)
"""Failures of the scheduler's plugins."""

AGENT: Final = (
    _counter("hami_agent_allocations_total", "Containers for which the kubelet requested devices.", "node"),
    _counter("hami_agent_prestarts_total", "Calls of PreStartContainer.", "node"),
    _counter("hami_agent_refusals_total", "Calls of PreStartContainer that the agent refused.", "node"),
    _counter(
        "hami_agent_checkpoint_nudges_total",
        "Times that the kubelet's checkpoint was late and the agent made the kubelet write it again.",
        "node",
    ),
    _counter("hami_agent_specs_written_total", "CDI specs that the agent wrote.", "node"),
    _counter(
        "hami_agent_names_lost_total", "CDI names given to the kubelet for containers that never started.", "node"
    ),
    _counter(
        "hami_slot_card_mismatches_total",
        "Containers whose slot ids belong to other cards than booked; harmless.",
        "node",
    ),
    _counter("hami_agent_evictions_total", "Pods that the agent deleted.", "node"),
    _counter("hami_agent_node_writes_total", "Times that the agent wrote its Node object.", "node"),
    _counter(
        "hami_agent_plugin_failures_total",
        "Failed calls of a hook in the agent; the log has the first one.",
        "node",
        "plugin",
        "hook",
    ),
    _gauge("hami_agent_containers", "Containers with devices on this node.", "node"),
    _gauge(
        "hami_agent_container_info",
        "UID of the pod of a container with devices on this node; always 1.",
        "node",
        "namespace",
        "pod",
        "container",
        "pod_uid",
    ),
    _gauge(
        "hami_agent_containers_unlimited",
        "Containers that run without the devices and limits of their CDI spec.",
        "node",
    ),
    _gauge("hami_devices", "Devices of a vendor, by state.", "node", "vendor", "state"),
    _gauge("hami_device_state", "1 for the state that the device is in.", "node", "device_uuid", "state"),
    _gauge(
        "hami_device_problem",
        "1 for the last problem of a device that is suspect, unhealthy or recovering.",
        "node",
        "device_uuid",
        "reason",
    ),
    _gauge(
        "hami_device_not_offered",
        "1 for a device that the agent does not offer to pods, whatever its health.",
        "node",
        "device_uuid",
        "reason",
    ),
)
"""The agent's metrics."""

TABLES: Final = {
    "Scheduler and agent": (BUILD_INFO,),
    "Scheduler: HAMi's": HAMI_SCHEDULER,
    "Scheduler: HAMi's old names": HAMI_SCHEDULER_LEGACY,
    "Scheduler: ours": SCHEDULER,
    "Scheduler: plugins": PLUGINS,
    "Agent": AGENT,
}
"""All tables by heading, in the order of the page docs/reference/metrics.md."""

Row = tuple[str, Mapping[str, str], float]
"""Metric name, labels, value."""


class Metrics:
    """The metrics that one process counts, by name. A name that is not in its tables raises KeyError."""

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


Family = GaugeMetricFamily | CounterMetricFamily
_FAMILIES: Final[Mapping[MetricKind, type[Family]]] = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
}


def family(spec: MetricSpec) -> Family:
    """The family of a gauge or counter, without samples."""
    return _FAMILIES[spec.kind](spec.name, spec.help, labels=[*spec.labels, *(["zone"] if spec.zoned else [])])


class StateCollector(Collector):
    """Gauges and counters that are read at scrape time from ``rows()``.

    Args:
        specs: The table. A row with another name raises KeyError, one with other labels ValueError.
        rows: Returns the current rows.
    """

    def __init__(self, specs: Sequence[MetricSpec], rows: Callable[[], Iterable[Row]]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._rows = rows

    def describe(self) -> Iterator[Family]:
        """The families without samples (so that registering reads no state)."""
        return iter(self._families().values())

    def collect(self) -> Iterator[Family]:
        """The families with their samples."""
        families = self._families()
        for name, labels, value in self._rows():
            spec = self._specs[name]
            if set(labels) != set(spec.labels):
                raise ValueError(f"{name} has labels {sorted(labels)}, its table says {sorted(spec.labels)}")
            values = [labels[label] for label in spec.labels] + (["vGPU"] if spec.zoned else [])
            families[name].add_metric(values, value)
        return iter(families.values())

    def _families(self) -> dict[str, Family]:
        return {name: family(spec) for name, spec in self._specs.items()}


def disagreements(tables: Iterable[Iterable[MetricSpec]]) -> dict[str, tuple[MetricSpec, MetricSpec]]:
    """Metric names that tables define with different kinds or labels, each with the first two definitions."""
    first: dict[str, MetricSpec] = {}
    found: dict[str, tuple[MetricSpec, MetricSpec]] = {}
    for table in tables:
        for spec in table:
            known = first.setdefault(spec.name, spec)
            if not known.agrees_with(spec):
                found.setdefault(spec.name, (known, spec))
    return found


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
    if spec.kind is MetricKind.COUNTER:
        return Counter(spec.name, spec.help, spec.labels, registry=registry)
    if spec.kind is MetricKind.GAUGE:
        return Gauge(spec.name, spec.help, spec.labels, registry=registry)
    return Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=spec.buckets or _LATENCY)


M = TypeVar("M")


def _expect(made: object, kind: type[M]) -> M:
    if not isinstance(made, kind):
        raise TypeError(f"the table says it is a {type(made).__name__}")
    return made
