"""Fixtures of the integration tests."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def short_folder(request):
    """A folder with a path short enough for Unix sockets. It is kept, and printed, if a test of the module fails."""
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs of the failed run are in {folder}")
