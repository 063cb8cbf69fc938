"""The table of metrics, and what a scrape shows."""

from __future__ import annotations

import json
from io import StringIO

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from hami_core import MetricKind, MetricSpec
from hami_core.errors import ConfigError
from hami_core.observe import log, metrics
from hami_core.observe.trace import span


def test_names_are_unique_and_ours_have_the_prefix():
    names = [spec.name for table in metrics.TABLES.values() for spec in table]
    assert len(names) == len(set(names))
    ours = [spec for table in metrics.TABLES.values() if table is not metrics.HAMI_SCHEDULER_LEGACY for spec in table]
    assert all(spec.name.startswith("hami_") for spec in ours)
    assert all(spec.help.endswith(".") for table in metrics.TABLES.values() for spec in table)


@pytest.mark.parametrize(
    ("name", "kind"), [("hami_x", MetricKind.COUNTER), ("hami_x_total", MetricKind.GAUGE), ("9x", MetricKind.GAUGE)]
)
def test_a_name_that_does_not_fit_its_kind_is_refused(name, kind):
    with pytest.raises(ValueError, match=f"metric '?{name}"):
        MetricSpec(name, kind, "A test.")


def test_one_name_with_other_labels_or_kind_is_a_disagreement():
    plain = MetricSpec.gauge("hami_x", "A test.", "node")
    reordered = MetricSpec.gauge("hami_x", "Other words.", "node")
    other = MetricSpec.gauge("hami_x", "A test.", "node", "pod")
    assert metrics.disagreements([[plain], [reordered]]) == {}
    assert metrics.disagreements([[plain], [other]]) == {"hami_x": (plain, other)}


def test_read_counters_have_help_and_type():
    registry = CollectorRegistry()
    rows = [("hami_plugin_refused", {"plugin": "a", "distribution": "b"}, 1.0)]
    rows += [("hami_plugin_blocks_total", {"plugin": "a", "distribution": "b", "hook": "c"}, 2.0)]
    registry.register(metrics.StateCollector(metrics.PLUGINS, lambda: rows))
    text = generate_latest(registry).decode()
    assert "# HELP hami_plugin_blocks_total Times that a hook blocked" in text
    assert "# TYPE hami_plugin_blocks_total counter\n" in text
    assert 'hami_plugin_blocks_total{distribution="b",hook="c",plugin="a"} 2.0\n' in text
    assert "# TYPE hami_plugin_refused gauge\n" in text


def test_hamis_gauges_carry_its_labels_and_zone():
    registry = CollectorRegistry()
    labels = {"node": "n", "device_uuid": "GPU-a", "device_index": "0", "device_type": "A100"}
    rows = [("hami_gpu_memory_limit_bytes", labels, 40 * 2**30)]
    registry.register(metrics.StateCollector(metrics.HAMI_SCHEDULER, lambda: rows))
    text = generate_latest(registry).decode()
    expected = '{device_index="0",device_type="A100",device_uuid="GPU-a",node="n",zone="vGPU"} 4.294967296e+10'
    assert "hami_gpu_memory_limit_bytes" + expected in text


def test_a_row_outside_the_table_is_an_error_not_a_sample():
    collector = metrics.StateCollector(metrics.HAMI_SCHEDULER, lambda: [("hami_gpu_shared_count", {"node": "n"}, 1)])
    with pytest.raises(ValueError, match="its table says"):
        list(collector.collect())


def test_counted_metrics_by_name():
    counter = MetricSpec.counter("hami_test_total", "A test.", "result")
    made = metrics.Metrics([*metrics.SCHEDULER, counter])
    made.counter("hami_test_total").labels(result="ok").inc()
    made.gauge("hami_cache_drift").set(0)
    made.histogram("hami_scheduler_request_duration_seconds").labels(verb="bind", result="ok").observe(0.003)
    text = generate_latest(made.registry).decode()
    assert "# HELP hami_test_total A test.\n# TYPE hami_test_total counter\n" in text
    assert 'hami_test_total{result="ok"} 1.0' in text
    assert 'hami_scheduler_request_duration_seconds_bucket{le="0.004",result="ok",verb="bind"} 1.0' in text
    with pytest.raises(KeyError):
        made.counter("hami_unheard_of_total")
    with pytest.raises(TypeError):
        made.counter("hami_cache_drift")


def test_build_info_has_hamis_labels():
    registry = CollectorRegistry()
    registry.register(metrics.build_info("1.2.3"))
    text = generate_latest(registry).decode()
    for label in ('version="1.2.3"', "revision=", "build_date=", "go_version=", "compiler=", "platform="):
        assert label in text
    assert "zone=" not in text


@pytest.fixture
def clean_logging():
    import logging

    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.usefixtures("clean_logging")
def test_json_lines_hold_context_and_fields():
    import logging

    out = StringIO()
    log.configure("info", "json", stream=out, component="scheduler")
    structlog.get_logger("hami_core.x").info("bound", pod="default/a")
    structlog.get_logger("hami_core.x").debug("not shown")
    logging.getLogger("aiohttp").warning("from a library")
    first, second = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (first["event"], first["pod"], first["component"], first["level"]) == (
        "bound",
        "default/a",
        "scheduler",
        "info",
    )
    assert (second["event"], second["level"]) == ("from a library", "warning")


def test_unknown_level_error_lists_the_levels():
    with pytest.raises(ConfigError, match="one of debug, info, warning, error"):
        log.configure("loud")


def test_span_does_nothing_without_opentelemetry():
    with span("filter", pod="default/a"):
        pass
