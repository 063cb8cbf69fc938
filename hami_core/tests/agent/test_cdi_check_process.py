"""The check of CDI is correct for every vendor: `hami agent` runs as a process on an embedded node."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

from hami_core.sim.cluster import Cluster, NodeSpec
from hami_core.wire import keys

pytestmark = pytest.mark.timeout(120)

TEMPLATE = Path(__file__).parents[3] / "contrib/template/src"
NODE_SIDE = '''
"""The template's node side, with a device node that every machine has. Some pods get limits, as with NVIDIA."""
import os, time
from dataclasses import replace
from hami_acme.node import AcmeNode
from hami_core import DeviceNode, hookimpl

LIMITED = {"limits": {"limits": b"x"}, "limits_path": "/usr/local/vgpu/limits"}

class Node(AcmeNode):
    @hookimpl
    def health(self, devices):
        if "HANGS" in os.environ:
            time.sleep(1000)
        return super().health(devices)

    @hookimpl
    def allocate(self, slices, container):
        edits = super().allocate(slices, container)
        nodes = tuple(DeviceNode(node.path, "/dev/null") for node in edits.device_nodes)
        return replace(edits, device_nodes=nodes, **(LIMITED if container.pod == "limited" else {}))
'''


def install(root: Path) -> None:
    """Install the template as pip would, and make two devices as its driver would."""
    site, info = root / "site", root / "site/hami_acme-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copytree(TEMPLATE / "hami_acme", site / "hami_acme")
    (site / "site_acme.py").write_text(NODE_SIDE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hami-acme\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        "[hami.vendors]\nacme = hami_acme:Acme\n[hami.node]\nacme = site_acme:Node\n"
    )
    for index in range(2):
        card = root / f"acme/acme{index}"
        card.mkdir(parents=True)
        facts = {"uuid": f"ACME-{index}", "memory_mib": "32768", "model": "Acme-1", "numa_node": "0"}
        for name, text in facts.items():
            (card / name).write_text(text)


class Bed:
    """One node with two Acme devices, its agent, and a scheduler played by the test."""

    def __init__(self, root: Path, *, cdi: bool = True, hangs: bool = False) -> None:
        self.root, self.cdi = root, cdi
        self.more = {"HANGS": "yes"} if hangs else {}

    async def __aenter__(self) -> Self:
        install(self.root)
        spec = NodeSpec("n1", resync_seconds=1.0, cdi=self.cdi)
        self.cluster = Cluster(self.root / "c", nodes=[spec], scheduler_config=None)
        await self.cluster.__aenter__()
        self.http = aiohttp.ClientSession(self.cluster.url)
        place = self.cluster.node("n1")
        keep = {k: v for k, v in os.environ.items() if not k.startswith("HAMI_")}
        more = {"PYTHONPATH": str(self.root / "site"), "HAMI_ACME_SYSFS": str(self.root / "acme"), **self.more}
        with (self.root / "agent.log").open("wb") as log:
            self.agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "hami_core", "agent", "--vendor=acme", "--node-name=n1"),
                    f"--kubeconfig={self.cluster.kubeconfig}",
                    f"--state-dir={self.root / 'state'}",
                    f"--kubelet-plugin-dir={place.plugin_dir}",
                    f"--cdi-dir={place.cdi_dir}",
                    f"--proc-dir={place.proc}",
                    f"--metrics-bind-address=unix:{self.root / 'm.sock'}",
                    *("--mode=trust:hami-scheduler", "--reconcile-interval=0.3", "--health-interval=0.3"),
                    *("--handover-time=0", "--log-format=json"),
                ],
                env=keep | more,
                stdout=log,
                stderr=log,
            )
        await self.until(self.ready, "the agent to be ready")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.agent.terminate()
        self.agent.wait(15)
        await self.http.close()
        await self.cluster.__aexit__(None, None, None)

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.root / "m.sock"))) as session:
            try:
                async with session.get(f"http://agent{path}") as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientError as error:
                return 0, str(error)

    async def ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200

    async def until(self, what, name: str) -> None:
        try:
            async with asyncio.timeout(60):
                while not await what():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"waited in vain for {name}\n{(self.root / 'agent.log').read_text()[-6000:]}")

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        async with self.http.request(method, path, json=body) as answer:
            assert answer.status < 400, await answer.text()
            return await answer.json() if "json" in answer.content_type else await answer.text()

    async def run(self, name: str, script: str, mib: int = 4096, card: int = 0) -> None:
        """Create a pod and bind it with an allocation, as the scheduler does."""
        limits = {"acme.example/npu": "1", "acme.example/npu-memory": str(mib)}
        container = {"name": "main", "image": "x", "command": ["sh", "-c", script], "resources": {"limits": limits}}
        spec = {"containers": [container], "restartPolicy": "Never", "schedulerName": "hami-scheduler"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        made = await self.api("POST", "/api/v1/namespaces/default/pods", body)
        annotations = {keys.NODE: "n1", "hami.io/acme-devices-allocated": f"ACME-{card},ACME,{mib},0:;"}
        meta = {"name": name, "namespace": "default", "uid": made["metadata"]["uid"], "annotations": annotations}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "n1"}}
        await self.api("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)

    async def log(self, name: str) -> str:
        async with self.http.get(f"/api/v1/namespaces/default/pods/{name}/log?container=main") as answer:
            return await answer.text() if answer.status == 200 else ""

    async def reported(self) -> tuple[list[str], str, bool, bool]:
        """Pods with an event, the node's mode, whether the marker file exists, and whether the metric is 1."""
        events = (await self.api("GET", "/api/v1/namespaces/default/events"))["items"]
        node = await self.api("GET", "/api/v1/nodes/n1")
        metrics = (await self.get("/metrics"))[1]
        return (
            [event["involvedObject"]["name"] for event in events if event["reason"] == "DevicesUnlimited"],
            node["metadata"]["annotations"].get(keys.agent_mode("acme"), ""),
            (self.root / "state/no-cdi").exists(),
            'hami_agent_containers_unlimited{node="n1"} 1.0' in metrics,
        )


@pytest.fixture
def root():
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def test_a_container_whose_spec_was_applied_is_not_reported(root):
    async with Bed(root, cdi=True) as bed:
        pods = {"plain": (4096, 0), "limited": (4096, 0), "whole": (32768, 1)}
        for name, (mib, card) in pods.items():
            await bed.run(name, f"echo $ACME_MEMORY_LIMITS_MIB; ls /dev/acme{card} /.hami/*; sleep 100", mib, card)
        for name, (mib, card) in pods.items():

            async def runs(name: str = name) -> bool:
                return "npu" in await bed.log(name)

            await bed.until(runs, f"container {name} to run")
            assert (await bed.log(name)).split()[:2] == [str(mib), f"/dev/acme{card}"]
        await asyncio.sleep(3)  # ten times the interval of the agent's check
        assert await bed.reported() == ([], "cdi", False, False)


@pytest.mark.parametrize("name", ["plain", "limited", "whole"])
async def test_a_runtime_that_ignores_cdi_is_detected(root, name):
    async with Bed(root, cdi=False) as bed:
        await bed.run(name, "sleep 100", 32768 if name == "whole" else 4096)

        async def found() -> bool:
            return await bed.reported() == ([name], "serial", True, True)

        await bed.until(found, "the agent to detect the runtime")


async def test_sigterm_ends_an_agent_whose_hook_hangs(root):
    async with Bed(root, hangs=True) as bed:
        await asyncio.sleep(1)  # three times the health interval
        bed.agent.terminate()
        assert await asyncio.to_thread(bed.agent.wait, 10) == 0
    assert "a hook does not return" in (root / "agent.log").read_text()
