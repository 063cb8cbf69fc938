"""What scenarios need from a cluster, real or embedded."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from tests.edges.api import Api

NODE = "node1"
"""The node that has a kubelet."""
SCHEDULER = "edges"
"""Name of the scheduler that `Scene` configures."""


class Subject(Protocol):
    """A cluster under test."""

    api: Api

    def listen(self) -> socket.socket:
        """Open a socket on 127.0.0.1 that API server and scheduler can reach."""

    async def schedule_with(self, config: dict[str, Any]) -> None:
        """Start a kube-scheduler with these settings beside the cluster's own."""

    @property
    def plugin_dir(self) -> Path:
        """Folder of kubelet.sock, as this process sees it."""

    @property
    def cdi_dir(self) -> Path:
        """Folder of CDI specifications, as this process sees it."""

    async def restart_kubelet(self) -> None:
        """Restart the node's kubelet and wait until it runs."""

    def program(self, script: str) -> dict[str, Any]:
        """The fields of a container that make it run a shell script."""

    def pod_part(self) -> dict[str, Any]:
        """The fields of a pod's spec that such containers need."""

    async def forget(self) -> None:
        """Make the API server forget its history, so that no watch can resume from an older version."""


@dataclass
class Port:
    """A listening socket with its URL."""

    socket: socket.socket

    @property
    def number(self) -> int:
        """The TCP port."""
        return int(self.socket.getsockname()[1])


def listening() -> socket.socket:
    """Open a socket on a free port of 127.0.0.1, in this thread's network namespace."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", 0))
    found.listen(64)
    found.setblocking(False)
    return found
