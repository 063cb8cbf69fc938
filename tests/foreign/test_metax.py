"""Pods that our scheduler binds to nodes that MetaX's device plugin serves."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until
from tests.foreign.handoff import lock, refused
from tests.foreign.metax import ALLOCATED, APP_CLASS, GPU, QOS, REGISTER, SGPU, VCORE, VMEMORY, MetaxPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)


def part(cores: int, memory: str | int, count: int = 1) -> dict[str, object]:
    """Limits of a container."""
    return {SGPU: count, VCORE: cores, VMEMORY: memory}


def annotated(pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """The pod with its QoS policy (``qos``) or app class (``app``)."""
    names = {"qos": QOS, "app": APP_CLASS}
    return {**pod, "metadata": {**pod["metadata"], "annotations": {names[k]: v for k, v in annotations.items()}}}


@asynccontextmanager
async def cluster(folder, **how: Any) -> AsyncIterator[tuple[ForeignStage, MetaxPlugin]]:
    """A cluster with one node, whose plugin does not run yet."""
    node = StageNode("n1", annotations={"example.com/plugin": "metax"})
    async with ForeignStage(folder, [node], ["metax"]) as stage, stage.api() as api:
        yield stage, MetaxPlugin(api, "n1", **how)


@asynccontextmanager
async def running(stage: ForeignStage, plugin: MetaxPlugin) -> AsyncIterator[None]:
    """Run the plugin until the end of the block."""
    async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
        await plugin.register()

        async def offered() -> bool:
            return (await stage.node("n1"))["status"]["allocatable"].get(plugin.offer.resource, "0") != "0"

        await until(offered)
        yield


@asynccontextmanager
async def served(folder, **how: Any) -> AsyncIterator[tuple[ForeignStage, MetaxPlugin]]:
    """A cluster with one node, which the plugin serves."""
    async with cluster(folder, **how) as (stage, plugin), running(stage, plugin):
        yield stage, plugin


async def unlocked(stage: ForeignStage) -> None:
    """Wait until the plugin has ended the lock."""

    async def free() -> bool:
        return await lock(stage) is None

    await until(free)


async def test_pods_made_at_once_get_the_sgpus_booked_for_them(short_folder):
    async with served(short_folder) as (stage, plugin):
        asked = {f"p{i}": (5 + i, 4 + i) for i in range(6)}
        for name, (cores, memory) in asked.items():
            await stage.submit(sleeper(name, part(cores, memory)))
        for name, (cores, memory) in asked.items():
            pod = await stage.wait_running(name)
            (made,) = [one for one in plugin.parts if one.pod == name]
            assert (made.compute, made.vram_mib) == (cores, memory * 1024)
            assert (await stage.container(name)).env["METAX_SGPUS"] == f"{made.card};{cores};{memory * 1024}"
            assert pod["metadata"]["annotations"][QOS] == "best-effort"
        assert plugin.refused == []
        await unlocked(stage)


async def test_each_container_gets_its_own_sgpus(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("three", part(10, "512Mi"), {"cpu": "10m"}, part(20, 8, count=2)))
        pod = await stage.wait_running("three")
        entries = json.loads(pod["metadata"]["annotations"][ALLOCATED])
        assert [[(e["compute"], e["vRam"]) for e in found] for found in entries] == [[(10, 512)], [], [(20, 8192)] * 2]
        for container in (0, 2):
            env = (await stage.container("three", f"c{container}")).env["METAX_SGPUS"]
            assert env == ",".join(f"{e['uuid']};{e['compute']};{e['vRam']}" for e in entries[container])
        assert plugin.refused == []
        await unlocked(stage)


async def test_a_card_never_gets_two_policies(short_folder):
    """The plugin reports a card's policy late. HAMi remembers it in the scheduler's memory, we in the pods."""
    async with served(short_folder, cards=1) as (stage, plugin):
        await stage.submit(annotated(sleeper("first", part(10, 4)), qos="fixed-share"))
        await stage.wait_running("first")
        await plugin.register(qosPolicy="burst-share")
        await refused(stage, annotated(sleeper("other", part(10, 4)), qos="burst-share"), "CardQosPolicyMismatch")
        await stage.submit(annotated(sleeper("same", part(10, 4)), qos="fixed-share"))
        await stage.wait_running("same")
        assert plugin.refused == []
        for name in ("first", "same"):
            await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})

        async def gone() -> bool:
            return set(await stage.pods()) == {"other"}

        await until(gone)
        await plugin.recycle()
        await stage.wait_running("other")
        assert [one.policy for one in plugin.parts] == ["burst-share"]


async def test_online_pods_run_beside_offline_ones(short_folder):
    async with served(short_folder, cards=1) as (stage, plugin):
        await stage.submit(annotated(sleeper("offline", part(100, 16)), app="offline"))
        await stage.wait_running("offline")
        await stage.submit(annotated(sleeper("online", part(100, 16)), app="online"))
        await stage.wait_running("online")
        assert [(one.compute, one.vram_mib) for one in plugin.parts] == [(100, 16384), (0, 16384)]
        await refused(stage, annotated(sleeper("late", part(5, 4)), app="offline"), "CardAppClassMismatch")
        await refused(stage, sleeper("plain", part(5, 4)), "CardAppClassMismatch")
        assert plugin.refused == []


async def test_a_failed_allocate_costs_its_own_pod_only(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.submit(sleeper("first", part(10, 60)))
        await stage.wait_running("first")
        lost = plugin.cards.pop(next(i for i, c in enumerate(plugin.cards) if c != plugin.parts[0].card))
        await stage.submit(sleeper("broken", part(10, 60)))

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        assert plugin.refused == [f"no card {lost} with a free sGPU"]
        await plugin.register()
        await stage.call("DELETE", "/api/v1/namespaces/default/pods/broken", {"gracePeriodSeconds": 0})
        await stage.submit(sleeper("next", part(10, 4)))
        await stage.wait_running("next")
        assert plugin.parts[-1].card == plugin.cards[0]


async def is_closed(stage: ForeignStage, pod: dict[str, Any]) -> bool:
    """Whether the scheduler has seen that the plugin is away."""
    async with stage.session.post(f"{stage.metrics_url}/explain", json=pod) as answer:
        return "the kubelet offers no" in await answer.text()


@pytest.mark.parametrize("mode", ["sgpu", "native"])
async def test_no_pods_come_while_the_plugin_is_away(short_folder, mode):
    """The register stays when the plugin stops. The kubelet then offers no devices."""
    limits = {"sgpu": part(10, 4), "native": {GPU: 1}}[mode]
    async with cluster(short_folder, mode=mode) as (stage, plugin):
        async with running(stage, plugin):
            await stage.submit(sleeper("first", limits))
            await stage.wait_running("first")
        await until(lambda: is_closed(stage, sleeper("asks", limits)))
        await refused(stage, sleeper("waits", limits), "CardNotHealth")
        await told(stage, "waits", "the kubelet offers no")
        async with running(stage, plugin):
            await stage.wait_running("waits")
        assert plugin.refused == []


async def test_wrong_registers_take_no_pods_until_mended(short_folder):
    async with served(short_folder) as (stage, plugin):
        await stage.annotate_node("n1", **{REGISTER: '[{"uuid": "a,b"}]'})
        await refused(stage, sleeper("waits", part(10, 4)), "n1")
        await plugin.register()
        await stage.wait_running("waits")
        assert plugin.refused == []


async def test_containers_get_whole_gpus_of_their_own(short_folder):
    async with served(short_folder, cards=4, mode="native") as (stage, _):
        await stage.submit(sleeper("whole", {GPU: 1}, {GPU: 2}))
        pod = await stage.wait_running("whole")
        assert [(await stage.container("whole", f"c{n}")).env["GPUS"] for n in range(2)] == ["1", "2"]
        text = pod["metadata"]["annotations"]["hami.io/metax-gpu-devices-allocated"]
        assert len({device.split(",")[0] for found in text.split(";") for device in found.split(":") if device}) == 3
        await refused(stage, sleeper("more", {GPU: 2}), "of n1's 4 cards 3 without a free slot")
        assert await lock(stage) is None, "HAMi takes no lock for whole GPUs"
