"""Pods that our scheduler binds to nodes that HAMi's DCU plugin or Hygon's HCU plugin serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.foreign.device_plugin import ForeignStage, sleeper
from tests.foreign.handoff import NODE, failed, finished, lock, offering, one_node, refused
from tests.foreign.hygon import COMPUTE_UNITS, DcuPlugin, HcuPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Plugin = TypeVar("Plugin", DcuPlugin, HcuPlugin)

pytestmark = pytest.mark.timeout(180)


def part(stem: str, num: int = 1, **amounts: int) -> dict[str, object]:
    """Limits of a container."""
    return {f"hygon.com/{stem}num": num} | {f"hygon.com/{stem}{name}": value for name, value in amounts.items()}


@asynccontextmanager
async def served(folder: Path, kind: type[Plugin]) -> AsyncIterator[tuple[ForeignStage, Plugin]]:
    """A cluster with one node, which the plugin serves."""
    async with one_node(folder, "hygon") as stage, stage.api() as api:
        plugin = kind(api, NODE)
        async with offering(stage, [plugin.offer]):
            await plugin.register()
            yield stage, plugin


async def test_vdcus_have_the_booked_memory_and_their_own_units(short_folder):
    async with served(short_folder, DcuPlugin) as (stage, plugin):
        asked = {"a": (4096, 25), "b": (30000, 40), "c": (1, 1), "d": (60000, 60), "e": (2000, 35)}
        for name, (memory, cores) in asked.items():
            await stage.submit(sleeper(name, part("dcu", mem=memory, cores=cores)))
        for name, (memory, cores) in asked.items():
            uid = (await finished(stage, name))["metadata"]["uid"]
            (made,) = [vdev for vdev in plugin.vdevs.made if uid in vdev.folder]
            assert made.facts["mem"] == f"{memory} MiB"
            units = cores * COMPUTE_UNITS // 100
            assert made.facts["cu_count"] == str(units) == str(sum(mask.bit_count() for mask in made.masks))
            env = (await stage.container(name)).env
            assert (env["DRI"], env["VDEV"]) == (f"card{made.card}", made.folder)
        for one, other in combinations(plugin.vdevs.made, 2):
            assert one.card != other.card or not any(x & y for x, y in zip(one.masks, other.masks, strict=True))
        assert plugin.refused == []
        assert await lock(stage) is None

        await stage.empty()
        plugin.vdevs.remove_all_but([])
        await stage.submit(sleeper("whole", part("dcu")))
        await finished(stage, "whole")
        assert plugin.vdevs.made == [], "a whole card needs no vDCU"


async def test_each_container_of_a_pod_gets_its_own_dcu(short_folder):
    async with served(short_folder, DcuPlugin) as (stage, plugin):
        first = {"name": "first", "image": "any", "command": ["true"], "resources": {"limits": part("dcu", mem=50000)}}
        pod = sleeper("mixed", {"cpu": "10m"}, part("dcu", mem=2000, cores=20), part("dcu"), initContainers=[first])
        await stage.submit(pod)
        found = await finished(stage, "mixed")
        texts = found["metadata"]["annotations"]["hami.io/dcu-devices-allocated"].split(";")
        assert [bool(text) for text in texts] == [True, False, True, True, False]
        for name, text in (("c1", texts[2]), ("c2", texts[3])):
            got = await stage.container("mixed", name)
            assert got.env["DRI"] == f"card{text.removeprefix('DCU-').split(',')[0]}"
        assert [vdev.facts["mem"] for vdev in plugin.vdevs.made] == ["50000 MiB", "2000 MiB"]
        assert set(found["metadata"]["annotations"][plugin.to_allocate]) == {";"}, "the plugin has consumed it"
        assert await lock(stage) is None


async def test_a_container_with_two_dcus_gets_both_whole(short_folder):
    async with served(short_folder, DcuPlugin) as (stage, plugin):
        await stage.submit(sleeper("two", part("dcu", num=2)))
        await finished(stage, "two")
        assert set((await stage.container("two")).env["DRI"].split(",")) == {"card0", "card1"}
        await refused(stage, sleeper("late", part("dcu", mem=1000, cores=1)), "CardInsufficientMemory")
        assert plugin.vdevs.made == []


async def test_dcu_pods_that_fit_nowhere_are_told_why(short_folder):
    async with served(short_folder, DcuPlugin) as (stage, plugin):
        for pod, why in (
            (sleeper("large", part("dcu", mem=65521)), "CardInsufficientMemory"),
            (sleeper("many", part("dcu", num=3)), "n1: has only 2 cards"),
            (sleeper("hcu", part("hcu")), "n1"),
        ):
            await refused(stage, pod, why)
        for key, value, why in (
            ("hygon.com/use-dcutype", "Z100", "model DCU-K100_AI; the pod takes Z100"),
            ("hygon.com/nouse-gpuuuid", "DCU-0,DCU-1", "CardUuidMismatch"),
        ):
            pod = sleeper(f"chooser-{len(key)}", part("dcu", mem=1000))
            pod["metadata"]["annotations"] = {key: value}
            await refused(stage, pod, why)
        assert plugin.refused == [], "the kubelet never asked the plugin"


async def test_a_failed_allocate_of_a_dcu_costs_its_own_pod_only(short_folder):
    async with served(short_folder, DcuPlugin) as (stage, plugin):
        plugin.broken.add("broken")
        await stage.submit(sleeper("broken", part("dcu", mem=1000)))
        await failed(stage, "broken")
        await stage.submit(sleeper("next", part("dcu", mem=1000)))
        await finished(stage, "next")
        assert await lock(stage) is None


async def test_a_dcu_pod_waits_while_the_plugin_is_away(short_folder):
    async with one_node(short_folder, "hygon") as stage, stage.api() as api:
        plugin = DcuPlugin(api, NODE)
        async with offering(stage, [plugin.offer]):
            await plugin.register()
            await stage.submit(sleeper("before", part("dcu", mem=1000)))
            await finished(stage, "before")
        await refused(stage, sleeper("meanwhile", part("dcu", mem=1000)), "the kubelet offers no hygon.com/dcunum")
        async with offering(stage, [plugin.offer]):
            await finished(stage, "meanwhile")


async def test_hcu_pods_get_vhcus_and_keep_running(short_folder):
    async with served(short_folder, HcuPlugin) as (stage, plugin):
        await stage.submit(sleeper("pair", part("hcu", mem=4096, cores=25), {"cpu": "10m"}, part("hcu", mem=2000)))
        await finished(stage, "pair")
        assert (await stage.container("pair", "c0")).env["VHCU"] == "30 units, 4096 MiB"
        assert (await stage.container("pair", "c2")).env["VHCU"] == "120 units, 2000 MiB"
        (marks,) = plugin.marks.values()
        assert [mark.split("_")[0] for mark in marks] == ["c0", "c2"]
        await stage.empty()
        plugin.marks.clear()
        for name, limits in (
            ("whole", part("hcu", mem=65520)),
            ("part", part("hcu", mem=65519, cores=10)),
        ):
            await stage.submit(sleeper(name, limits))
            await finished(stage, name)
        assert await plugin.unmarked() == []
        assert plugin.refused == []
        assert await lock(stage) is None


async def test_hcu_pods_that_the_plugin_would_delete_stay_pending(short_folder):
    async with served(short_folder, HcuPlugin) as (stage, plugin):
        await refused(stage, sleeper("two", part("hcu", num=2, mem=4096)), "does not give a part of several HCUs")
        await refused(stage, sleeper("slow", part("hcu", mem=65520, cores=50)), "all memory without all")
        await stage.submit(sleeper("both", part("hcu", num=2)))
        await finished(stage, "both")
        assert await plugin.unmarked() == []
        assert plugin.refused == []


async def test_hygons_plugin_fails_an_hcu_pod_with_an_init_container(short_folder):
    """The plugin looks the number of a container, init containers included, up in ``spec.containers``."""
    async with served(short_folder, HcuPlugin) as (stage, plugin):
        first = {"name": "first", "image": "any", "command": ["true"]}
        await stage.submit(sleeper("set-up", part("hcu", mem=1000), initContainers=[first]))
        await failed(stage, "set-up")
        assert plugin.refused == ["invalid container index 1"]
        await stage.submit(sleeper("next", part("hcu", mem=1000)))
        await finished(stage, "next")
