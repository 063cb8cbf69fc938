"""Kubernetes behaves as recorded in edge cases. ``--record`` stores new recordings.

``tests/edges/test_replay.py`` compares the embedded cluster with the recordings, without a bed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.edges import recordings
from tests.edges.compare import differences
from tests.edges.scenarios import SCENARIOS
from tests.edges.scene import observe_all
from tests.edges.subject import NODE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bed.tools import Tools


@pytest.fixture(scope="module")
def observed(tools: Tools, module_work: Path) -> dict[str, Any]:
    """Observations of all scenarios on one bed."""
    from tests.e2e.bed import images
    from tests.e2e.bed.bed import Bed
    from tests.e2e.bed.state import Node
    from tests.edges.real import real

    with Bed(module_work, tools, [Node(NODE)], images=images.ensure(tools)) as bed:

        async def run() -> dict[str, Any]:
            async with real(bed) as subject:
                return await observe_all(subject, SCENARIOS)

        return asyncio.run(run())


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_recorded(observed: dict[str, Any], tools: Tools, name: str, request: pytest.FixtureRequest) -> None:
    seen, version = observed[name], tools.kubernetes.removeprefix("v")
    if isinstance(seen, Exception):
        pytest.fail(f"{name} failed on Kubernetes {version}: {seen!r}")
    if request.config.getoption("--record"):
        recordings.save(version, name, seen)
    found = list(differences(recordings.load(version, name), seen))
    assert not found, f"{name}: not as recorded; if Kubernetes changed: --record\n" + "\n".join(map(str, found))
