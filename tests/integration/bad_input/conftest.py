"""One system for all tests of bad input, with misbehaving vendor plugins installed beside the real ones."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import pytest_asyncio
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bad_input import distributions
from tests.integration.bad_input.scene import Scene


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def scene():
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    distributions.install(folder / "site")
    vendors = ("nvidia", *distributions.LOADABLE, *distributions.BROKEN)
    nodes = [GpuNode("gpu-1", "h100x2"), GpuNode("gpu-2", "a100x2")]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(folder / "site"))
        async with GpuStage(folder / "s", nodes, vendors=vendors, kubelet={"resync_seconds": 2.0}) as stage:
            made = Scene(stage)
            await made.begin()
            yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture(loop_scope="session")
async def checked_scene(scene):
    """The scene. After each test, it checks that all else still works."""
    yield scene
    await scene.check_unaffected()
