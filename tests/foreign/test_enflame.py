"""Pods that our scheduler binds to a node that Enflame's own device plugin serves."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from hami_core.testing.stage import StageNode
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until
from tests.foreign.enflame import ASSIGNED, CAPACITY, CONTAINERS, RESOURCE, EnflamePlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)
MINORS = {"0": "4", "1": "5"}


@asynccontextmanager
async def served(folder) -> AsyncIterator[tuple[ForeignStage, EnflamePlugin, AsyncExitStack]]:
    """A cluster with one node, which the plugin serves until the stack is closed."""
    node = StageNode("n1", annotations={"example.com/plugin": "enflame"})
    async with ForeignStage(folder, [node], ["enflame"]) as stage, stage.api() as api, AsyncExitStack() as running:
        plugin = EnflamePlugin(api, "n1", MINORS)
        await plugin.register()
        await running.enter_async_context(registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]))
        await until(lambda: offered(stage, "12"))
        yield stage, plugin, running


async def offered(stage: ForeignStage, amount: str) -> bool:
    found: str = (await stage.node("n1"))["status"]["allocatable"].get(RESOURCE, "0")
    return found == amount


def records(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pod["metadata"]["annotations"][CONTAINERS])
    return found


async def test_pods_get_instances_on_the_gcu_booked_for_them(short_folder):
    async with served(short_folder) as (stage, plugin, _):
        asked = {"a": 6, "b": 3, "c": 1, "d": 1}
        for name, size in asked.items():
            await stage.submit(sleeper(name, {RESOURCE: size}))
            pod = await stage.wait_running(name)
            annotations = pod["metadata"]["annotations"]
            assert annotations[ASSIGNED] == "true"
            (record,) = records(pod).values()
            made = plugin.instances[record["instanceUUID"]]
            assert (record["request"], made.size) == (size, size)
            booked = annotations["hami.io/enflame-vgpu-devices-allocated"].partition(",")[0]
            assert booked == f"n1-enflame-drs-{made.index}"
            got = await stage.container(name)
            assert got.env["ENFLAME_VISIBLE_DEVICES"] == MINORS[made.index] == annotations[f"{ASSIGNED}-minor"]
            assert got.env["TOPS_VISIBLE_DEVICES"] == f"DRS-{record['instanceUUID']}"
        assert plugin.refused == []


async def test_containers_of_a_pod_get_instances_on_one_gcu(short_folder):
    async with served(short_folder) as (stage, plugin, _):
        await stage.submit(sleeper("pair", {RESOURCE: 3}, {"cpu": "10m"}, {RESOURCE: 1}))
        pod = await stage.wait_running("pair")
        assert {name: record["profileName"] for name, record in records(pod).items()} == {
            "c0": "3g.20gb",
            "c2": "1g.6gb",
        }
        assert len({one.index for one in plugin.instances.values()}) == 1
        assert pod["metadata"]["annotations"][ASSIGNED] == "true"
        assert plugin.refused == []


async def test_pods_beyond_the_plugin_are_refused_with_the_reason(short_folder):
    async with served(short_folder) as (stage, plugin, _):
        for name, limits, why in (
            ("size", {RESOURCE: 2}, "none has size 2; the node's profiles are 1g.6gb (1), 3g.20gb (3), 6g.40gb (6)"),
            ("memory", {"enflame.com/gcu-memory": 20480}, f"write {RESOURCE}: 3"),
        ):
            await stage.submit(sleeper(name, limits))
            await told(stage, name, why)
        assert plugin.refused == [], "the kubelet never asked the plugin"


async def test_a_node_without_its_plugin_gets_no_pods(short_folder):
    async with served(short_folder) as (stage, plugin, running):
        await running.aclose()
        await until(lambda: offered(stage, "0"))
        await stage.submit(sleeper("late", {RESOURCE: 1}))
        await told(stage, "late", f"the kubelet offers no {RESOURCE}")
        async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
            await stage.wait_running("late")


async def test_a_malformed_annotation_closes_the_node_until_it_is_mended(short_folder):
    async with served(short_folder) as (stage, plugin, _):
        await stage.annotate_node("n1", **{CAPACITY: '{"devices": [{"index": "0", "capacity": 0}]}'})
        await stage.submit(sleeper("waits", {RESOURCE: 1}))
        await told(stage, "waits", "n1")
        await plugin.register()
        await stage.wait_running("waits")
