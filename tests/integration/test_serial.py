"""A runtime that ignores CDI names: in serial mode each container still gets its slice, and none is unlimited."""

from __future__ import annotations

import asyncio
import random

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import all_end, container, pod, wrong_slices

PODS = 12
NO_CDI = {"cdi": False, "seed": 1, "resync_seconds": 1.0}
MODE = "hami.io/agent-mode-nvidia"


def crowd(seed: int) -> list[dict]:
    """Pods of different sizes, with init containers, sidecars, two cards, and containers without devices."""
    rng = random.Random(seed)
    sizes = iter(rng.sample(range(700, 9000), 4 * PODS))
    pods = []
    for number in range(PODS):
        main = [container("main", next(sizes), 2 if number % 4 == 1 else 1)]
        init = []
        if number % 3 == 0:
            init.append(container("init", next(sizes)))
        if number % 4 == 2:
            sidecar = container("side", next(sizes), command=["cuda-probe", "look", "60"])
            init.append(sidecar | {"restartPolicy": "Always"})
        if number % 4 == 3:
            main.append(container("second", next(sizes)))
        if number % 5 == 0:
            main.insert(0, container("plain", None))
        pods.append(pod(f"p{number:02d}", main, init))
    return pods


OVERRIDES = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "80000m"},
    {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80000m"},
    {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
    {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"},
]
"""Variables of a pod about its devices. Kubelet and runtime prefer them to those that Allocate answered."""


def pod_with_overrides(name: str, memory: int) -> dict:
    """A pod whose init container, sidecar and app all set these variables, and print the cards that they see."""
    tell = ["sh", "-c", "echo visible=$NVIDIA_VISIBLE_DEVICES; exec cuda-probe look"]
    init, side, main = (container(part, memory + n, command=tell) for n, part in enumerate(("init", "side", "main")))
    side |= {"restartPolicy": "Always", "command": [*tell[:2], f"{tell[2]} 60"]}
    return pod(name, [main | {"env": OVERRIDES}], [init | {"env": OVERRIDES}, side | {"env": OVERRIDES}])


async def mode(stage: GpuStage) -> str:
    """The mode that the node's agent has published for the scheduler."""
    node = await stage.call("GET", "/api/v1/nodes/n1")
    return node["metadata"]["annotations"].get(MODE, "")


async def submit_and_check(stage: GpuStage, pods: list[dict]) -> None:
    await asyncio.gather(*(stage.submit(entry) for entry in pods))
    left = await all_end(stage, {entry["metadata"]["name"] for entry in pods}, 50)
    assert not left, left
    assert not await wrong_slices(stage, pods)


@pytest.mark.timeout(240)
async def test_each_container_gets_exactly_its_slice_without_cdi(short_folder):
    node = GpuNode("n1", "a100x4", split=20)
    async with GpuStage(short_folder / "always", [node], kubelet=NO_CDI, agent=["--serial=always"]) as stage:
        assert await mode(stage) == "serial"
        await submit_and_check(stage, [*crowd(1), pod_with_overrides("liar", 3000)])
        for part in ("init", "side", "main"):
            assert "visible=void" in await stage.log("liar", part), "NVIDIA's runtime would add every card"
        bypassing = pod_with_overrides("bypassing", 4000)
        bypassing["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
        bypassing["spec"]["schedulerName"] = "hami-scheduler"
        await stage.submit(bypassing)
        async with asyncio.timeout(30):
            while "NVIDIA_VISIBLE_DEVICES would override" not in str(await stage.call("GET", "/api/v1/events")):
                await asyncio.sleep(0.2)
        assert not list(stage.cluster.node("n1").cdi_dir.iterdir()), "serial mode must not write CDI specs"
        phases = {n: p["metadata"]["annotations"]["hami.io/bind-phase"] for n, p in (await stage.pods()).items()}
        assert phases.pop("bypassing") == "failed", "the next pod must not wait for this one"
        assert set(phases.values()) == {"success"}


@pytest.mark.timeout(240)
async def test_auto_mode_detects_missing_cdi_before_giving_out_cards(short_folder):
    node = GpuNode("n1", "a100x4", split=20)
    flags = ["--serial=auto", "--reconcile-interval=0.5"]
    async with GpuStage(short_folder / "auto", [node], kubelet=NO_CDI, agent=flags) as stage:
        assert await mode(stage) == "cdi"
        look = ["sh", "-c", "ls /dev/nvidia0 /dev/nvidiactl /usr/local/vgpu/limits; exec sleep 60"]
        await stage.submit(pod("first", [container("main", 1000, command=look)]))
        async with asyncio.timeout(60):
            while await mode(stage) != "serial":
                await asyncio.sleep(0.1)
        seen = await stage.log("first", "main")
        assert seen.count("cannot access") == 3, f"expected no card and no limits: {seen}"
        await submit_and_check(stage, crowd(2))
        await stage.restart("agent:n1")
        await submit_and_check(stage, [pod("again", [container("main", 1234)])])
        assert await mode(stage) == "serial", "the detected mode must survive a restart"
