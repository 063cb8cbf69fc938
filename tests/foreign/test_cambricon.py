"""Pods that our scheduler binds to a node that Cambricon's own device plugin serves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from hami_core.testing.stage import StageNode
from tests.foreign.cambricon import ASSIGNED, INSTANCE, LOCK, PROFILE, VCORE, VMEMORY, CambriconPlugin
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, until
from tests.foreign.handoff import refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VMLU = "cambricon.com/vmlu"

pytestmark = pytest.mark.timeout(180)


def part(memory: int | None, cores: int | None = None, count: int = 1) -> dict[str, object]:
    """Limits of a container."""
    return {VMLU: count} | ({VMEMORY: memory} if memory else {}) | ({VCORE: cores} if cores else {})


@asynccontextmanager
async def served(folder) -> AsyncIterator[tuple[ForeignStage, CambriconPlugin]]:
    """A cluster with one node, which the plugin serves."""
    node = StageNode("n1", annotations={"example.com/plugin": "cambricon"}, labels={"Model": "MLU370-X8"})
    async with ForeignStage(folder, [node], ["cambricon"]) as stage, stage.api() as api:
        plugin = CambriconPlugin(api, "n1")
        async with registered(stage.cluster.node("n1").plugin_dir, plugin.offers):

            async def offered() -> bool:
                return (await stage.node("n1"))["status"]["capacity"].get(VMEMORY) == "192"

            await until(offered)
            yield stage, plugin


async def lock(stage: ForeignStage) -> str | None:
    found: str | None = (await stage.node("n1"))["metadata"].get("annotations", {}).get(LOCK)
    return found


async def lock_as_old(stage: ForeignStage, seconds: float) -> None:
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    await stage.annotate_node("n1", **{LOCK: then.strftime("%Y-%m-%dT%H:%M:%SZ")})


async def test_pods_get_their_own_parts_and_end_the_lock(short_folder):
    async with served(short_folder) as (stage, plugin):
        asked = {f"p{i}": (i + 1, 5 + i) for i in range(8)}
        for name, (memory, cores) in asked.items():
            await stage.submit(sleeper(name, part(memory, cores)))
        for name, (memory, cores) in asked.items():
            pod = await stage.wait_running(name)
            made = plugin.instances[name]
            assert (made.memory_mib, made.cores) == (memory * 256, cores)
            annotations = pod["metadata"]["annotations"]
            assert annotations[PROFILE] == f"{made.slot}_{cores}_{memory}"
            assert annotations[ASSIGNED] == "true"
            assert annotations[INSTANCE].endswith(f"_{made.slot}_{made.number}")
            got = await stage.container(name)
            assert got.env["VIRTUAL_DEVICES"].endswith(f"cap_dev{made.slot}_mi{made.number}")
        assert plugin.refused == []
        assert await lock(stage) is None

        await stage.empty()
        await plugin.recycle()
        await stage.submit(sleeper("memory-only", part(96)))
        await stage.wait_running("memory-only")
        assert plugin.instances["memory-only"].cores == 100, "admission wrote the cores, so the plugin finished"
        assert await lock(stage) is None


async def test_a_second_pod_waits_for_the_lock(short_folder):
    async with served(short_folder) as (stage, plugin):
        plugin.gate.clear()
        await stage.submit(sleeper("first", part(8, 10)))
        await until(lambda: lock(stage))
        taken = datetime.fromisoformat(await lock(stage) or "")
        assert datetime.now(UTC) - taken < timedelta(seconds=30), "a bare time in RFC 3339 form"
        await stage.submit(sleeper("second", part(16, 10)))
        await asyncio.sleep(2)
        assert "nodeName" not in (await stage.pod("second"))["spec"]
        plugin.gate.set()
        for name in ("first", "second"):
            await stage.wait_running(name)
        assert [one.memory_mib for one in plugin.instances.values()] == [2048, 4096]
        assert plugin.refused == []


async def test_a_lock_left_behind_ends_after_two_minutes(short_folder):
    async with served(short_folder) as (stage, plugin):
        await lock_as_old(stage, seconds=60)
        await stage.submit(sleeper("early", part(8, 10)))
        await asyncio.sleep(2)
        assert "nodeName" not in (await stage.pod("early"))["spec"]
        await lock_as_old(stage, seconds=130)
        await stage.wait_running("early")
        assert plugin.refused == []
        assert await lock(stage) is None


async def test_a_pod_that_never_got_its_part_costs_no_other(short_folder):
    async with served(short_folder) as (stage, plugin):
        plugin.gate.clear()
        await stage.submit(sleeper("stuck", part(8, 10)))
        await until(lambda: lock(stage))
        await stage.call("DELETE", "/api/v1/namespaces/default/pods/stuck", {"gracePeriodSeconds": 0})
        await lock_as_old(stage, seconds=130)
        plugin.gate.set()
        await stage.submit(sleeper("next", part(16, 10)))
        await stage.wait_running("next")
        assert plugin.instances["next"].memory_mib == 4096


async def test_pods_beyond_the_plugin_are_refused_with_the_reason(short_folder):
    async with served(short_folder) as (stage, plugin):
        for pod, why in (
            (sleeper("two", part(8, 10), part(8, 10)), "serves one container of a pod, and 2 ask for MLUs"),
            (sleeper("cards", part(8, 10, count=2)), "gives a pod one MLU, and the container asks for 2"),
            (sleeper("whole", part(None)), f"gives a container no MLU without {VMEMORY}"),
            (sleeper("large", part(97, 10)), "CardInsufficientMemory"),
            (sleeper("many", part(8, 10, count=3)), "n1: has only 2 cards"),
        ):
            await refused(stage, pod, why)
        other = sleeper("model", part(8, 10))
        other["metadata"]["annotations"] = {"cambricon.com/use-mlutype": "MLU590"}
        await refused(stage, other, "model MLU370-X8; the pod takes MLU590")
        assert plugin.refused == [], "the kubelet never asked the plugin"
        fits = sleeper("fits", part(8, 10))
        fits["metadata"]["annotations"] = {"cambricon.com/use-mlutype": "MLU370"}
        await stage.submit(fits)
        await stage.wait_running("fits")
