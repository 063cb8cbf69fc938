"""The table of metrics, and what a scrape shows."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from hami_core.errors import ConfigError
from hami_core.observe import log, metrics
from hami_core.observe.trace import span

TABLES = (metrics.HAMI_SCHEDULER, metrics.SCHEDULER)


def test_names_are_unique_and_ours():
    names = [spec.name for table in TABLES for spec in table]
    assert len(names) == len(set(names))
    assert all(name.startswith("hami_") for name in names)
    assert all(spec.help.endswith(".") for table in TABLES for spec in table)


def test_every_metric_of_the_scheduler_is_on_its_page():
    page = Path(__file__).parents[3] / "docs" / "reference" / "scheduler.md"
    text = page.read_text()
    names = [spec.name for table in (metrics.HAMI_SCHEDULER, metrics.SCHEDULER) for spec in table]
    assert [name for name in names if f"`{name}`" not in text] == []


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
    counter = metrics.MetricSpec("hami_test_total", metrics.Kind.COUNTER, "A test.", ("result",))
    made = metrics.Metrics([*metrics.SCHEDULER, counter])
    made.counter("hami_test_total").labels(result="ok").inc()
    made.gauge("hami_cache_drift").set(0)
    made.histogram("hami_scheduler_request_duration_seconds").labels(verb="bind", result="ok").observe(0.003)
    text = generate_latest(made.registry).decode()
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


def test_unknown_level_says_which_there_are():
    with pytest.raises(ConfigError, match="one of debug, info, warning, error"):
        log.configure("loud")


def test_a_span_costs_nothing_where_opentelemetry_is_missing():
    with span("filter", pod="default/a"):
        pass
