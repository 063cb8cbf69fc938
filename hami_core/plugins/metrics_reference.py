"""Writes the reference page of all metrics from their tables: ``python -m hami_core.plugins.metrics_reference > …``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from hami_core.observe.metrics import TABLES
from hami_core.plugins import discovery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core.model import MetricSpec

_INTRO: Final = """# Metrics

Generated from the tables of the core and of installed vendors by `python -m hami_core.plugins.metrics_reference`; a
test compares.

The scheduler serves `/metrics` at its `--metrics-bind-address` (`:9395`), the agent at its own (`:9394`); see
{doc}`scheduler` and {doc}`agent`. Metrics with HAMi's names keep the labels and values of HAMi v2.10, even if a name
says `ratio` and the value is in percent. `--legacy-metrics` also serves HAMi's older names. Names of our own counters
end in `_total`.
"""


def page(tables: Mapping[str, Iterable[MetricSpec]]) -> str:
    """Write the whole page in MyST Markdown.

    Args:
        tables: Metrics by heading.
    """
    return "\n".join([_INTRO, *(_section(heading, specs) for heading, specs in tables.items())])


def tables() -> dict[str, Iterable[MetricSpec]]:
    """Return all tables by heading: the core's, then those of installed vendors."""
    found = discovery.discover(discovery.NODE, discovery.Selection())
    vendors = {f"Agent: {f.source.distribution}": getattr(f.plugin, "metric_specs", ()) for f in found}
    return {**TABLES, **{heading: specs for heading, specs in vendors.items() if specs}}


def _section(heading: str, specs: Iterable[MetricSpec]) -> str:
    lines = [f"## {heading}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for spec in specs:
        labels = ", ".join(f"`{label}`" for label in (*spec.labels, *(["zone"] if spec.zoned else [])))
        lines.append(f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(page(tables()))
