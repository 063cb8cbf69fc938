"""One small cluster with the chart installed, for what is done to installations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bed.bed import Node
from tests.e2e.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bed.tools import Tools


@pytest.fixture(scope="package")
def installed(tools: Tools, session_work: Path) -> Iterator[System]:
    """One node of two A100 with our chart; each test leaves it installed as it was."""
    with System(session_work / "one", tools, (Node("node1", "a100x2"),)) as running:
        yield running


@pytest.fixture
def tidy(installed: System) -> Iterator[System]:
    """The same; the namespace default is empty afterwards."""
    yield installed
    installed.clean()
