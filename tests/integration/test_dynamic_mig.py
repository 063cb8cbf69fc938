"""MIG instances on a whole cluster: webhook, scheduler, kubelet, agent, instance, and its end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from hami_interpose import sim
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import MIB, all_end, container, pod, seen

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = "gpu-1"
INSTANCES = "hami.io/vgpu-mig-allocations"
STAY = ["cuda-probe", "look", "600"]
CAPS = 138
"""Nodes of nvidia-caps for MIG as a whole and for the first card."""


class MigStage(GpuStage):
    """Its node also has the nodes of nvidia-caps, which nvidia-modprobe makes on a real one."""

    def prepare(self) -> None:
        super().prepare()
        folder = self.gpu_state(NODE) / "dev/nvidia-caps"
        folder.mkdir()
        for number in range(1, CAPS):
            (folder / f"nvidia-cap{number}").touch()

    def mig_devices(self) -> dict[str, int]:
        """Memory of each MIG device, MiB, by UUID, as the driver has them now."""
        with sim.State(self.gpu_state(NODE)) as state:
            return {device.uuid: device.memory_total // MIB for device in state.mig_devices}

    async def samples(self, name: str) -> list[str]:
        """The agent's samples of one metric."""
        address = self.parts[f"agent:{NODE}"].ready_url.replace("/readyz", "/metrics")
        async with aiohttp.ClientSession() as session, session.get(address) as answer:
            lines = (await answer.text()).splitlines()
        return [line for line in lines if line.startswith(f"{name}{{")]


async def until(what: Callable[[], Any], limit_s: float = 60) -> Any:
    """The first true answer of a function or coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while True:
        found = what()
        found = await found if asyncio.iscoroutine(found) else found
        if found:
            return found
        assert loop.time() < deadline, f"{what} stays {found}"
        await asyncio.sleep(0.1)


async def planned(stage: MigStage, name: str) -> dict[str, Any]:
    """What the pod's annotation says of its only instance. A pod may end before the ids are written."""
    annotations = (await stage.pods())[name]["metadata"]["annotations"]
    (entry,) = json.loads(annotations[INSTANCES])
    found: dict[str, Any] = entry
    return found


async def instance(stage: MigStage, name: str) -> dict[str, Any]:
    """The same, once the agent has added the ids."""

    async def told() -> dict[str, Any] | None:
        entry = await planned(stage, name)
        return entry if "migUUID" in entry else None

    found: dict[str, Any] = await until(told)
    return found


@pytest.mark.timeout(600)
async def test_the_place_of_an_ended_pod_is_used_again_after_a_restart(short_folder):
    nodes = [GpuNode(NODE, "a100", env={"HAMI_NVIDIA_OPERATING_MODE": "mig"})]
    async with MigStage(short_folder / "m", nodes) as stage:
        for name in ("a", "b"):
            await stage.submit(pod(name, [container("main", 9000, command=STAY)]))
            await stage.wait_running(name)
        first, second = await instance(stage, "a"), await instance(stage, "b")
        assert [one["placement"] for one in (first, second)] == [{"start": 6, "size": 1}, {"start": 5, "size": 1}]
        assert {one["profile"] for one in (first, second)} == {"1g.10gb"}
        assert {one["migUUID"] for one in (first, second)} == stage.mig_devices().keys()
        for name, one in (("a", first), ("b", second)):
            got = await until(lambda name=name: seen(stage, name, "main"))
            # CUDA names a MIG device by its own UUID, and the program writes it as a card's.
            assert [(uuid.partition("-")[2], size) for uuid, size in got] == [
                (one["migUUID"].partition("-")[2], stage.mig_devices()[one["migUUID"]])
            ]

        await stage.restart(f"agent:{NODE}")
        await stage.submit(pod("short", [container("main", 9000)]))
        assert not await all_end(stage, {"short"}, 60)
        ended = await planned(stage, "short")
        assert ended["placement"] == {"start": 4, "size": 1}
        await until(lambda: stage.mig_devices().keys() == {first["migUUID"], second["migUUID"]})
        await stage.call("DELETE", "/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
        await until(lambda: gone(stage, "a"))
        for name in ("c", "d"):
            await stage.submit(pod(name, [container("main", 9000, command=STAY)]))
            await stage.wait_running(name)
        third, fourth = await instance(stage, "c"), await instance(stage, "d")
        assert [one["placement"] for one in (third, fourth)] == [first["placement"], ended["placement"]]
        assert {one["migUUID"] for one in (second, third, fourth)} == stage.mig_devices().keys()
        assert await instance(stage, "b") == second, "its neighbour keeps its instance"
        await until(lambda: shown(stage, {second["migUUID"], third["migUUID"], fourth["migUUID"]}))

        await stage.submit(pod("big", [container("main", 70000)]))
        assert "container main needs 70000 MiB on one card" in await until(lambda: refused(stage, "big"))
        for name in ("b", "c", "d"):
            await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        assert not await all_end(stage, {"big"}, 120), "the whole card is free again"
        assert (await planned(stage, "big"))["profile"] == "7g.80gb"


async def gone(stage: MigStage, name: str) -> bool:
    """Whether a pod is deleted."""
    return name not in await stage.pods()


async def shown(stage: MigStage, uuids: set[str]) -> bool:
    """Whether the agent's metrics show exactly these instances."""
    lines = await stage.samples("hami_mig_device_info")
    return {line.partition('mig_uuid="')[2].partition('"')[0] for line in lines} == uuids


async def refused(stage: MigStage, name: str) -> str:
    """The pod's events, as one text."""
    return "\n".join(await stage.events(name))
