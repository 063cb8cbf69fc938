"""Checks plugins' metrics: the table ``metric_specs`` of their classes, and samples against this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.documents import did_you_mean
from hami_core.errors import VendorError
from hami_core.model import MetricKind, MetricSpec, Sample
from hami_core.observe import metrics
from hami_core.plugins import checks
from hami_core.plugins.checks import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core.plugins.discovery import Source

OURS: Final = frozenset(spec.name for table in metrics.TABLES.values() for spec in table)
"""Names of the core's metrics, which no plugin may use."""


def declared(objects: Iterable[tuple[object, Source]]) -> dict[str, MetricSpec]:
    """Merge the tables of a vendor's objects and of the wrappers around it, by metric name.

    Raises:
        VendorError: A table is malformed, has a metric of the core, or gives a metric another kind or other labels than
            another table.
    """
    found: dict[str, MetricSpec] = {}
    for plugin, source in objects:
        try:
            specs = checks.sequence(getattr(plugin, "metric_specs", ()), MetricSpec)
        except Unusable as finding:
            raise VendorError(source.name, source.label, "metrics", f"metric_specs {finding}") from None
        for spec in specs:
            problem = _problem(spec, found.setdefault(spec.name, spec))
            if problem:
                raise VendorError(source.name, source.label, "metrics", f"metric_specs has {spec.name}, {problem}")
    return found


def _problem(spec: MetricSpec, first: MetricSpec) -> str:
    if spec.name in OURS:
        return "which the core serves; choose another name"
    if spec.kind is MetricKind.HISTOGRAM:
        return "a histogram; plugins have gauges and counters"
    return "" if spec.agrees_with(first) else "twice, with different kinds or labels"


def samples(answer: object, specs: Mapping[str, MetricSpec]) -> tuple[Sample, ...]:
    """Accept samples whose names and labels are in the table.

    Raises:
        Unusable: A sample is not in the table, or its labels or value do not fit.
    """
    found = checks.sequence(answer, Sample)
    for sample in found:
        spec = specs.get(sample.name)
        if spec is None:
            hint = did_you_mean(str(sample.name), specs) or "add it"
            raise Unusable(f"answered {sample.name!r}, which is not in metric_specs; {hint}")
        labels = checks.strings(sample.labels)
        if labels.keys() != set(spec.labels):
            raise Unusable(f"answered {spec.name} with labels {sorted(labels)}, not {sorted(spec.labels)}")
        value: object = sample.value
        if not isinstance(value, int | float) or (spec.kind is MetricKind.COUNTER and value < 0):
            raise Unusable(f"answered {spec.name} with the value {value!r}, which a {spec.kind} cannot have")
    return found
