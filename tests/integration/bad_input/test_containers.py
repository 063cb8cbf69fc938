"""What a running container's files can be turned into: its own loss only, and the agent says so."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from hami_interpose.region import REGION_SIZE

from tests.integration.bad_input.scene import OUT_OF_MEMORY, tenant, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

NODE = "gpu-1"  # where the neighbour lives


async def moved_in(scene, name: str) -> Path:
    """A steady tenant beside the neighbour; the folder of its record."""
    await scene.stage.submit(tenant(name, 3000, NODE))
    await scene.lasting(name, 0)
    uid = (await scene.stage.pods())[name]["metadata"]["uid"]
    (folder,) = (scene.stage.work / NODE / "state" / "containers").glob(f"{uid}_*")
    return folder


def put(path: Path, content: bytes) -> None:
    """Replace a file as its writer would."""
    fresh = path.with_name(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


async def test_a_limits_file_that_cannot_be_used_denies_until_it_can(well):
    limits = await moved_in(well, "limited") / "limits" / "limits"
    good = limits.read_bytes()
    for bad in (b"", b"\x00\xff" * 1000, good[:-9], good.replace(b"enforce", b"off "), good + b"end\n", b"a" * 70_000):
        put(limits, bad)
        await well.lasting("limited", OUT_OF_MEMORY)
        put(limits, good)
        await well.lasting("limited", 0)
    limits.unlink()
    await well.lasting("limited", OUT_OF_MEMORY)
    limits.mkdir()
    await well.lasting("limited", OUT_OF_MEMORY)

    async def told() -> list[str]:
        return await well.metrics(f"agent:{NODE}", "hami_vgpu_last_denial_time_seconds", 'pod="limited"', "limits f")

    await until("the agent says why allocations are denied", told)
    limits.rmdir()
    put(limits, good)
    await well.lasting("limited", 0)
    await well.delete("limited")


@pytest.mark.parametrize("damage", ["truncated", "foreign", "zeros", "ones", "swapped"])
async def test_a_damaged_region_harms_its_own_container_alone_and_is_reported(well, damage):
    region = await moved_in(well, "damaged") / "region" / "vgpu.cache"
    noise = random.Random(damage).randbytes(REGION_SIZE)
    if damage == "truncated":
        os.truncate(region, 1000)
    elif damage == "swapped":
        put(region, noise)
    else:
        content = {"foreign": noise, "zeros": bytes(REGION_SIZE), "ones": b"\xff" * REGION_SIZE}[damage]
        with region.open("r+b") as file:
            file.write(content)

    async def told() -> list[str]:
        return await well.metrics(f"agent:{NODE}", "hami_vgpu_region_unreadable", 'pod="damaged"')

    await until("the agent names the container", told)
    await well.logged(f"agent:{NODE}", "a container's region can't be read")
    assert await well.metrics(f"agent:{NODE}", "hami_vgpu_memory_used_bytes", 'pod="neighbour"')

    async def moves_or_has_ended() -> bool:
        return (await well.stage.pods())["damaged"]["status"]["phase"] == "Failed" or bool(await well.tries("damaged"))

    await until("the container goes on or ends, and does not hang", moves_or_has_ended)
    await well.delete("damaged")
