"""Pods on two nodes with our agent: scheduler, webhook and agents as processes, on an embedded cluster."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from hami_cambricon import sim

from hami_core.testing import Stage, StageNode
from vendors.cambricon.tests.node.machine import Machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Manifest = dict[str, Any]
NODES = {"mlu-1": "MLU370-X8", "mlu-2": "MLU590"}
DRIVERS_PROFILES = ["0", "1", "2"]


@pytest.fixture
def machines(library):
    """Two nodes with two cards each, below a path short enough for Unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    yield {name: Machine(folder / name, folder / "stage" / name / "state") for name in NODES}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def stage(machines, library) -> AsyncIterator[Stage]:
    nodes = []
    for name, model in NODES.items():
        env = sim.create(machines[name].folder, model=model, library=library)
        nodes.append(StageNode(name, env=env))
    folder = machines["mlu-1"].folder.parent / "stage"
    async with Stage(folder, nodes, vendors=["cambricon"]) as running:
        yield running


def pod(
    name: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **annotations: str
) -> dict[str, Any]:
    keys = {f"cambricon.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"restartPolicy": "Never", "containers": list(containers), "initContainers": list(init)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": keys}, "spec": spec}


def asking(
    name: str, units: int | None, cores: int | None, count: int = 1, program: str = "sleep 600"
) -> dict[str, Any]:
    """A container that asks for so many units of 256 MiB and percent of each card. None: a whole card."""
    limits = {"cambricon.com/vmlu": str(count)}
    if units is not None:
        limits |= {"cambricon.com/mlu.smlu.vmemory": str(units), "cambricon.com/mlu.smlu.vcore": str(cores)}
    return {"name": name, "image": "any", "command": ["sh", "-c", program], "resources": {"limits": limits}}


async def scraped(stage: Stage, part: str) -> list[str]:
    url = stage.parts[part].ready_url.replace("/readyz", "/metrics")
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return (await answer.text()).splitlines()


async def test_pods_get_their_parts_and_leave_nothing_behind(stage, machines):
    first, second = machines["mlu-1"], machines["mlu-2"]
    await stage.submit(
        pod(
            "train",
            asking("main", 16, 25),
            asking("side", 4, 10, count=2),
            init=(asking("init", 8, 50, program="true"),),
            use_mlutype="MLU370",
        )
    )
    await stage.submit(pod("whole", asking("main", None, None), use_mlutype="MLU590"))
    running = await stage.wait_running("train")
    await stage.wait_running("whole")

    # Each container has the instance of its own amounts.
    assert running["spec"]["nodeName"] == "mlu-1"
    amounts = {}
    for name in ("main", "side"):
        got = await stage.container("train", name)
        for path, host in got.devices.items():
            if "cambricon-caps" in path:
                card, instance = Path(path).name.removeprefix("cap_dev").split("_mi")
                assert host == str(first.folder / "dev" / "cambricon-caps" / Path(path).name)
                assert f"/dev/cambricon_dev{card}" in got.devices
                amounts.setdefault(name, []).append(first.instances(int(card))[instance].split()[1:3])
    assert amounts == {"main": [["25", str(4096 << 20)]], "side": [["10", str(1024 << 20)]] * 2}
    (whole,) = [text for card in (0, 1) for text in second.instances(card).values()]
    assert whole.split()[1:3] == ["100", str(49152 << 20)]

    # The agent measures them. The instance of the init container stays as long as the pod.
    for _ in range(100):
        served = await scraped(stage, "agent:mlu-1")
        limits = [line for line in served if line.startswith("hami_vgpu_memory_limit_bytes") and 'pod="train"' in line]
        if limits:
            break
        await asyncio.sleep(0.1)
    assert sorted(float(line.split()[-1]) for line in limits) == [1 << 30, 1 << 30, 2 << 30, 4 << 30]
    assert len([line for line in served if line.startswith("hami_host_gpu_memory_used_bytes{")]) == 2

    # A killed agent comes back to the same instances.
    before = [first.instances(card) for card in (0, 1)]
    await stage.restart("agent:mlu-1")
    await stage.submit(pod("late", asking("main", 4, 10), use_mlutype="MLU370"))
    await stage.wait_running("late")
    after = [first.instances(card) for card in (0, 1)]
    assert all(before[card].items() <= after[card].items() for card in (0, 1))
    assert sum(map(len, after)) == sum(map(len, before)) + 1

    # Deleted pods make room. The kubelet tells of a deleted pod's end when it admits the next one.
    for name in ("train", "whole", "late"):
        await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
    for name, model in (("full-1", "MLU370"), ("full-2", "MLU590")):
        await stage.submit(pod(name, asking("main", None, None, count=2), use_mlutype=model))
        await stage.wait_running(name)
    for machine in machines.values():
        for card in (0, 1):
            assert [text.split()[1] for text in machine.instances(card).values()] == ["100"]
            assert sorted(machine.profiles(card)) == DRIVERS_PROFILES


async def test_a_part_finds_no_place_without_smlu_mode(stage, machines):
    for machine in machines.values():
        for card in (0, 1):
            machine.write(f"card{card}/smlu", 0)

    async def whole_only() -> bool:
        nodes = (await stage.call("GET", "/api/v1/nodes"))["items"]
        return all(
            node["metadata"]["annotations"]["hami.io/node-mlu-register"].count("wholeonly") == 2 for node in nodes
        )

    for _ in range(200):
        if await whole_only():
            break
        await asyncio.sleep(0.1)
    await stage.submit(pod("part", asking("main", 4, 10)))
    await stage.submit(pod("whole", asking("main", None, None)))
    await stage.wait_running("whole")
    got = await stage.container("whole")
    assert not [path for path in got.devices if "cambricon-caps" in path]
    assert "sMLU mode is off (administrator: cnmon set -c" in "".join(await stage.events("part"))
