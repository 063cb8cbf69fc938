"""Fixtures: one small cluster with the chart installed, for tests that change the installation."""

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
    """A system of one node with two A100. Each test restores the installation."""
    with System(session_work / "one", tools, (Node("node1", "a100x2"),)) as running:
        yield running


@pytest.fixture
def tidy(installed: System) -> Iterator[System]:
    """The same system. The namespace default is emptied after each test."""
    yield installed
    installed.clean()
