"""One hundred pods at once on a node of eight cards: each container gets exactly its own slice."""

from __future__ import annotations

import asyncio
import random

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import all_end, container, delete_all, pod, wrong_slices

PODS = 100


def crowd(rng: random.Random) -> list[dict]:
    """Pods of different sizes, some with init containers, sidecars or several containers."""
    pods = []
    for number in range(PODS):
        sizes = iter(rng.sample(range(700, 9000), 8))
        shape = rng.random()
        main = [container("main", next(sizes), rng.choice([1, 1, 1, 2]))]
        init = []
        if shape < 0.2:
            init.append(container("init", next(sizes)))
        if 0.15 < shape < 0.3:
            sidecar = container("side", next(sizes), command=["cuda-probe", "look", "60"])
            init.append(sidecar | {"restartPolicy": "Always"})
        if 0.3 < shape < 0.4:
            main.append(container("second", next(sizes)))
        if 0.4 < shape < 0.5:
            main.insert(0, container("plain", None))
        pods.append(pod(f"p{number:03d}", main, init))
    return pods


async def rounds(short_folder, seeds) -> None:
    node = GpuNode("big", "h100x8", split=20)
    async with GpuStage(
        short_folder / str(seeds[0]), [node], kubelet={"seed": seeds[0], "resync_seconds": 2.0}
    ) as stage:
        for seed in seeds:
            pods = crowd(random.Random(seed))
            await asyncio.gather(*(stage.submit(entry) for entry in pods))
            left = await all_end(stage, {entry["metadata"]["name"] for entry in pods}, 120)
            assert not left, f"seed {seed}: {left}"
            wrong = await wrong_slices(stage, pods)
            assert not wrong, f"seed {seed}: {wrong}"
            await delete_all(stage)
            print(f"seed {seed}: {PODS} pods, every container its own slice", flush=True)


@pytest.mark.timeout(600)
async def test_each_of_a_hundred_pods_gets_exactly_its_slices(short_folder):
    await rounds(short_folder, range(2))


@pytest.mark.soak
@pytest.mark.timeout(14400)
async def test_hundred_pods_get_their_slices_over_many_rounds(short_folder):
    await rounds(short_folder, range(1000, 1200))
