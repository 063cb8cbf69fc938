"""A plugin's table of metrics, and the check of its samples."""

from __future__ import annotations

import pytest

from hami_core import MetricKind, MetricSpec, Sample, VendorError
from hami_core.plugins.checks import Unusable
from hami_core.plugins.discovery import Source
from hami_core.plugins.metrics import declared, samples

WARM = MetricSpec.gauge("hami_acme_temperature_celsius", "Temperature of the device.", "device")
RESETS = MetricSpec.counter("hami_acme_resets_total", "Resets of the device.", "device")
SPECS = {spec.name: spec for spec in (WARM, RESETS)}
AT = {"device": "a"}


def of(*tables):
    """What `declared` makes of objects with these tables."""
    return declared(
        [
            (type("Acme", (), {"metric_specs": table})(), Source("acme", "hami.node", "", "hami-acme"))
            for table in tables
        ]
    )


def test_tables_of_all_objects_are_merged():
    assert of((WARM,), [RESETS, WARM]) == SPECS
    assert declared([(object(), Source("acme", "hami.node"))]) == {}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (5, "answered int, expected a sequence of MetricSpec"),
        (["hami_acme_resets"], "expected MetricSpec"),
        ((MetricSpec.gauge("hami_agent_containers", "Ours."),), "hami_agent_containers, which the core serves"),
        ((MetricSpec("hami_acme_wait_seconds", MetricKind.HISTOGRAM, "Waits."),), "a histogram"),
        ((WARM, MetricSpec.gauge(WARM.name, "Elsewhere.", "node")), "twice, with different kinds or labels"),
    ],
)
def test_table_that_cannot_be_served_is_refused(table, problem):
    with pytest.raises(VendorError, match=problem):
        of(table)


def test_samples_of_the_table_are_accepted():
    found = [Sample(WARM.name, AT, -3), Sample(RESETS.name, AT, 2.0)]
    assert samples(found, SPECS) == tuple(found)


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        (Sample("hami_acme_reset_total", AT, 1), "'hami_acme_reset_total', which is not in metric_specs; did you mean"),
        (Sample(WARM.name, {}, 1), r"with labels \[\], not \['device'\]"),
        (Sample(WARM.name, {**AT, "zone": "vGPU"}, 1), r"with labels \['device', 'zone'\], not"),
        (Sample(WARM.name, {"device": 1}, 1), "expected str to str"),
        (Sample(WARM.name, AT, "hot"), "the value 'hot', which a gauge cannot have"),
        (Sample(RESETS.name, AT, -1), "the value -1, which a counter cannot have"),
    ],
)
def test_sample_that_differs_from_the_table_is_refused(sample, problem):
    with pytest.raises(Unusable, match=problem):
        samples([sample], SPECS)
