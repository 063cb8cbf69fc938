"""The table can be read on a terminal of 80 characters."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hami_core.simulate.report import show
from hami_core.simulate.run import POLICIES, policies_of
from hami_core.tests.simulate.cases import job, run, workload, world


@pytest.mark.parametrize("policies", [POLICIES, "spread/numa,binpack,binpack/mutex,spread/topology-aware"])
def test_terminal_of_80_characters_shows_every_measure_and_policy(policies):
    jobs = job(memory=6000, count=3, every=1.0, duration=200_000.0), job(memory=20000)
    chosen = policies_of(policies)
    results = [run(world(), *jobs, policy=policy) for policy in chosen]
    out = io.StringIO()
    show(
        "1 node", results, workload(world(), *jobs), Console(file=out, force_terminal=True, width=80, color_system=None)
    )
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "\u2026" not in out.getvalue()
    by_title = {line.strip("│").split("│")[0].strip(): line for line in lines if "│" in line}
    for title in ("memory %", "stranded cores %", "never placed", "Filter p99 ms"):
        assert len(by_title[title].strip("│").split("│")) == len(chosen) + 1
    assert "2.3 d" in by_title["wait p50"]
