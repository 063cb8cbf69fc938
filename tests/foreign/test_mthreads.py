"""Pods that our scheduler binds to a node that Moore Threads' device plugin serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until
from tests.foreign.mthreads import CORE, INDEX, MEMORY, NODE, TIME, MthreadsPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VGPU = "mthreads.com/vgpu"

pytestmark = pytest.mark.timeout(180)


def part(memory: int | None = None, cores: int | None = None, count: int = 1) -> dict[str, object]:
    """Limits of a container."""
    return {VGPU: count} | ({MEMORY: memory} if memory else {}) | ({CORE: cores} if cores else {})


@asynccontextmanager
async def served(folder, cards: tuple[int, ...] = (0, 1)) -> AsyncIterator[tuple[ForeignStage, MthreadsPlugin]]:
    """A cluster with one node, which the plugin serves."""
    labels = {"mthreads.com/sgpu.cores": "-".join(map(str, cards))}
    node = StageNode("n1", annotations={"example.com/plugin": "mthreads"}, labels=labels)
    async with ForeignStage(folder, [node], ["mthreads"]) as stage, stage.api() as api:
        plugin = MthreadsPlugin(api, "n1", cards)
        async with registered(stage.cluster.node("n1").plugin_dir, plugin.offers):
            await until(lambda: offered(stage))
            yield stage, plugin


async def offered(stage: ForeignStage) -> bool:
    allocatable = (await stage.node("n1"))["status"]["allocatable"]
    return {CORE, MEMORY} <= {name for name, amount in allocatable.items() if amount != "0"}


async def check_given(stage: ForeignStage, name: str, *containers: str) -> list[str]:
    """The cards that a running pod was told, after checking that its containers have them."""
    pod = await stage.wait_running(name)
    annotations = pod["metadata"]["annotations"]
    assert annotations[NODE] == "n1"
    assert len(annotations[TIME]) == 19, "nanoseconds"
    booked = annotations["hami.io/mthreads-vgpu-devices-allocated"]
    cards: list[str] = annotations[INDEX].split(",")
    assert all(f"n1-mthreads-{card}," in booked for card in cards)
    for container in containers:
        got = await stage.container(name, container)
        assert got.env["MTHREADS_VISIBLE_DEVICES"] == annotations[INDEX]
    return cards


async def test_pods_get_the_cards_and_amounts_booked_for_them(short_folder):
    async with served(short_folder, cards=(0, 3)) as (stage, plugin):
        asked = {"a": (64, 8), "b": (32, 7), "c": (16, 5), "d": (8, 3)}  # the plugin tells pods apart by their amounts
        for name, amounts in asked.items():
            await stage.submit(sleeper(name, part(*amounts)))
        assert {card for name in asked for card in await check_given(stage, name, "c0")} == {"0", "3"}
        for name, (memory, cores) in asked.items():
            env = (await stage.container(name)).env
            wanted = {"MTHREADS_ALLOCATED_SGPU_MEMORY_DEVICES": memory, "MTHREADS_ALLOCATED_SGPU_CORE_DEVICES": cores}
            assert {key: int(env[key]) for key in wanted} == wanted
        assert plugin.refused == []


async def test_a_pod_with_a_count_alone_gets_whole_cards(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("two", part(count=2)))
        assert sorted(await check_given(stage, "two", "c0")) == ["0", "1"]
        pod = await stage.pod("two")
        assert pod["metadata"]["annotations"]["mthreads.com/request-gpu-num"] == "2"
        (limits,) = [container["resources"]["limits"] for container in pod["spec"]["containers"]]
        assert (limits[CORE], limits[MEMORY]) == ("32", "192")
        await stage.submit(sleeper("late", part(2, 1)))
        await told(stage, "late", "CardInsufficient")
        assert plugin.refused == []


async def test_containers_of_a_pod_share_one_card(short_folder):
    async with served(short_folder) as (stage, plugin):
        pod = sleeper("three", part(32, 4), {"cpu": "10m"}, part(16, 2))
        pod["spec"]["initContainers"] = [
            {"name": "setup", "image": "any", "command": ["true"], "resources": {"limits": part(8, 8)}}
        ]
        await stage.submit(pod)
        assert len(await check_given(stage, "three", "c0", "c2")) == 1
        assert "MTHREADS_VISIBLE_DEVICES" not in (await stage.container("three", "c1")).env
        await stage.submit(sleeper("large", part(64, 8), part(64, 4)))
        await told(stage, "large", "n1")
        await stage.submit(sleeper("mixed", part(count=2), part(2, 1)))
        await told(stage, "mixed", "all containers of a pod get the same card")
        assert plugin.refused == []


async def test_no_pod_is_bound_while_the_plugin_is_away(short_folder):
    node = StageNode("n1", annotations={"example.com/plugin": "mthreads"})
    async with ForeignStage(short_folder, [node], ["mthreads"]) as stage, stage.api() as api:
        plugin = MthreadsPlugin(api, "n1")
        folder = stage.cluster.node("n1").plugin_dir
        async with registered(folder, plugin.offers):
            await until(lambda: offered(stage))
            await stage.submit(sleeper("before", part(8, 1)))
            await check_given(stage, "before", "c0")

        async def gone() -> bool:
            return not await offered(stage)

        await until(gone)
        await stage.submit(sleeper("during", part(8, 1)))
        await told(stage, "during", "CardNotHealth")
        async with registered(folder, plugin.offers):
            await check_given(stage, "during", "c0")
        assert plugin.refused == []


async def test_wrong_amounts_are_denied_with_the_legal_ones(short_folder):
    async with served(short_folder) as (stage, plugin):
        for amounts, why in (
            (part(3, 1), "valid values are [2, 4, 8, 16, 32, 64, 96]"),
            (part(2, 17), "17 is above the 16 core groups of a card"),
            ({VGPU: 0}, "mthreads.com/vgpu must be greater than 0"),
            ({VGPU: 1, MEMORY: "16Gi"}, "has a unit"),
            ({VGPU: 1, "mthreads.com/gpu": 1}, "can't be mixed with mthreads.com/gpu"),
        ):
            pod: dict[str, Any] = sleeper("wrong", amounts)
            with pytest.raises(Exception, match=r"denied|admission") as denied:
                await stage.submit(pod)
            assert why in str(denied.value)
        await stage.submit(sleeper("many", part(count=3)))
        await told(stage, "many", "n1: has only 2 cards")
        assert plugin.refused == []
