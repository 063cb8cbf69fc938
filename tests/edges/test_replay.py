"""The embedded cluster does what real Kubernetes was recorded doing; no cluster is needed for this."""

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
"""Minor version from which on a Binding's labels are copied; the embedded server can do either."""
BY_VERSION = ("api-binding",)
"""Scenarios in which that is to be seen; all others are run once."""

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
    """What the embedded cluster does, with and without copying labels."""
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
def test_replay(observed: dict[bool, Observed], version: str, name: str) -> None:
    found = [d for d in _differences(observed, version, name) if not any(t.covers(version, name, d) for t in TOLERATED)]
    assert not found, f"{name} on {version}:\n" + "\n".join(map(str, found))


@pytest.mark.timeout(300)
def test_every_tolerated_difference_still_occurs(observed: dict[bool, Observed]) -> None:
    found = [(version, name, d) for version, name in PAIRS for d in _differences(observed, version, name)]
    gone = [t.where for t in TOLERATED if not any(t.covers(*one) for one in found)]
    assert not gone, f"take these out of tests/edges/tolerated.py: {gone}"
