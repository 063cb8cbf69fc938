"""Kill the program of a container, to simulate a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.bed.node import RUNTIME_SOCKET

if TYPE_CHECKING:
    from tests.e2e.system import System


def crash(system: System, node: str, pod: str, container: str = "main") -> str:
    """Kill a container's program with SIGKILL.

    Returns:
        containerd's name of the killed container.
    """
    found = system.bed.containers(node)[system.pod(pod)["metadata"]["uid"], container]
    ctr = (str(system.tools.containerd_bin / "ctr"), "-a", RUNTIME_SOCKET, "-n", "k8s.io")
    system.bed.run(node, *ctr, "tasks", "kill", "-s", "SIGKILL", found.id)
    return found.id
