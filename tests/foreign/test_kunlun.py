"""Pods that our scheduler binds to nodes that the plugins of Kunlunxin and RiseUnion serve."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until
from tests.foreign.handoff import finished
from tests.foreign.kunlun import CARD, HALF, INDEXES, QUARTER, VISIBLE, VMEMORY, VXPU, XPU, VxpuPlugin, XpuPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)


@asynccontextmanager
async def served(folder, kind: type[Any]) -> AsyncIterator[tuple[ForeignStage, Any, AsyncExitStack]]:
    """A cluster with one node, which the plugin serves until the stack is closed."""
    node = StageNode("n1", annotations={"example.com/plugin": "kunlun"}, labels={"xpu": "on"})
    async with ForeignStage(folder, [node], ["kunlun"]) as stage, stage.api() as api, AsyncExitStack() as running:
        plugin = kind(api, "n1")
        await running.enter_async_context(registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]))
        if kind is VxpuPlugin:
            await plugin.register()

        async def offered() -> bool:
            return (await stage.node("n1"))["status"]["allocatable"].get(plugin.offer.resource, "0") != "0"

        await until(offered)
        yield stage, plugin, running


def part(memory: int, count: int = 1) -> dict[str, object]:
    """Limits of a container with parts of cards."""
    return {VXPU: count, VMEMORY: memory}


async def visible(stage: ForeignStage, pod: str, container: str = "c0") -> str:
    found: str = (await stage.container(pod, container)).env[VISIBLE]
    return found


async def test_whole_cards_reach_the_container_by_their_indexes(short_folder):
    async with served(short_folder, XpuPlugin) as (stage, plugin, _):
        for name, count in {"four": 4, "one": 1, "two": 2}.items():
            await stage.submit(sleeper(name, {"cpu": "10m"}, {XPU: count}))
            pod = await stage.wait_running(name)
            indexes = pod["metadata"]["annotations"][INDEXES]
            assert await visible(stage, name, "c1") == indexes
        assert plugin.given == {"four": [0, 1, 2, 3], "one": [4], "two": [5, 6]}
        assert plugin.refused == []


async def test_pods_made_at_once_get_different_whole_cards(short_folder):
    async with served(short_folder, XpuPlugin) as (stage, plugin, _):
        for i in range(4):
            await stage.submit(sleeper(f"p{i}", {XPU: 2}))
        for i in range(4):
            await stage.wait_running(f"p{i}")
        assert sorted(card for cards in plugin.given.values() for card in cards) == list(range(8))
        assert plugin.refused == []
        await stage.empty()
        await stage.submit(sleeper("all", {XPU: 8}))
        await stage.wait_running("all")
        assert await visible(stage, "all") == "0,1,2,3,4,5,6,7"


async def test_pods_that_the_xpu_plugin_cannot_serve_are_refused(short_folder):
    async with served(short_folder, XpuPlugin) as (stage, plugin, _):
        await stage.submit(sleeper("both", {XPU: 1}, {XPU: 1}))
        await told(stage, "both", f"{INDEXES} holds the cards of one container of a pod")
        await stage.submit(sleeper("four", {XPU: 4}))
        await stage.wait_running("four")
        await stage.submit(sleeper("eight", {XPU: 8}))
        await told(stage, "eight", "CardInsufficientMemory")
        assert plugin.refused == [], "the kubelet never asked the plugin"


async def test_parts_of_cards_reach_their_containers(short_folder):
    async with served(short_folder, VxpuPlugin) as (stage, _, _):
        await stage.submit(sleeper("mixed", part(QUARTER), {"cpu": "10m"}, part(30000), part(QUARTER, 2)))
        await finished(stage, "mixed")
        got = [await visible(stage, "mixed", container) for container in ("c0", "c2", "c3")]
        assert got == [f"0:{QUARTER}", f"1:{HALF}", f"0:{QUARTER},2:{QUARTER}"]
        await stage.submit(sleeper("whole", {VXPU: 2}))
        await finished(stage, "whole")
        assert (await visible(stage, "whole")).count(f":{CARD}") == 2
        annotations = (await stage.node("n1"))["metadata"]["annotations"]
        assert keys.NODE_LOCK not in annotations


async def test_pods_made_at_once_get_the_parts_booked_for_them(short_folder):
    async with served(short_folder, VxpuPlugin) as (stage, plugin, _):
        asked = {f"p{i}": size for i, size in enumerate((QUARTER, HALF, QUARTER, HALF, QUARTER, CARD))}
        for name, memory in asked.items():
            await stage.submit(sleeper(name, part(memory)))
        for name, memory in asked.items():
            await finished(stage, name)
            assert (await visible(stage, name)).endswith(f":{memory}")
        assert sorted(size for sizes in plugin.parts.values() for size in sizes) == sorted(asked.values())


async def test_no_more_parts_are_given_than_the_driver_has_handles(short_folder):
    async with served(short_folder, VxpuPlugin) as (stage, plugin, _):
        for i in range(3):
            await stage.submit(sleeper(f"p{i}", part(QUARTER, 8)))
            await finished(stage, f"p{i}")
        await stage.submit(sleeper("more", part(QUARTER)))
        await told(stage, "more", "the driver has 32 handles, 8 for the cards and 24 for parts")
        assert sum(map(len, plugin.parts.values())) == 24


@pytest.mark.parametrize(("kind", "resource"), [(XpuPlugin, XPU), (VxpuPlugin, VXPU)])
async def test_pods_wait_while_their_plugin_is_away(short_folder, kind, resource):
    async with served(short_folder, kind) as (stage, plugin, running):
        await running.aclose()

        async def withdrawn() -> bool:
            return (await stage.node("n1"))["status"]["allocatable"].get(resource, "0") == "0"

        await until(withdrawn)
        await stage.submit(sleeper("late", {resource: 1}))
        await told(stage, "late", f"the kubelet offers no {resource}")
        async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
            await stage.wait_running("late")


async def test_a_vxpu_that_cannot_be_made_costs_its_own_pod_only(short_folder):
    async with served(short_folder, VxpuPlugin) as (stage, plugin, _):
        plugin.broken.add("broken")
        await stage.submit(sleeper("broken", part(QUARTER)))

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        await stage.submit(sleeper("next", part(HALF)))
        await finished(stage, "next")
        assert await visible(stage, "next") == f"0:{HALF}"
