"""Agents of two vendors on one node: NVIDIA's with simulated cards, and the template's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hami_nvidia.demo.stage import GpuNode

from hami_core.testing import StageError
from tests.integration import acme
from tests.integration.bed import all_end, container
from tests.integration.mixed import MixedStage, gpu, pod

pytestmark = pytest.mark.timeout(300)
AGENTS = ("agent:n1-nvidia", "agent:n1-acme")
BOTH = ("nvidia", "acme")
LOOK = ["sh", "-c", "cuda-probe look; echo npu=$ACME_MEMORY_LIMITS_MIB; ls /dev/acme*; sleep 600"]


PRELOAD = "/etc/ld.so.preload"


@pytest.fixture(scope="module", autouse=True)
def installed(short_folder):
    """The template's vendor. If its agent has the variable HAMI_ACME_PRELOAD, containers get this preload file."""
    for site in acme.installed(short_folder):
        file = site / "hami_acme" / "node.py"
        mounts = f'mounts=tuple(Mount(f, "{PRELOAD}") for f in [os.environ.get("HAMI_ACME_PRELOAD")] if f),'
        text = file.read_text().replace("return ContainerEdits(", f"return ContainerEdits({mounts}")
        file.write_text(text.replace("from hami_core import", "import os\nfrom hami_core import Mount,", 1))
        yield site


def node(folder) -> GpuNode:
    return GpuNode("n1", "a100x2", env=acme.devices(folder, count=1))


def npu(memory: int) -> dict[str, int]:
    return {"acme.example/npu": 1, "acme.example/npu-memory": memory}


def both(name: str, gpu_mib: int, npu_mib: int) -> dict:
    """A pod whose one container requests both vendors and prints what it has of each."""
    made = pod(name, gpu(gpu_mib) | npu(npu_mib))
    made["spec"]["containers"][0]["command"] = LOOK
    return made


async def output(stage: MixedStage, name: str, limit_s: float = 30) -> str:
    """What the pod's container has printed, once it is complete."""
    async with asyncio.timeout(limit_s):
        while "/dev/acme" not in (text := await stage.log(name, "c0")):
            await asyncio.sleep(0.1)
    return text


async def assert_has_both(stage: MixedStage, name: str, gpu_mib: int, npu_mib: int) -> None:
    text = await output(stage, name)
    assert f'"total_bytes": {gpu_mib << 20}' in text, text
    assert f"npu={npu_mib}" in text


async def modes(stage: MixedStage) -> dict[str, str]:
    found = await stage.call("GET", "/api/v1/nodes/n1")
    there = found["metadata"]["annotations"].items()
    return {k.removeprefix("hami.io/agent-mode-"): v for k, v in there if k.startswith("hami.io/agent-mode-")}


async def test_one_container_gets_slices_of_both_agents(short_folder):
    async with MixedStage(short_folder / "cdi", [node(short_folder / "npu1")], vendors=BOTH) as stage:
        await stage.submit(both("first", 3000, 1000))
        await assert_has_both(stage, "first", 3000, 1000)
        leases = await stage.call("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
        names = {lease["metadata"]["name"] for lease in leases["items"]}
        assert {"hami-agent-nvidia.n1", "hami-agent-acme.n1"} <= names
        specs = {path.read_text().partition('"kind": "')[2].partition('"')[0] for path in cdi(stage)}
        assert specs == {"nvidia.hami.io/slot", "acme.hami.io/slot"}

        for agent in AGENTS:
            before = {path.name for path in cdi(stage)}
            await stage.restart(agent)
            await asyncio.sleep(6)  # the agent removes specs that belong to no record
            assert {path.name for path in cdi(stage)} == before, f"{agent} touched the other agent's files"
        await stage.submit(both("second", 5000, 2000))
        await assert_has_both(stage, "second", 5000, 2000)


async def test_one_vendor_goes_on_while_the_others_agent_is_away(short_folder):
    async with MixedStage(short_folder / "away", [node(short_folder / "npu2")], vendors=BOTH) as stage:
        await stage.submit(both("held", 3000, 1000))
        await output(stage, "held")
        stage.stop("agent:n1-acme")
        with_gpu = pod("gpu", gpu(4000))
        await stage.submit(with_gpu)
        await stage.wait_running("gpu")
        await stage.submit(pod("npu", npu(500)))
        with pytest.raises(StageError, match="acme agent is being replaced"):
            await stage.wait_running("npu", limit_s=4)
        await stage.restart("agent:n1-acme")
        await stage.wait_running("npu")
        assert (await stage.pods())["held"]["status"]["phase"] == "Running"


async def test_serial_mode_of_two_agents_gives_each_its_own(short_folder):
    quick = {"cdi": False, "resync_seconds": 1.0}
    nodes = [node(short_folder / "npu3")]
    async with MixedStage(
        short_folder / "serial", nodes, vendors=BOTH, kubelet=quick, agent=["--serial=always"]
    ) as stage:
        assert await modes(stage) == {"nvidia": "serial", "acme": "serial"}
        sizes = {f"p{i}": (2000 + i, 500 + i) for i in range(5)}
        await asyncio.gather(*(stage.submit(both(name, *size)) for name, size in sizes.items()))
        for name, size in sizes.items():
            await assert_has_both(stage, name, *size)
        only = [
            {"kind": "Pod", "metadata": {"name": f"g{i}"}, "spec": {"containers": [container("c0", 1000 + i)]}}
            for i in range(3)
        ]
        for entry in only:
            entry["spec"]["restartPolicy"] = "Never"
        await asyncio.gather(*(stage.submit(entry) for entry in only))
        assert not await all_end(stage, {entry["metadata"]["name"] for entry in only}, 60)


@pytest.mark.parametrize("serial", [False, True])
async def test_container_with_two_preload_files_never_starts(short_folder, serial):
    """The scheduler does not know that the template's vendor has such a file. So the agents must find it out."""
    folder = short_folder / f"npu-preload-{serial}"
    made = node(folder)
    (folder / "ld.so.preload").write_text("")
    made = replace(made, env={**made.env, "HAMI_ACME_PRELOAD": str(folder / "ld.so.preload")})
    how = {"kubelet": {"cdi": False}, "agent": ["--serial=always"]} if serial else {}
    async with MixedStage(short_folder / f"preload-{serial}", [made], vendors=BOTH, **how) as stage:
        await stage.submit(both("both", 3000, 1000))
        with pytest.raises(StageError, match=f"both mount a file at {PRELOAD}"):
            await stage.wait_running("both", limit_s=15)
        assert not await stage.log("both", "c0")
        await stage.submit(pod("apart", gpu(2000), npu(500)))
        await stage.wait_running("apart")
        assert PRELOAD in (await stage.container("apart", "c0")).mounts
        assert PRELOAD in (await stage.container("apart", "c1")).mounts


def cdi(stage: MixedStage) -> list:
    return sorted(stage.cluster.node("n1").cdi_dir.glob("hami-*.json"))
