"""docs/how-to/migrate-from-hami.md on real Kubernetes: what HAMi placed runs on, counted, until it ends."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.bed import Node
from tests.e2e.pods import container, pod
from tests.e2e.system import NAMESPACE, PODS, System
from tests.e2e.test_doctor import complaints, doctor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.tools import Tools

ROOT = Path(__file__).parents[2]
NODE = "node1"
DRIVER = "/opt/nvidia-sim"
OLD_MIB = 8000


class Original:
    """HAMi, as far as kubelet and API server can tell: its device plugin, and what its scheduler writes."""

    def __init__(self, system: System) -> None:
        self.bed = system.bed
        self.uuids = self._python("-c", "from tests.e2e.hami_plugin import cards; print(*cards())").split()
        self.pid = ""

    def _python(self, *words: str) -> str:
        libraries = f"{DRIVER}/lib"
        environment = {"LD_LIBRARY_PATH": libraries, "HAMI_SIM_STATE": f"{DRIVER}/state", "PYTHONPATH": str(ROOT)}
        return self.bed.run(NODE, sys.executable, *words, env=environment).stdout

    def start(self) -> None:
        started = "import subprocess as s, sys; print(s.Popen([sys.executable, '-m', 'tests.e2e.hami_plugin'], \
stdin=s.DEVNULL, stdout=s.DEVNULL, stderr=s.DEVNULL, start_new_session=True).pid)"
        self.pid = self._python("-c", started).strip()
        self.bed.wait("HAMi's slots", lambda: allocatable(self.bed) == "20", 60)

    def stop(self) -> None:
        self.bed.run(NODE, "kill", self.pid)

    def place(self, name: str) -> None:
        """A pod with the annotations HAMi's scheduler writes, and its Binding."""
        slices = f"{self.uuids[0]},NVIDIA,{OLD_MIB},0:;"
        now = str(int(time.time()))
        written = {
            "hami.io/vgpu-node": NODE,
            "hami.io/vgpu-time": now,
            "hami.io/bind-time": now,
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-allocated": slices,
            "hami.io/vgpu-devices-to-allocate": ";",
        }
        body = container(memory=OLD_MIB, image="localhost/pause:1", command=["/pause"])
        made = pod(name, body, annotations=written, schedulerName="hami-scheduler", restartPolicy="Always")
        self.bed.call("POST", PODS, made)
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.bed.call("POST", f"{PODS}/{name}/binding", binding)


def allocatable(bed: Any) -> str:
    return str(bed.call("GET", f"/api/v1/nodes/{NODE}")["status"].get("allocatable", {}).get("nvidia.com/gpu", "0"))


def life(system: System, name: str) -> tuple[str, int]:
    """A container's id at its runtime, and how often it was restarted."""
    (status,) = system.pod(name)["status"]["containerStatuses"]
    return str(status["containerID"]), int(status["restartCount"])


@pytest.fixture
def system(tools: Tools, work: Path) -> Iterator[System]:
    """A bed without our chart."""
    made = System(work, tools, [Node(NODE, "a100x2")])
    with made.bed:
        made.bed.kubectl("label", "node", NODE, "gpu=on")
        yield made


def test_a_cluster_of_hami_is_taken_over_without_restarting_a_pod(system: System) -> None:
    hami = Original(system)
    hami.start()
    hami.place("old")
    system.running("old")
    before = life(system, "old")
    as_found = complaints(doctor(system), "warn", "fail")
    assert "1 unsigned: default/old" in as_found["pods.signatures"]
    assert "no pod runs" in as_found["scheduler.pods"]

    # HAMi goes, we come
    hami.stop()
    taken_over = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    system.install(devicePlugin={"mode": "adopt", "adoptBefore": taken_over})
    assert life(system, "old") == before
    found = complaints(doctor(system))
    assert "adopt" in found["agents.trust"]
    assert "1 unsigned: default/old" in found["pods.signatures"]
    assert found.keys() <= {"agents.trust", "pods.signatures", "node.runtime"}, found

    # what it holds is counted, and the rest of its card is given out
    registered = system.bed.call("GET", f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]
    total = json.loads(registered["hami.io/node-nvidia-register"])[0]["devmem"]
    there = {"nvidia.com/use-gpuuuid": hami.uuids[0]}
    system.submit(
        pod("beside", container(memory=total - OLD_MIB - 1000), annotations=there),
        pod("too-much", container(memory=OLD_MIB), annotations=there),
    )
    system.running("beside")
    assert system.problems("beside") == []
    refusal = system.bed.wait("a reason", lambda: complaints(doctor(system)).get("pods.pending", ""), 90, 2)
    assert "default/too-much" in refusal

    # restarts on the node do not touch it
    system.bed.restart(f"kubelet:{NODE}")
    (agent,) = system.ours("hami-device-plugin")
    system.bed.kubectl("-n", NAMESPACE, "delete", "pod", agent["metadata"]["name"])
    system.ready()
    assert life(system, "old") == before

    # a crash of its own restarts it as HAMi left it
    system.bed.run(NODE, "sh", "-c", f"kill -9 {_pid(system, 'old')}")
    system.bed.wait("old runs again", lambda: life(system, "old")[1] == 1 and system.running("old", timeout=1), 60, 1)
    spec = system.bed.containers(NODE)[system.pod("old")["metadata"]["uid"], "main"]
    assert f"CUDA_DEVICE_MEMORY_LIMIT_0={OLD_MIB}m" in spec.spec["process"]["env"]

    # the end of the migration
    system.delete("old", "too-much")
    system.install(devicePlugin={"mode": "required", "adoptBefore": ""})
    assert complaints(doctor(system)).keys() <= {"node.runtime"}
    assert system.problems("beside") == []


def _pid(system: System, name: str) -> str:
    """A container's first process, as its node numbers it."""
    identity = life(system, name)[0].partition("://")[2]
    script = f"grep -l {identity} /proc/[0-9]*/cgroup | head -1 | cut -d/ -f3"
    return system.bed.run(NODE, "sh", "-c", script).stdout.strip()
