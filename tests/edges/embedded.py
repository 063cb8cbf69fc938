"""The embedded cluster as a subject."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hami_core.sim import Cluster, NodeSpec
from tests.edges.api import Api
from tests.edges.subject import NODE, listening

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator
    from pathlib import Path


class Embedded:
    """A running embedded cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.api = Api(cluster.url)

    def listen(self) -> socket.socket:
        return listening()

    async def schedule_with(self, config: dict[str, Any]) -> None:
        await self._cluster.configure_scheduler(config)

    @property
    def plugin_dir(self) -> Path:
        return self._cluster.node(NODE).plugin_dir

    @property
    def cdi_dir(self) -> Path:
        return self._cluster.node(NODE).cdi_dir

    async def restart_kubelet(self) -> None:
        await self._cluster.restart(f"kubelet:{NODE}")

    def program(self, script: str) -> dict[str, Any]:
        return {"image": "localhost/edge:1", "command": ["/bin/sh", "-c", script]}

    def pod_part(self) -> dict[str, Any]:
        return {}

    async def forget(self) -> None:
        await self._cluster.compact()


@asynccontextmanager
async def embedded(folder: Path, *api_args: str) -> AsyncIterator[Embedded]:
    """Run an embedded cluster with one node for the time of the context."""
    node = NodeSpec(NODE, resync_seconds=2, crash_seconds=0.2, settle_seconds=1)
    async with Cluster(folder, [node], api_args=["--bookmark-seconds", "1", *api_args]) as cluster:
        found = Embedded(cluster)
        try:
            yield found
        finally:
            await found.api.close()
