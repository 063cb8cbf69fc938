"""Pods that our scheduler binds to a node that Iluvatar's gpu-manager serves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.foreign.device_plugin import ForeignStage, sleeper
from tests.foreign.handoff import NODE, failed, finished, lock, offering, one_node, refused
from tests.foreign.iluvatar import GpuManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)


def part(num: int = 1, *, chip: str = "BI-V150", mem: int = 0, cores: int = 0) -> dict[str, object]:
    """Limits of a container."""
    amounts = {f"iluvatar.ai/{chip}.vMem": mem, f"iluvatar.ai/{chip}.vCore": cores}
    return {f"iluvatar.ai/{chip}-vgpu": num, **{name: amount for name, amount in amounts.items() if amount}}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[ForeignStage, GpuManager]]:
    """A cluster with one node, which the gpu-manager serves."""
    async with one_node(folder, "iluvatar") as stage, stage.api() as api:
        manager = GpuManager(api, NODE)
        async with offering(stage, manager.offers):
            await manager.register()
            yield stage, manager


async def test_pods_get_what_is_booked_and_what_the_kubelet_counts(short_folder):
    async with served(short_folder) as (stage, manager):
        asked = {"a": (16, 25), "b": (64, 40), "c": (100, 10), "d": (1, 1)}
        for name, (memory, cores) in asked.items():
            await stage.submit(sleeper(name, part(mem=memory, cores=cores)))
        for name, (memory, cores) in asked.items():
            found = await finished(stage, name)
            gpu = found["metadata"]["annotations"]["hami.io/BI-V150-devices-allocated"].split(",")[0]
            env = (await stage.container(name)).env
            assert (env["GPUS"], env["PARTS"]) == (gpu, f"{memory * 256}/{cores}")
            assert env["SOL_CONTINER_NAME"] == "c0"
        assert manager.counted == {manager.count: 4, manager.memory: 181, manager.cores: 76}
        assert await lock(stage) is None


async def test_each_container_of_a_pod_gets_its_own_gpu(short_folder):
    async with served(short_folder) as (stage, manager):
        first = {"name": "first", "image": "any", "command": ["true"], "resources": {"limits": part(mem=8)}}
        pod = sleeper("mixed", {"cpu": "10m"}, part(mem=100, cores=80), part(mem=50, cores=30), initContainers=[first])
        pod["spec"]["containers"][1]["env"] = [{"name": "SOL_CONTINER_NAME", "value": "c2"}]
        await stage.submit(pod)
        found = await finished(stage, "mixed")
        texts = found["metadata"]["annotations"]["hami.io/BI-V150-devices-allocated"].split(";")
        assert [bool(text) for text in texts] == [True, False, True, True, False]
        for name, text in (("c1", texts[2]), ("c2", texts[3])):
            env = (await stage.container("mixed", name)).env
            assert env["GPUS"] == text.split(",")[0]
            assert env["SOL_CONTINER_NAME"] == name, "a container can't pass for another"
        assert set(found["metadata"]["annotations"][manager.to_allocate]) == {";"}, "the gpu-manager has consumed it"
        assert await lock(stage) is None


async def test_two_gpus_are_given_whole_and_counted_with_all_cores(short_folder):
    async with served(short_folder) as (stage, manager):
        await stage.submit(sleeper("two", part(2)))
        found = await finished(stage, "two")
        assert found["spec"]["containers"][0]["resources"]["limits"][manager.cores] == "200"
        assert len(set((await stage.container("two")).env["GPUS"].split(","))) == 2
        assert manager.counted == {manager.count: 2, manager.cores: 200}
        await refused(stage, sleeper("late", part(mem=1)), "CardInsufficientMemory")


async def test_gpu_pods_that_fit_nowhere_are_told_why(short_folder):
    async with served(short_folder) as (stage, manager):
        other = sleeper("other", part(mem=8))
        other["metadata"]["annotations"] = {"hami.io/use-BI-V150-uuid": "GPU-9"}
        for pod, why in (
            (sleeper("large", part(mem=129)), "CardInsufficientMemory"),
            (sleeper("many", part(3)), "n1: has only 2 cards"),
            (sleeper("chip", part(chip="MR-V100")), "n1"),
            (other, "CardUuidMismatch"),
        ):
            await refused(stage, pod, why)
        assert not manager.counted, "the kubelet never asked the gpu-manager"


async def test_a_failed_allocate_of_a_gpu_costs_its_own_pod_only(short_folder):
    async with served(short_folder) as (stage, manager):
        manager.broken.add("broken")
        await stage.submit(sleeper("broken", part(mem=8, cores=10)))
        await failed(stage, "broken")
        await stage.submit(sleeper("next", part(mem=8, cores=10)))
        await finished(stage, "next")
        assert await lock(stage) is None


async def test_a_gpu_pod_waits_while_the_gpu_manager_is_away(short_folder):
    async with one_node(short_folder, "iluvatar") as stage, stage.api() as api:
        manager = GpuManager(api, NODE)
        async with offering(stage, manager.offers):
            await manager.register()
        await refused(stage, sleeper("early", part(mem=8)), f"the kubelet offers no {manager.count}")
        async with offering(stage, manager.offers):
            await finished(stage, "early")
