"""A machine without mount namespaces: containers get paths in variables instead of mounts."""

from __future__ import annotations

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import all_end, container, pod, wrong_slices

PODS = [
    pod("one", [container("main", 3000)]),
    pod("two", [container("main", 5000, 2)], [container("init", 1000)]),
    pod("three", [container("main", 7000), container("second", 900)]),
]


@pytest.mark.timeout(240)
async def test_limits_hold_in_reduced_mode_and_the_log_names_it(short_folder):
    async with GpuStage(short_folder / "reduced", [GpuNode("gpu-1", "h100x2")], kubelet={"reduced": True}) as stage:
        for entry in PODS:
            await stage.submit(entry)
        left = await all_end(stage, {entry["metadata"]["name"] for entry in PODS}, 60)
        assert not left
        assert not await wrong_slices(stage, PODS)
        assert "[reduced" in await stage.log("one", "main")
