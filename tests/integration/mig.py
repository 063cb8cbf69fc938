"""Shared by the integration tests of MIG: a node in MIG mode, and what pods and metrics say of its instances."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import hami_gpusim as sim
from hami_nvidia.demo.stage import GpuStage

from tests.integration.bed import MIB

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
