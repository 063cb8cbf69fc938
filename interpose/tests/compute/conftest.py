"""The bench that cells run on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cells import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


@pytest.fixture(scope="session")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles programs/virtual.c."""
    out = tmp_path_factory.mktemp("virtual") / "virtual.so"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O2", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, str(PROGRAMS / "virtual.c"), "-o", str(out), "-ldl"], check=True)
    return out


@pytest.fixture
def bench(tmp_path: Path, virtual: Path, programs: Callable[..., Path]) -> Bench:
    """Runs cells in virtual time, with the library as installed: sanitizers and virtual time do not go together."""
    import hami_interpose

    return Bench(tmp_path, programs("work"), programs("hostile"), virtual, str(hami_interpose.library()))
