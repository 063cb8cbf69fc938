"""Pods that our scheduler binds to a node that HAMi's Ascend device plugin serves."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.ascend import CORES, MEMORY, RESOURCE, TO_ALLOCATE, WORD, AscendPlugin
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, until
from tests.foreign.handoff import finished, lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)
SIZES = {16384: "vir05_1c_16g", 32768: "vir10_3c_32g"}


@asynccontextmanager
async def served(folder, **how: Any) -> AsyncIterator[tuple[ForeignStage, AscendPlugin]]:
    """A cluster with one node, which the plugin serves."""
    node = StageNode("n1", annotations={"example.com/plugin": "ascend"})
    async with ForeignStage(folder, [node], ["ascend"]) as stage, stage.api() as api:
        plugin = AscendPlugin(api, "n1", **how)
        async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
            await plugin.register()

            async def offered() -> bool:
                return (await stage.node("n1"))["status"]["capacity"].get(RESOURCE) is not None

            await until(offered)
            yield stage, plugin


def booked(pod: dict[str, Any], container: int = 0) -> list[list[str]]:
    """The devices of a container: uuid, type, MiB, cores."""
    text = pod["metadata"]["annotations"][f"hami.io/{WORD}-devices-allocated"].split(";")[container]
    return [device.split(",") for device in text.split(":") if device]


async def test_pods_made_at_once_get_the_vnpus_booked_for_them(short_folder):
    async with served(short_folder) as (stage, _):
        asked = {"a": 16384, "b": 30000, "c": 1000, "d": 32768}
        for name, memory in asked.items():
            await stage.submit(sleeper(name, {RESOURCE: 1, MEMORY: memory}))
        for name in asked:
            pod = await finished(stage, name)
            ((uuid, _, memory, _),) = booked(pod)
            got = await stage.container(name)
            assert got.env["ASCEND_VISIBLE_DEVICES"] == uuid[-1]
            assert got.env["ASCEND_VNPU_SPECS"] == SIZES[int(memory)]
            (entry,) = json.loads(pod["metadata"]["annotations"][RESOURCE])
            assert (entry["UUID"], entry["temp"]) == (uuid, SIZES[int(memory)])
            assert set(pod["metadata"]["annotations"][TO_ALLOCATE]) == {";"}, "the plugin has consumed it"
        assert await lock(stage) is None


async def test_each_container_of_a_pod_gets_its_own_npu(short_folder):
    async with served(short_folder) as (stage, _):
        await stage.submit(sleeper("pair", {RESOURCE: 1}, {"cpu": "10m"}, {RESOURCE: 1}))
        pod = await finished(stage, "pair")
        for container in (0, 2):
            ((uuid, _, memory, _),) = booked(pod, container)
            got = await stage.container("pair", f"c{container}")
            assert got.env["ASCEND_VISIBLE_DEVICES"] == uuid[-1]
            assert got.env["ASCEND_VNPU_SPECS"] == "", "a whole NPU"
            assert memory == "65536"
        assert await lock(stage) is None


async def test_no_pod_is_bound_between_the_calls_for_another(short_folder):
    """The plugin ends the lock after the first container. A pod that takes it then would lose its NPU to the second."""
    async with served(short_folder) as (stage, plugin):
        plugin.gates[1] = asyncio.Event()
        await stage.submit(sleeper("pair", {RESOURCE: 1}, {RESOURCE: 1, MEMORY: 16384}))

        async def first_done() -> bool:
            found = (await stage.pod("pair"))["metadata"].get("annotations", {})
            return found.get(keys.BIND_PHASE) == "success" and await lock(stage) is None

        await until(first_done)
        await stage.submit(sleeper("late", {RESOURCE: 1, MEMORY: 32768}))
        await asyncio.sleep(2)
        assert "nodeName" not in (await stage.pod("late"))["spec"]
        plugin.gates[1].set()
        assert booked(await finished(stage, "late"))[0][2] == "32768"
        assert (await stage.container("late")).env["ASCEND_VNPU_SPECS"] == SIZES[32768]
        await stage.wait_running("pair")
        assert (await stage.container("pair", "c1")).env["ASCEND_VNPU_SPECS"] == SIZES[16384]


async def test_soft_split_pods_get_their_memory_and_cores(short_folder):
    async with served(short_folder, soft=True) as (stage, _):
        pod = sleeper("soft", {RESOURCE: 1, MEMORY: 5000, CORES: 30})
        pod["metadata"]["annotations"] = {"huawei.com/vnpu-mode": "hami-core"}
        await stage.submit(pod)
        await finished(stage, "soft")
        env = (await stage.container("soft")).env
        assert (env["NPU_MEM_QUOTA"], env["NPU_PRIORITY"]) == ("5000", "30")


async def test_a_failed_allocate_costs_its_own_pod_only(short_folder):
    async with served(short_folder) as (stage, plugin):
        plugin.broken.add("broken")
        await stage.submit(sleeper("broken", {RESOURCE: 1, MEMORY: 16384}))

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        assert (await stage.pod("broken"))["metadata"]["annotations"][keys.BIND_PHASE] == "failed"
        await stage.submit(sleeper("next", {RESOURCE: 1, MEMORY: 16384}))
        await finished(stage, "next")
        assert await lock(stage) is None
