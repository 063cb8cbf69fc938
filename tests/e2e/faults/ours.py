"""Find, kill, freeze and watch our own processes on the bed."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System

SCHEDULER, AGENT = "hami-scheduler", "hami-device-plugin"
EXTENDER, KUBE_SCHEDULER, PLUGIN = "vgpu-scheduler-extender", "kube-scheduler", "device-plugin"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/hami-scheduler"
CRASHES = 2
"""After so many restarts the back-off is long (10 s, 20 s, 40 s …). `refreshed` replaces the pod before that."""


def pod_of(system: System, component: str, node: str = "") -> dict[str, Any]:
    """A running pod of ours, on a given node or on any."""

    def look() -> dict[str, Any] | None:
        for now in system.ours(component):
            is_there = now["status"].get("phase") == "Running" and "deletionTimestamp" not in now["metadata"]
            if is_there and node in ("", now["spec"]["nodeName"]):
                return now
        return None

    return dict(system.bed.wait(f"a pod of {component} on {node or 'any node'}", look, 60))


def uids(system: System, component: str) -> set[str]:
    """UIDs of our pods of one component."""
    return {now["metadata"]["uid"] for now in system.ours(component)}


def pids(now: dict[str, Any], container: str) -> list[int]:
    """Pids on the host of a container of this pod, sorted."""
    statuses = now["status"].get("containerStatuses", [])
    found = next((s.get("containerID", "") for s in statuses if s["name"] == container), "")
    short = found.rpartition("/")[2]
    if not short:
        return []
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if short in (entry / "cgroup").read_text():
                    processes.append(int(entry.name))
    return sorted(processes)


def send(now: dict[str, Any], container: str, number: int) -> int:
    """Send a signal to every process of a container. Returns their number."""
    sent = 0
    for pid in pids(now, container):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            sent += 1
    return sent


def kill(system: System, component: str, container: str, node: str = "") -> str:
    """Kill one of our processes with SIGKILL. The kubelet starts it again. Returns the name of the killed container."""

    def strike() -> str:
        now = pod_of(system, component, node)
        dead = send(now, container, signal.SIGKILL)
        return f"{now['metadata']['name']}/{container} on {now['spec']['nodeName']}" if dead else ""

    return system.bed.wait(f"a process of {container} to kill", strike, 60)  # one may just have been killed


@contextmanager
def frozen(now: dict[str, Any], *containers: str) -> Iterator[None]:
    """Freeze containers of a pod with SIGSTOP during the block. They keep their connections."""
    for container in containers:
        assert send(now, container, signal.SIGSTOP), f"no process of {container} found"
    try:
        yield
    finally:
        for container in containers:
            send(now, container, signal.SIGCONT)


def refreshed(system: System) -> None:
    """Replace our pods whose containers restarted so often that the next back-off would be long."""
    for component in (SCHEDULER, AGENT):
        for now in system.ours(component):
            restarts = [status["restartCount"] for status in now["status"].get("containerStatuses", [])]
            if max(restarts, default=0) >= CRASHES:
                system.bed.kubectl("delete", "pod", "-n", NAMESPACE, now["metadata"]["name"], "--wait=false")
    available(system)


def available(system: System, timeout: float = 120) -> None:
    """Wait until all our pods are ready and serve."""

    def look() -> bool:
        revived(system)
        pods = [now for component in (SCHEDULER, AGENT) for now in system.ours(component)]
        return bool(pods) and all(
            "deletionTimestamp" not in now["metadata"]
            and any(c["type"] == "Ready" and c["status"] == "True" for c in now["status"].get("conditions", []))
            for now in pods
        )

    system.bed.wait("our pods are ready", look, timeout)
    system.ready(timeout)


def offering(system: System, timeout: float) -> None:
    """Wait until all GPU nodes offer their slots."""

    def look() -> bool:
        revived(system)
        return not system.waiting_nodes()

    system.bed.wait("GPU nodes offer their slots", look, timeout)


def revived(system: System) -> None:
    """Start programs of the bed that have ended, as a service manager does.

    A kubelet ends if its runtime does not answer at the start.
    """
    for name in list(system.bed.state.components):
        if not system.bed.components.running(name):
            system.bed.start(name)


def leader(system: System) -> str:
    """Name of the scheduler pod in kube-scheduler's Lease."""
    return str(system.bed.call("GET", LEASE)["spec"].get("holderIdentity", "")).partition("_")[0]


def logs(system: System, now: dict[str, Any], container: str) -> str:
    """Log of one of our containers."""
    name = now["metadata"]["name"]
    return str(system.bed.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log?container={container}"))
