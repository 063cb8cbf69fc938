"""Pods that our scheduler binds to a node that HAMi's AMD device plugin serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.amd import (
    ALLOCATED,
    CORES,
    COUNT,
    MEMORY,
    MEMORY_MIB,
    MODEL,
    REGISTER,
    TO_ALLOCATE,
    UNITS,
    UNITS_KEY,
    AmdPlugin,
    members,
)
from tests.foreign.device_plugin import ForeignStage, Offer, registered, sleeper, told, until
from tests.foreign.handoff import finished, lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)

SEVERAL = {"amd": {"severalContainers": True}}


@asynccontextmanager
async def served(folder, device_config: Any = (), **how: Any) -> AsyncIterator[tuple[ForeignStage, AmdPlugin]]:
    """A cluster with one node, which the plugin serves."""
    stage = ForeignStage(
        folder, [StageNode("n1", annotations={"example.com/plugin": "amd"})], ["amd"], device_config=dict(device_config)
    )
    async with stage, stage.api() as api:
        plugin = AmdPlugin(api, "n1", **how)
        async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
            await plugin.register()
            await until(lambda: offered(stage, str(10 * how.get("cards", 2))))
            yield stage, plugin


async def offered(stage: ForeignStage, amount: str) -> bool:
    return bool((await stage.node("n1"))["status"]["allocatable"].get(COUNT) == amount)


def booked(pod: dict[str, Any], container: int = 0) -> list[list[str]]:
    """The devices of a container: uuid, type, MiB, compute units."""
    text = pod["metadata"]["annotations"][ALLOCATED].split(";")[container]
    return [device.split(",") for device in text.split(":") if device]


async def test_pods_share_a_gpu_by_memory_and_compute_units(short_folder):
    async with served(short_folder, cards=1) as (stage, plugin):
        asked = {"a": (4096, 25), "b": (8192, 50), "c": (1000, 1), "d": (512, 24)}
        for name, (memory, cores) in asked.items():
            await stage.submit(sleeper(name, {COUNT: 1, MEMORY: memory, CORES: cores}))
        given: list[int] = []
        for name, (memory, cores) in asked.items():
            pod = await finished(stage, name)
            ((_, model, mib, units),) = booked(pod)
            assert (model, mib, units) == (MODEL, str(memory), str(UNITS * cores // 100))
            env = (await stage.container(name)).env
            assert env["HIP_DEVICE_MEMORY_LIMIT"] == f"{memory}m"
            mask = members(env["HSA_CU_MASK"].removeprefix("0:"))
            assert len(mask) == int(units)
            given += mask
            assert "," not in pod["metadata"]["annotations"][TO_ALLOCATE], "the plugin has consumed it"
        assert len(given) == len(set(given)), "no compute unit is given twice"
        assert plugin.refused == []
        assert await lock(stage) is None
        await stage.submit(sleeper("late", {COUNT: 1, MEMORY: 512, CORES: 2}))
        await told(stage, "late", "the least busy has 0 % of its cores free")


async def test_whole_gpus_go_to_the_one_container_that_asks(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("pair", {"cpu": "10m"}, {COUNT: 2}, {"cpu": "10m"}))
        pod = await finished(stage, "pair")
        assert [device[2:] for device in booked(pod, 1)] == [[str(MEMORY_MIB), str(UNITS)]] * 2
        env = (await stage.container("pair", "c1")).env
        assert sorted(env["ROCR_VISIBLE_DEVICES"].split(",")) == ["GPU-0", "GPU-1"]
        assert env["HSA_CU_MASK"] == f"0:0-{UNITS - 1};1:0-{UNITS - 1}"
        assert (plugin.refused, await lock(stage)) == ([], None)


async def test_pod_with_two_gpu_containers_is_told_why_it_waits(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("two", {COUNT: 1, MEMORY: 10}, {COUNT: 1, MEMORY: 10}))
        await told(stage, "two", "serves one container of a pod, and 2 ask for GPUs")
        assert plugin.refused == [], "the kubelet never asked the plugin"


async def test_mended_plugin_serves_each_container_under_the_lock(short_folder):
    async with served(short_folder, SEVERAL, mended=True) as (stage, plugin):
        await stage.submit(sleeper("two", {COUNT: 1, MEMORY: 10, CORES: 10}, {COUNT: 1, MEMORY: 20, CORES: 20}))
        await stage.submit(sleeper("other", {COUNT: 1, MEMORY: 30, CORES: 30}))
        pod = await finished(stage, "two")
        await finished(stage, "other")
        for position, name in enumerate(("c0", "c1")):
            ((_, _, mib, units),) = booked(pod, position)
            env = (await stage.container("two", name)).env
            assert env["HIP_DEVICE_MEMORY_LIMIT"] == f"{mib}m"
            assert len(members(env["HSA_CU_MASK"].removeprefix("0:"))) == int(units)
        assert (await stage.container("other")).env["HIP_DEVICE_MEMORY_LIMIT"] == "30m"
        assert (plugin.refused, await lock(stage)) == ([], None)


async def test_plugin_as_it_is_loses_a_second_container(short_folder):
    """Why the setting is off: the kubelet rejects the pod. The next pod gets what was booked for it."""
    async with served(short_folder, SEVERAL) as (stage, plugin):
        await stage.submit(sleeper("two", {COUNT: 1, MEMORY: 10, CORES: 10}, {COUNT: 1, MEMORY: 20, CORES: 20}))

        async def rejected() -> bool:
            return (await stage.pod("two"))["status"].get("phase") == "Failed"

        await until(rejected)
        assert plugin.refused == ["no binding pod found on node n1"]
        await stage.submit(sleeper("next", {COUNT: 1, MEMORY: 30, CORES: 30}))
        await finished(stage, "next")
        assert (await stage.container("next")).env["HIP_DEVICE_MEMORY_LIMIT"] == "30m"
        assert await lock(stage) is None


async def test_a_failed_allocate_costs_its_own_pod_only(short_folder):
    async with served(short_folder) as (stage, plugin):
        plugin.broken.add("broken")
        await stage.submit(sleeper("broken", {COUNT: 1, MEMORY: 1000}))

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        found = (await stage.pod("broken"))["metadata"]["annotations"]
        assert found[keys.BIND_PHASE] == "failed"
        assert UNITS_KEY not in found
        await stage.submit(sleeper("next", {COUNT: 1, MEMORY: 1000, CORES: 100}))
        await finished(stage, "next")
        assert await lock(stage) is None


async def test_pod_for_gpus_of_amds_own_plugin_is_told_why(short_folder):
    """AMD's ROCm plugin offers whole GPUs under the same name. Its nodes have no register."""

    async def whole(ids: int) -> dict[str, str]:
        return {"GPUS": str(ids)}

    async with (
        ForeignStage(short_folder, [StageNode("n1", annotations={"example.com/plugin": "rocm"})], ["amd"]) as stage,
        registered(stage.cluster.node("n1").plugin_dir, [Offer(COUNT, ["gpu-0", "gpu-1"], whole)]),
    ):
        await until(lambda: offered(stage, "2"))
        await stage.submit(sleeper("whole", {COUNT: 1}))
        await told(stage, "whole", f"2 not offered: the node annotation {REGISTER} is missing")
        await told(stage, "whole", "another plugin than HAMi's amd-device-plugin serves the node")
