"""Pods that our scheduler binds to a node that AWS's Neuron device plugin serves."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from hami_core.testing.stage import StageNode
from tests.foreign.awsneuron import ALLOCATED, CORE, IDS, NEURON, NeuronPlugin
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)
DEVICES, CORES = "AWS_NEURON_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES"


@asynccontextmanager
async def served(
    folder, instance_type: str, devices: int, cores: int = 2
) -> AsyncIterator[tuple[ForeignStage, NeuronPlugin, AsyncExitStack]]:
    """A cluster with one node, which the plugin serves until the stack is closed."""
    labels = {"node.kubernetes.io/instance-type": instance_type}
    node = StageNode("n1", annotations={"example.com/plugin": "neuron"}, labels=labels)
    async with ForeignStage(folder, [node], ["awsneuron"]) as stage, stage.api() as api, AsyncExitStack() as running:
        plugin = NeuronPlugin(api, "n1", devices, cores)
        await running.enter_async_context(registered(stage.cluster.node("n1").plugin_dir, plugin.offers))
        await until(lambda: offered(stage, str(devices * cores)))
        yield stage, plugin, running


async def offered(stage: ForeignStage, cores: str) -> bool:
    found: str = (await stage.node("n1"))["status"]["allocatable"].get(CORE, "0")
    return found == cores


async def got(stage: ForeignStage, name: str, variable: str, container: str = "c0") -> str:
    """What a running pod's container sees."""
    await stage.wait_running(name)
    text: str = (await stage.container(name, container)).env[variable]
    return text


async def test_pods_get_the_devices_and_cores_booked_for_them(short_folder):
    async with served(short_folder, "inf2.24xlarge", 6) as (stage, plugin, _):
        await stage.submit(sleeper("three", {NEURON: 3}))
        assert await got(stage, "three", DEVICES) == "0,1,2"
        await stage.submit(sleeper("four", {CORE: 4}))
        assert await got(stage, "four", CORES) == "6,7,8,9"
        for name, core in (("one", "10"), ("other", "11")):
            await stage.submit(sleeper(name, {CORE: 1}))
            assert await got(stage, name, CORES) == core
        assert all(pod["metadata"]["annotations"][ALLOCATED] == "true" for pod in (await stage.pods()).values())
        await stage.submit(sleeper("late", {CORE: 1}))
        await told(stage, "late", "n1")
        assert plugin.refused == []


async def test_containers_of_a_pod_get_ids_in_their_order(short_folder):
    async with served(short_folder, "inf1.6xlarge", 4, cores=4) as (stage, plugin, _):
        await stage.submit(sleeper("pair", {CORE: 2}, {"cpu": "10m"}, {CORE: 1}))
        first = await got(stage, "pair", CORES)
        second = await got(stage, "pair", CORES, "c2")
        listed = (await stage.pod("pair"))["metadata"]["annotations"][IDS]
        assert f"{first},{second}" == listed
        device = int(first.partition(",")[0])
        assert (device % 4, first) == (0, f"{device},{device + 1}"), "devices have 4 cores here"
        assert plugin.refused == []


async def test_pods_beyond_the_instance_are_refused_with_the_reason(short_folder):
    async with served(short_folder, "trn1.32xlarge", 16) as (stage, plugin, _):
        await stage.submit(sleeper("two", {NEURON: 2}))
        await told(stage, "two", "instance type trn1.32xlarge gives 1, 4, 8, 16 devices to a container, not 2")
        await stage.submit(sleeper("eight", {NEURON: 8}))
        assert await got(stage, "eight", DEVICES) == "0,1,2,3,4,5,6,7"
        assert plugin.refused == []


async def test_a_node_without_its_plugin_gets_no_pods(short_folder):
    async with served(short_folder, "inf2.xlarge", 1) as (stage, plugin, running):
        await running.aclose()
        await until(lambda: offered(stage, "0"))
        await stage.submit(sleeper("late", {CORE: 1}))
        await told(stage, "late", f"the kubelet offers no {NEURON}")
        async with registered(stage.cluster.node("n1").plugin_dir, plugin.offers):
            assert await got(stage, "late", CORES) == "0"


async def test_devices_and_cores_in_one_pod_are_not_bound(short_folder):
    async with served(short_folder, "inf2.24xlarge", 6) as (stage, plugin, _):
        await stage.submit(sleeper("mixed", {NEURON: 1}, {CORE: 1}))
        await told(stage, "mixed", "AWS's plugin reads one list")
        assert plugin.refused == []
