"""If any part is killed at any moment, every pod still ends with its own slice."""

from __future__ import annotations

import asyncio
import random

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import all_end, container, delete_all, pod, replace_rejected, wrong_slices

NODES = [GpuNode("gpu-1", "h100x2"), GpuNode("gpu-2", "a100x2")]


def wave(rng: random.Random, number: int) -> list[dict]:
    sizes = rng.sample(range(700, 9000), 6)
    return [
        pod(f"w{number}-a", [container("main", sizes[0])]),
        pod(f"w{number}-b", [container("main", sizes[1], 2)], [container("init", sizes[2])]),
        pod(f"w{number}-c", [container("main", sizes[3]), container("second", sizes[4])]),
        pod(f"w{number}-d", [container("main", sizes[5])]),
    ]


async def kills(short_folder, seed: int, points: int) -> None:
    rng = random.Random(seed)
    async with GpuStage(short_folder / str(seed), NODES, kubelet={"resync_seconds": 2.0}) as stage:
        for number in range(points):
            victim = stage.part_names[number % len(stage.part_names)]
            pods = wave(rng, number)
            delay = rng.uniform(0, 1.5)

            async def strike(victim: str = victim, delay: float = delay) -> None:
                await asyncio.sleep(delay)
                await stage.restart(victim)

            striker = asyncio.create_task(strike())
            for entry in pods:
                await submit_again(stage, entry)
            await striker
            where = f"killed {victim} after {delay:.2f} s (point {number}, seed {seed})"
            names = {entry["metadata"]["name"] for entry in pods}
            left = await all_end(stage, names, 90)
            if left and victim.startswith(("agent", "kubelet")) and await replace_rejected(stage, pods):
                left = await all_end(stage, names, 90)
            assert not left, f"{where}: {left}"
            wrong = await wrong_slices(stage, pods)
            assert not wrong, f"{where}: {wrong}"
            await delete_all(stage)
            print(f"point {number}: {where}, every pod its own slice", flush=True)


async def submit_again(stage: GpuStage, entry: dict) -> None:
    """Retry, like a controller, until the API server accepts the pod: its webhook may be down."""
    for _ in range(200):
        try:
            await stage.submit(entry)
        except Exception as error:  # noqa: BLE001 - whatever a dying server does to a client
            if "409" in str(error):
                return
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(f"{entry['metadata']['name']} was never admitted")


@pytest.mark.timeout(900)
async def test_pods_end_with_their_slices_after_any_kill(short_folder):
    await kills(short_folder, seed=1, points=10)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_pods_end_with_their_slices_after_many_kills(short_folder):
    await kills(short_folder, seed=2, points=50)
