"""`hami top` on the embedded cluster: a real scheduler, real agents on simulated GPUs, and pods that use them."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from click.testing import CliRunner
from hami_nvidia.demo.stage import GpuNode, GpuStage

from hami_core.cli.main import root
from tests.integration.bed import container, pod

NODES = ("n1", "n2")


def ours(name: str, program: str, url: str, node: str) -> dict:
    """A pod that stands for a process of the stage, whose metrics port it names."""
    port = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
    main = {
        "name": "main",
        "image": "hami",
        "command": [sys.executable, "-c", "import time; time.sleep(1000)", "hami_core", program],
        "ports": [{"name": "metrics", "containerPort": port}],
    }
    labels = {"hami.io/webhook": "ignore", "hami.io/scheduler-role": "leader"}
    spec = {"containers": [main], "nodeName": node, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def top(stage: GpuStage, *words: str) -> tuple[int, str, str]:
    """Run the command in this process, since a start takes a second or more. Its output is no terminal."""
    command = ["top", *words, "--kubeconfig", str(stage.cluster.kubeconfig)]
    done = await asyncio.wait_for(asyncio.to_thread(CliRunner().invoke, root, command), 60)
    return done.exit_code, done.stdout, done.stderr


async def started_top(stage: GpuStage, *words: str) -> tuple[int, str, str]:
    """Run the command as a process of its own."""
    env = {**os.environ, "KUBECONFIG": str(stage.cluster.kubeconfig)}
    command = (sys.executable, "-m", "hami_core", "top", *words)
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(done.communicate(), 60)
    return done.returncode or 0, out.decode(), err.decode()


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def until_used(stage: GpuStage, mib: int) -> list[list[str]]:
    """The rows of slices, once one uses more than this."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while True:
        _, out, err = await top(stage, "slices")
        rows = cells(out)[1:]
        if any(row[5] != "-" and int(row[5]) > mib for row in rows):
            return rows
        assert loop.time() < deadline, out + err
        await asyncio.sleep(0.5)


@pytest.mark.timeout(240)
async def test_bookings_use_and_limits_of_a_cluster(short_folder):
    nodes = [GpuNode(name, "a100x2") for name in NODES]
    async with GpuStage(short_folder / "t", nodes) as stage:
        await stage.submit(ours("scheduler", "scheduler", stage.parts["scheduler"].ready_url, "n1"))
        for name in NODES:
            await stage.submit(ours(f"agent-{name}", "agent", stage.parts[f"agent:{name}"].ready_url, name))
        wanted = pod("train", [container("main", 3000, command=["cuda-probe", "100000"])])
        wanted["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpucores"] = 30
        await stage.submit(wanted)
        running = await stage.wait_running("train")
        await stage.wait_running("scheduler")
        node = running["spec"]["nodeName"]

        (row,) = await until_used(stage, 2000)
        assert row[0] == node
        assert row[2:4] == ["default/train", "main"]
        assert (row[4], row[6], row[7], row[9]) == ("3000", "3000", "30", "30"), "booked and limit of memory and cores"
        assert row[10] == "ok"

        code, out, err = await started_top(stage)
        header, *rows = cells(out)
        assert (code, err, header[:4]) == (0, "", ["NODE", "CARDS", "SLICES", "MEM-BOOKED(MiB)"])
        assert [line[0] for line in rows] == list(NODES)
        busy = rows[NODES.index(node)]
        assert busy[1:4] == ["2", "1", "3000"]
        assert int(busy[4]) >= 2000

        code, out, _ = await top(stage, "cards", "--sort", "mem-booked", "--limit", "1", "--filter", f"node={node}")
        assert cells(out)[1][2:5] == ["ok", "1", "3000"]

        stage.parts[f"agent:{node}"].signal(9)
        stage.parts[f"agent:{node}"].wait()
        code, out, err = await top(stage, "slices")
        assert code == 0
        assert cells(out)[1][4:8] == ["3000", "-", "-", "30"], "bookings stay, and nothing measured is 0"
        assert f"no values from the agents of 1 nodes: agent pod default/agent-{node}" in err

        stage.parts["scheduler"].signal(9)
        stage.parts["scheduler"].wait()
        code, out, err = await top(stage, "--json")
        said = json.loads(out)
        assert code == 1
        assert "scheduler pod default/scheduler" in err
        (left,) = said["nodes"]
        assert left["name"] != node
        assert {card["booked"] for card in left["cards"]} == {None}
        assert all(card["used"]["memory_mib"] is not None for card in left["cards"])
