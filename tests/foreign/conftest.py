"""Fixtures of the replays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a path short enough for Unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
