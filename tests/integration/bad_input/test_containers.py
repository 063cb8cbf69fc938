"""Damage to a running container's files harms only that container, and the agent reports it."""

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

NODE = "gpu-1"  # the neighbour's node


async def start_tenant(scene, name: str) -> Path:
    """Start a tenant beside the neighbour. Returns the folder of its record."""
    await scene.stage.submit(tenant(name, 3000, NODE))
    await scene.wait_for_result(name, 0)
    uid = (await scene.stage.pods())[name]["metadata"]["uid"]
    (folder,) = (scene.stage.work / NODE / "state" / "containers").glob(f"{uid}_*")
    return folder


def put(path: Path, content: bytes) -> None:
    """Replace a file by a rename, as its writer does."""
    fresh = path.with_name(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


async def test_unusable_limits_file_denies_memory_until_repaired(checked_scene):
    limits = await start_tenant(checked_scene, "limited") / "limits" / "limits"
    good = limits.read_bytes()
    for bad in (b"", b"\x00\xff" * 1000, good[:-9], good.replace(b"enforce", b"off "), good + b"end\n", b"a" * 70_000):
        put(limits, bad)
        await checked_scene.wait_for_result("limited", OUT_OF_MEMORY)
        put(limits, good)
        await checked_scene.wait_for_result("limited", 0)
    limits.unlink()
    await checked_scene.wait_for_result("limited", OUT_OF_MEMORY)
    limits.mkdir()
    await checked_scene.wait_for_result("limited", OUT_OF_MEMORY)

    async def told() -> list[str]:
        return await checked_scene.metrics(
            f"agent:{NODE}", "hami_vgpu_last_denial_time_seconds", 'pod="limited"', "limits f"
        )

    await until("the agent's metric of denials", told)
    limits.rmdir()
    put(limits, good)
    await checked_scene.wait_for_result("limited", 0)
    await checked_scene.delete("limited")


@pytest.mark.parametrize("damage", ["truncated", "foreign", "zeros", "ones", "swapped"])
async def test_damaged_region_harms_only_its_container_and_is_reported(checked_scene, damage):
    region = await start_tenant(checked_scene, "damaged") / "region" / "vgpu.cache"
    noise = random.Random(damage).randbytes(REGION_SIZE)
    if damage == "truncated":
        os.truncate(region, 1000)
    elif damage == "swapped":
        put(region, noise)
    else:
        content = {"foreign": noise, "zeros": bytes(REGION_SIZE), "ones": b"\xff" * REGION_SIZE}[damage]
        with region.open("r+b") as file:
            file.write(content)

    async def has_ended() -> bool:
        return (await checked_scene.stage.pods())["damaged"]["status"]["phase"] == "Failed"

    async def told() -> bool:
        # The record of an ended container goes, and its metrics with it. The pod's status then reports the damage.
        found = await checked_scene.metrics(f"agent:{NODE}", "hami_vgpu_region_unreadable", 'pod="damaged"')
        return bool(found) or await has_ended()

    await until("the agent's metric of unreadable regions, or the container's end", told)
    if not await has_ended():
        await checked_scene.wait_for_log(f"agent:{NODE}", "skipping a container's unusable region")
    assert await checked_scene.metrics(f"agent:{NODE}", "hami_vgpu_memory_used_bytes", 'pod="neighbour"')

    async def moves_or_has_ended() -> bool:
        return await has_ended() or bool(await checked_scene.tries("damaged"))

    await until("the container continues or ends, and does not hang", moves_or_has_ended)
    await checked_scene.delete("damaged")
