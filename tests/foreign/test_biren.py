"""Pods that our scheduler binds to a node that HAMi's Biren device plugin serves."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.biren import ALLOCATED, COUNT, TO_ALLOCATE, BirenPlugin
from tests.foreign.device_plugin import ForeignStage, registered, sleeper, told, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(180)

BOTH_VERSIONS = pytest.mark.parametrize("consumes", [ALLOCATED, TO_ALLOCATE])
KEPT = "hami.io/Biren-devices-kept-allocated"


@asynccontextmanager
async def served(folder, consumes: str) -> AsyncIterator[tuple[ForeignStage, BirenPlugin]]:
    """A cluster with one node of four cards, which the plugin serves."""
    node = StageNode("n1", annotations={"example.com/plugin": "biren"})
    async with ForeignStage(folder, [node], ["biren"]) as stage, stage.api() as api:
        plugin = BirenPlugin(api, "n1", consumes)
        async with registered(stage.cluster.node("n1").plugin_dir, [plugin.offer]):
            await plugin.register()

            async def offered() -> bool:
                return (await stage.node("n1"))["status"]["allocatable"].get(COUNT) == "4"

            await until(offered)
            yield stage, plugin


def cards(text: str) -> list[list[str]]:
    """The cards in a list, by container."""
    return [[device.split(",")[0] for device in piece.split(":") if device] for piece in text.split(";")[:-1]]


async def annotations(stage: ForeignStage, name: str) -> dict[str, str]:
    """The annotations of a running pod whose lock the plugin has removed."""

    async def unlocked() -> bool:
        return keys.NODE_LOCK not in (await stage.node("n1"))["metadata"]["annotations"]

    await stage.wait_running(name)
    await until(unlocked)
    found: dict[str, str] = (await stage.pod(name))["metadata"]["annotations"]
    return found


async def metrics(stage: ForeignStage, name: str) -> list[float]:
    """The values of one of the scheduler's metrics."""
    async with stage.session.get(stage.parts["scheduler"].ready_url.replace("/readyz", "/metrics")) as answer:
        found = re.findall(rf"^{name}{{.*}} (\S+)$", await answer.text(), re.MULTILINE)
    return [float(value) for value in found]


async def counted(stage: ForeignStage, amount: int) -> None:
    """The scheduler counts so many cards as used, and finds each signature to be its own."""

    async def as_told() -> bool:
        used = await metrics(stage, "hami_gpu_shared_count")
        return (len(used), sum(used)) == (4, amount)

    await until(as_told)
    assert set(await metrics(stage, "hami_scheduler_allocations_in_doubt")) == {0.0}


@BOTH_VERSIONS
async def test_served_cards_stay_counted_after_a_restart(short_folder, consumes):
    async with served(short_folder, consumes) as (stage, plugin):
        await stage.submit(sleeper("three", {COUNT: 3}))
        found = await annotations(stage, "three")
        assert cards(found[consumes]) == [[]], "the plugin has consumed it"
        (booked,) = cards(found[KEPT])
        assert (await stage.container("three")).env["BR_PHY_CARDS"].split(",") == booked
        await stage.submit(sleeper("two", {COUNT: 2}))
        await told(stage, "two", "CardTimeSlicingExhausted")
        await counted(stage, 3)

        await stage.restart("scheduler")
        await counted(stage, 3)
        await stage.submit(sleeper("again", {COUNT: 2}))
        await told(stage, "again", "CardTimeSlicingExhausted")
        await stage.submit(sleeper("one", {COUNT: 1}))
        await annotations(stage, "one")
        (last,) = (await stage.container("one")).env["BR_PHY_CARDS"].split(",")
        assert last not in booked
        assert plugin.refused == []


@BOTH_VERSIONS
async def test_each_container_gets_the_cards_booked_for_it(short_folder, consumes):
    async with served(short_folder, consumes) as (stage, plugin):
        await stage.submit(sleeper("pair", {"cpu": "10m"}, {COUNT: 1}, {COUNT: 2}))
        await stage.submit(sleeper("other", {COUNT: 1}))
        found = await annotations(stage, "pair")
        nothing, first, second = cards(found[KEPT])
        assert (nothing, len(first), len(second)) == ([], 1, 2)
        assert (await stage.container("pair", "c1")).env["BR_PHY_CARDS"].split(",") == first
        assert (await stage.container("pair", "c2")).env["BR_PHY_CARDS"].split(",") == second
        (last,) = cards((await annotations(stage, "other"))[KEPT])
        assert (await stage.container("other")).env["BR_PHY_CARDS"].split(",") == last
        await counted(stage, 4)
        await stage.empty()
        await counted(stage, 0)
        assert plugin.refused == []


async def test_pods_learn_that_the_plugin_is_away(short_folder):
    node = StageNode("n1", annotations={"example.com/plugin": "biren"})
    async with ForeignStage(short_folder, [node], ["biren"]) as stage, stage.api() as api:
        await BirenPlugin(api, "n1", ALLOCATED).register()
        await stage.submit(sleeper("early", {COUNT: 1}))
        await told(stage, "early", f"4 not offered: the kubelet offers no {COUNT}")


async def test_unknown_card_fails_its_own_pod_only(short_folder):
    """A card that the driver lost since the plugin registered it."""
    async with served(short_folder, ALLOCATED) as (stage, plugin):
        plugin.lost.add("card_3")
        broken = sleeper("broken", {COUNT: 1})
        broken["metadata"]["annotations"] = {"birentech.com/use-gpuuuid": "card_3"}
        await stage.submit(broken)

        async def failed() -> bool:
            return (await stage.pod("broken"))["status"].get("phase") == "Failed"

        await until(failed)
        assert plugin.refused == ["invalid allocation request: unknown device card_3"]
        other = sleeper("next", {COUNT: 1})
        other["metadata"]["annotations"] = {"birentech.com/nouse-gpuuuid": "card_3"}
        await stage.submit(other)
        await stage.wait_running("next")
        assert len(plugin.refused) == 1, "the plugin left the lock to the pod that failed, and it was taken over"
