"""Two nodes with simulated NPUs on the embedded cluster, where the test plays Ascend's container runtime."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hami_ascend import sim
from hami_ascend.dcmi import Dcmi

from hami_core.testing import Stage, StageNode

pytestmark = pytest.mark.timeout(240)

MIB, TEMPLATE = 16384, "vir05_1c_16g"


@pytest.fixture
def folder():
    """A folder with a path that is short enough for unix sockets."""
    made = Path(tempfile.mkdtemp(prefix="hami-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def pod(name: str, node: str, mib: int = MIB) -> dict[str, object]:
    limits = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": str(mib)}
    container = {"name": "main", "image": "any", "command": ["sleep", "600"], "resources": {"limits": limits}}
    spec = {"restartPolicy": "Never", "nodeSelector": {"npu": node}, "containers": [container]}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}


def vnpus(npus: Path) -> dict[int, str]:
    return {int(path.name): path.read_text().split()[0] for path in npus.glob("card*/device*/vnpu/*")}


async def until(condition, limit_s: float = 40.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.1)


async def follow(stage, old: str, new: str) -> dict[str, str]:
    """Delete a pod and run another one on its node. Then the kubelet forgets the devices of the deleted pod.

    Returns:
        The environment of the new pod's container.
    """
    node = (await stage.pods())[old]["spec"]["nodeName"]
    await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{old}")
    while old in await stage.pods():
        await asyncio.sleep(0.1)
    await stage.submit(pod(new, node, 65536 if new == "whole" else MIB))
    await stage.wait_running(new)
    return (await stage.container(new)).env


async def test_vnpus_are_given_and_freed_in_both_ways(folder, monkeypatch):
    npus = {name: folder / name for name in ("npu-1", "npu-2")}
    env = {name: sim.create(path, cards=2, first_die=1 + 16 * i) for i, (name, path) in enumerate(npus.items())}
    for each in env.values():
        each["HAMI_ASCEND_LOOK_INTERVAL_S"] = "1"
    env["npu-2"]["HAMI_ASCEND_VNPU_CREATOR"] = "agent"
    nodes = [StageNode(name, env=env[name], labels={"npu": name}) for name in npus]
    async with Stage(folder / "s", nodes, vendors=["ascend"]) as stage:
        # npu-1: the runtime makes the vNPU, and dies before it destroys it.
        await stage.submit(pod("one", "npu-1"))
        await stage.wait_running("one")
        got = (await stage.container("one")).env
        assert got["ASCEND_VNPU_SPECS"] == TEMPLATE
        monkeypatch.setenv("HAMI_DCMI_SIM", str(npus["npu-1"]))
        driver = Dcmi(lambda: [env["npu-1"]["HAMI_ASCEND_DCMI_LIBRARY"]])
        card = next(c for c in driver.cards()[0] if str(c.phy_id) == got["ASCEND_VISIBLE_DEVICES"])
        vdev_id = driver.create(card, got["ASCEND_VNPU_SPECS"])
        file = npus["npu-1"] / f"card{card.card_id}/device0/vnpu/{vdev_id}"
        file.write_text(f"{TEMPLATE}\n1\n")
        file.write_text(f"{TEMPLATE}\n0\n")
        await follow(stage, "one", "whole")
        await until(lambda: not vnpus(npus["npu-1"]))

        # npu-2: the agent makes it, adopts it after a crash, and destroys it.
        await stage.submit(pod("two", "npu-2"))
        await stage.wait_running("two")
        got = (await stage.container("two")).env
        assert got["ASCEND_RUNTIME_OPTIONS"] == "VIRTUAL"
        assert vnpus(npus["npu-2"]) == {int(got["ASCEND_VISIBLE_DEVICES"]): TEMPLATE}
        await stage.restart("agent:npu-2")
        assert vnpus(npus["npu-2"]) == {int(got["ASCEND_VISIBLE_DEVICES"]): TEMPLATE}
        got = await follow(stage, "two", "three")
        await until(lambda: vnpus(npus["npu-2"]) == {int(got["ASCEND_VISIBLE_DEVICES"]): TEMPLATE})


async def test_npu_that_fails_and_recovers_is_offered_again(folder):
    env = sim.create(folder / "npus", cards=1)
    async with Stage(
        folder / "s", [StageNode("a", env=env)], vendors=["ascend"], agent=["--health-interval=1"]
    ) as stage:

        async def allocatable() -> str:
            node = await stage.call("GET", "/api/v1/nodes/a")
            return node["status"]["allocatable"]["huawei.com/Ascend910B3"]

        async def becomes(count: str) -> None:
            async with asyncio.timeout(40):
                while await allocatable() != count:
                    await asyncio.sleep(0.2)

        await becomes("4")
        sim.write(folder / "npus/card0/device0", {"health": "3"})
        await becomes("0")
        sim.write(folder / "npus/card0/device0", {"health": "0"})
        await becomes("4")
