"""The embedded cluster behaves as the recordings of real Kubernetes. This needs no real cluster."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.edges import recordings
from tests.edges.compare import Difference, differences
from tests.edges.embedded import embedded
from tests.edges.scenarios import SCENARIOS
from tests.edges.scene import observe_all
from tests.edges.tolerated import TOLERATED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.edges.scene import Scenario

VERSIONS = recordings.versions()
PAIRS = [(version, name) for version in VERSIONS for name in SCENARIOS]
LABELS_SINCE = 35
"""First minor version that copies a Binding's labels to the pod. The embedded server can do both."""
BY_VERSION = ("api-binding",)
"""Scenarios that depend on it and run both ways. All others run once."""

Observed = dict[str, dict[str, Any] | Exception]


def _observe(scenarios: Mapping[str, Scenario], *api_args: str) -> Observed:
    folder = Path(tempfile.mkdtemp(prefix="edges-"))

    async def run() -> Observed:
        async with embedded(folder, *api_args) as subject:
            return await observe_all(subject, scenarios)

    seen = asyncio.run(run())
    if any(isinstance(one, Exception) for one in seen.values()):
        print(f"logs of the embedded cluster are in {folder}")
    else:
        shutil.rmtree(folder)
    return seen


@pytest.fixture(scope="module")
def observed() -> dict[bool, Observed]:
    """Observations of the embedded cluster, by whether it copies labels."""
    new = _observe(SCENARIOS)
    old = _observe({name: SCENARIOS[name] for name in BY_VERSION}, "--drop-binding-labels")
    return {True: new, False: {**new, **old}}


def _differences(observed: dict[bool, Observed], version: str, name: str) -> list[Difference]:
    copies_labels = int(version.split(".")[1]) >= LABELS_SINCE
    seen = observed[copies_labels][name]
    if isinstance(seen, Exception):
        pytest.fail(f"{name} failed on the embedded cluster: {seen!r}")
    return list(differences(recordings.load(version, name), seen))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_scenario_is_recorded(version: str) -> None:
    assert recordings.names(version) == sorted(SCENARIOS)


@pytest.mark.parametrize(("version", "name"), PAIRS)
@pytest.mark.timeout(300)
def test_embedded_cluster_behaves_as_recorded(observed: dict[bool, Observed], version: str, name: str) -> None:
    found = [d for d in _differences(observed, version, name) if not any(t.covers(version, name, d) for t in TOLERATED)]
    assert not found, f"{name} on {version}:\n" + "\n".join(map(str, found))


@pytest.mark.timeout(300)
def test_every_tolerated_difference_still_occurs(observed: dict[bool, Observed]) -> None:
    found = [(version, name, d) for version, name in PAIRS for d in _differences(observed, version, name)]
    gone = [t.where for t in TOLERATED if not any(t.covers(*one) for one in found)]
    assert not gone, f"remove these from tests/edges/tolerated.py: {gone}"
