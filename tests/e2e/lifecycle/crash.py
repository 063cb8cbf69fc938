"""End the program of a container, as a crash would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.bed.node import RUNTIME_SOCKET

if TYPE_CHECKING:
    from tests.e2e.system import System


def crash(system: System, node: str, pod: str, container: str = "main") -> str:
    """Kill it with SIGKILL.

    Returns:
        containerd's name for the container that ended.
    """
    found = system.bed.containers(node)[system.pod(pod)["metadata"]["uid"], container]
    ctr = (str(system.tools.containerd_bin / "ctr"), "-a", RUNTIME_SOCKET, "-n", "k8s.io")
    system.bed.run(node, *ctr, "tasks", "kill", "-s", "SIGKILL", found.id)
    return found.id
