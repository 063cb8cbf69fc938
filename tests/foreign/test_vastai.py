"""Pods that our scheduler binds to nodes that HAMi's Vastai device plugin serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until
from tests.foreign.vastai import ALLOCATED, REGISTER, RESOURCE, TO_ALLOCATE, VastaiPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)


@asynccontextmanager
async def served(folder, **how: Any) -> AsyncIterator[tuple[ForeignStage, VastaiPlugin]]:
    """A cluster with one node, which the plugin serves."""
    async with cluster(folder) as stage, stage.api() as api:
        plugin = VastaiPlugin(api, "n1", **how)
        async with running(stage, plugin):
            yield stage, plugin


def cluster(folder) -> ForeignStage:
    return ForeignStage(folder, [StageNode("n1", annotations={"example.com/plugin": "vastai"})], ["vastai"])


@asynccontextmanager
async def running(stage: ForeignStage, plugin: VastaiPlugin) -> AsyncIterator[None]:
    """The plugin, until the kubelet offers its devices and then until the end of the block."""
    async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
        await plugin.register()
        await until(lambda: offered(stage))
        yield


async def offered(stage: ForeignStage) -> bool:
    return (await stage.node("n1"))["status"]["allocatable"].get(RESOURCE, "0") != "0"


async def given(stage: ForeignStage, name: str, container: str = "c0") -> list[str]:
    """The devices of a container of a pod that the plugin has finished. They are those in the pod's annotation."""

    async def done() -> bool:
        return (await stage.pod(name))["metadata"]["annotations"].get(keys.BIND_PHASE) == "success"

    await stage.wait_running(name)
    await until(done)
    annotations = (await stage.pod(name))["metadata"]["annotations"]
    assert set(annotations[TO_ALLOCATE]) <= {";"}, "the plugin has consumed it"
    devices = (await stage.container(name, container)).env["VASTAI_VISIBLE_DEVICES"].split(",")
    booked = annotations[ALLOCATED].split(";")[int(container[1:])]
    assert booked == "".join(f"{device},Vastai,0,0:" for device in devices), "as HAMi writes it: without memory"
    return devices


async def unlocked(stage: ForeignStage) -> bool:
    return keys.NODE_LOCK not in (await stage.node("n1"))["metadata"].get("annotations", {})


def mutex(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": "mutex"}
    return pod


async def test_pods_made_at_once_get_the_cards_booked_for_them(short_folder):
    async with served(short_folder, cards=(1, 1, 1, 1)) as (stage, _):
        counts = {"a": 1, "b": 2, "c": 1}
        for name, count in counts.items():
            await stage.submit(sleeper(name, {RESOURCE: count}))
        devices = [device for name in counts for device in await given(stage, name)]
        assert sorted(devices) == ["0-0", "1-0", "2-0", "3-0"]
        assert await unlocked(stage)
        await stage.submit(sleeper("late", {RESOURCE: 1}))
        await told(stage, "late", "CardTimeSlicingExhausted")


@pytest.mark.parametrize("early", [False, True])
async def test_each_container_of_a_pod_gets_its_own_cards(short_folder, early):
    async with served(short_folder, cards=(1, 1, 1), early=early) as (stage, _):
        await stage.submit(sleeper("pair", {RESOURCE: 1}, {"cpu": "10m"}, {RESOURCE: 2}))
        devices = await given(stage, "pair") + await given(stage, "pair", "c2")
        assert sorted(devices) == ["0-0", "1-0", "2-0"]
        assert "VASTAI_VISIBLE_DEVICES" not in (await stage.container("pair", "c1")).env
        await until(lambda: unlocked(stage))


async def test_dies_of_a_pod_are_on_one_card(short_folder):
    async with served(short_folder, cards=(2, 3), die=True) as (stage, _):
        await stage.submit(sleeper("two", {RESOURCE: 2}))
        assert {device[0] for device in await given(stage, "two")} == {"1"}
        await stage.submit(sleeper("more", {RESOURCE: 2}))
        assert {device[0] for device in await given(stage, "more")} == {"0"}
        await stage.submit(mutex(sleeper("alone", {RESOURCE: 1})))
        await told(stage, "alone", "ExclusiveDeviceAllocateConflict")


async def test_no_pod_is_bound_while_the_plugin_is_away(short_folder):
    """The register stays when the plugin stops."""
    async with cluster(short_folder) as stage, stage.api() as api:
        plugin = VastaiPlugin(api, "n1")
        async with running(stage, plugin):
            await stage.submit(sleeper("before", {RESOURCE: 1}))
            await given(stage, "before")

        async def gone() -> bool:
            return not await offered(stage)

        await until(gone)
        assert REGISTER in (await stage.node("n1"))["metadata"]["annotations"]
        await stage.submit(sleeper("during", {RESOURCE: 1}))
        await told(stage, "during", "CardNotHealth")
        async with running(stage, plugin):
            await given(stage, "during")


async def test_a_failed_allocate_costs_its_own_pod_only(short_folder):
    async with served(short_folder) as (stage, plugin):
        plugin.broken.add("broken")
        await stage.submit(sleeper("broken", {RESOURCE: 1}))

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        await stage.submit(sleeper("next", {RESOURCE: 2}))
        assert len(await given(stage, "next")) == 2
        await until(lambda: unlocked(stage))


async def test_a_malformed_register_closes_its_node(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("before", {RESOURCE: 1}))
        await given(stage, "before")
        await stage.annotate_node("n1", **{REGISTER: "7-0,1,16384"})
        await stage.submit(sleeper("during", {RESOURCE: 1}))
        await told(stage, "during", "n1")
        await plugin.register()
        await given(stage, "during")
