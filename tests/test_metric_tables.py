"""The metric tables of all processes and vendors, and the page generated from them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from contrib.vendors import in_tree
from hami_core import MetricSpec
from hami_core.observe import metrics
from hami_core.plugins import discovery
from hami_core.plugins.metrics_reference import page, tables

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


def test_page_is_up_to_date_with_the_tables():
    assert PAGE.read_text() == page(tables()), "regenerate it: python -m hami_core.plugins.metrics_reference"


def test_metric_added_to_a_table_is_on_the_page():
    added = MetricSpec.counter("hami_agent_added_total", "Something new.", "node", zoned=True)
    rows = set(page({**tables(), "Agent": (*metrics.AGENT, added)}).splitlines()) - set(PAGE.read_text().splitlines())
    assert rows == {"| `hami_agent_added_total` | counter | `node`, `zone` | Something new. |"}


def test_tables_that_share_a_name_agree_on_its_labels():
    found = {source.distribution for source, _ in discovery.installed(discovery.VENDORS)}
    assert {f"hami-{vendor.name}" for vendor in in_tree()} <= found, "not every vendor of the repository is installed"
    assert metrics.disagreements(tables().values()) == {}


def test_every_metrics_help_is_a_sentence():
    assert [spec.name for spec in chain(*tables().values()) if not spec.help.endswith(".")] == []
