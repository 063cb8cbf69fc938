"""Programs for beds with other versions than the session's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bed import tools as bed_tools

if TYPE_CHECKING:
    from tests.e2e.bed.tools import Tools


@pytest.fixture(scope="session")
def older_runtime(tools: Tools, request: pytest.FixtureRequest) -> Tools:
    """The session's Kubernetes with containerd 1.7, the last line with CDI off by default."""
    del tools  # requested only so that this fixture is skipped if the session's tools are missing
    return bed_tools.find(kubernetes=request.config.getoption("--kubernetes"), containerd="1.7")
