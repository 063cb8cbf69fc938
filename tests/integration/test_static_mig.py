"""MIG instances of an administrator on a whole cluster, offered through the scheduler and as resources of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import hami_gpusim as sim
import pytest
from hami_nvidia.demo.stage import GpuNode

from tests import mig_administrator
from tests.integration.bed import container, pod, seen
from tests.integration.mig import NODE, STAY, MigStage, gone, instance, refused, shown, until

SMALL, HALF = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


class PartitionedStage(MigStage):
    """An administrator turned on MIG mode of the node's first card, and made instances there.

    Attributes:
        wanted: Start of each instance and its profile.
        made: UUID of each instance by its start.
    """

    wanted: ClassVar[dict[int, str]] = {}

    def prepare(self) -> None:
        super().prepare()
        with sim.State(self.gpu_state(NODE)) as state:
            state.set_modes(0, mig=True)
        folder = self.gpu_state(NODE)
        self.made = {start: mig_administrator.make(folder, 0, name, start) for start, name in self.wanted.items()}

    async def allocatable(self) -> dict[str, str]:
        """What the kubelet offers of NVIDIA's resources."""
        node = await self.call("GET", f"/api/v1/nodes/{NODE}")
        return {key: value for key, value in node["status"]["allocatable"].items() if key.startswith("nvidia.com/")}

    async def sees(self, name: str, uuid: str) -> bool:
        """Whether the pod's program runs on exactly this MIG device."""
        got = await until(lambda: seen(self, name, "main"))
        # CUDA names a MIG device by its own UUID, and the program writes it as a card's.
        return [(one.partition("-")[2], size) for one, size in got] == [
            (uuid.partition("-")[2], self.mig_devices()[uuid])
        ]

    async def end(self, name: str) -> None:
        await self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        await until(lambda: gone(self, name))


def asking(resource: str) -> dict[str, Any]:
    """A container that asks for one native instance, and prints what it sees."""
    return {"name": "main", "image": "hami-probe", "command": STAY, "resources": {"limits": {resource: "1"}}}


class Three(PartitionedStage):
    wanted: ClassVar[dict[int, str]] = {0: "1g.10gb", 2: "2g.20gb", 4: "3g.40gb"}


@pytest.mark.timeout(600)
async def test_single_places_pods_on_the_administrators_instances(short_folder):
    env = {"HAMI_NVIDIA_MIG_STRATEGY": "single"}
    async with Three(short_folder / "s", [GpuNode(NODE, "a100", env=env)]) as stage:
        made = stage.made
        assert (await stage.allocatable())["nvidia.com/gpu"] == "3"
        for name, memory, start in (("a", 5000, 0), ("b", 5000, 2), ("c", 30000, 4)):
            await stage.submit(pod(name, [container("main", memory, command=STAY)]))
            await stage.wait_running(name)
            assert (await instance(stage, name))["migUUID"] == made[start]
            assert await stage.sees(name, made[start])
        await until(lambda: shown(stage, set(made.values())))

        await stage.submit(pod("d", [container("main", 15000, command=STAY)]))
        assert "without a free slot" in await until(lambda: refused(stage, "d"))
        assert "nodeName" not in (await stage.pods())["d"]["spec"]
        await stage.restart(f"agent:{NODE}")
        await stage.end("b")
        await stage.wait_running("d")
        assert (await instance(stage, "d"))["migUUID"] == made[2], "the instance stayed when its pod ended"
        await until(lambda: shown(stage, set(made.values())))
        assert not list(stage.gpu_state(NODE).parent.rglob("mig/[!.]*")), "the agent wrote down no instance of its own"
        for name in ("a", "c", "d"):
            await stage.end(name)
        assert stage.mig_devices().keys() == set(made.values())


class Four(PartitionedStage):
    wanted: ClassVar[dict[int, str]] = {0: "1g.10gb", 1: "1g.10gb", 4: "3g.40gb"}


@pytest.mark.timeout(600)
async def test_mixed_gives_instances_to_pods_of_any_scheduler(short_folder):
    env = {"HAMI_NVIDIA_MIG_STRATEGY": "mixed", "HAMI_HEALTH_INTERVAL": "0.5"}
    async with Four(short_folder / "x", [GpuNode(NODE, "a100x2", split=4, env=env)]) as stage:
        made = stage.made

        async def offered(**wanted: str) -> bool:
            return await stage.allocatable() == {"nvidia.com/gpu": "4", SMALL: wanted["small"], HALF: wanted["half"]}

        await until(lambda: offered(small="2", half="1"))
        for name, resource in (("a", SMALL), ("b", SMALL), ("c", HALF)):
            await stage.submit(pod(name, [asking(resource)]))
            found = await stage.wait_running(name)
            assert found["spec"]["schedulerName"] == "default-scheduler"
            assert not any("hami" in key for key in found["metadata"].get("annotations", {}))
        assert await stage.sees("c", made[4])
        assert [await stage.sees("a", made[at]) for at in (0, 1)] == [await stage.sees("b", made[at]) for at in (1, 0)]
        assert await stage.sees("a", made[0]) != await stage.sees("a", made[1])
        await stage.submit(pod("slice", [container("main", 3000, command=STAY)]))
        await stage.wait_running("slice")
        assert await until(lambda: seen(stage, "slice", "main")) == [(stage.devices()[NODE][1].uuid, 3000)]

        await stage.submit(pod("d", [asking(SMALL)]))
        assert f"Insufficient {SMALL}" in await until(lambda: refused(stage, "d"))
        await stage.restart(f"agent:{NODE}")
        await stage.end("c")
        mig_administrator.destroy(stage.gpu_state(NODE), 0, 4)
        await until(lambda: offered(small="2", half="0"))
        stage.made[5] = mig_administrator.make(stage.gpu_state(NODE), 0, "1g.10gb", 5)
        await stage.wait_running("d")
        assert await stage.sees("d", stage.made[5])
        assert not list(stage.gpu_state(NODE).parent.rglob("mig/[!.]*"))
