"""Real Kubernetes, on the bed, as a subject."""

from __future__ import annotations

import asyncio
import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.bed import control_plane
from tests.edges.api import Api
from tests.edges.subject import NODE, listening

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.e2e.bed.bed import Bed

_CLONE_NEWNET = 0x40000000
_FOLDERS = ("/bin", "/lib", "/lib64", "/usr")
"""Folders of the node that containers mount to have a shell. So no image needs one."""


class Real:
    """A running bed as a subject.

    Args:
        bed: The bed. It has the node `NODE`.
    """

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self.api = Api("http://localhost", bed.api)

    def listen(self) -> socket.socket:
        """Open a socket in the control plane's network namespace.

        A thread of its own enters the namespace. The socket stays in it.
        """
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._listen_there).result()

    def _listen_there(self) -> socket.socket:
        libc = ctypes.CDLL(None, use_errno=True)
        network = os.open(self._bed.root(control_plane.MACHINE).parent / "ns/net", os.O_RDONLY)
        try:
            if libc.setns(network, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns: the control plane's network")
        finally:
            os.close(network)
        return listening()

    async def schedule_with(self, config: dict[str, Any]) -> None:
        bed = self._bed
        kubeconfig = {"kubeconfig": f"{bed.work}/kubeconfig/kube-scheduler", "qps": 500, "burst": 1000}
        file = control_plane.write_json(bed.work / "config/edges.json", {**config, "clientConnection": kubeconfig})
        command = [str(bed.tools.kubernetes_bin / "kube-scheduler"), f"--config={file}", "--secure-port=10359", "-v=3"]
        if "kube-scheduler:edges" in bed.state.components:
            await asyncio.to_thread(bed.stop, "kube-scheduler:edges")
        await asyncio.to_thread(bed.components.define, "kube-scheduler:edges", control_plane.MACHINE, command)

    @property
    def plugin_dir(self) -> Path:
        return self._bed.root(NODE) / "var/lib/kubelet/device-plugins"

    @property
    def cdi_dir(self) -> Path:
        return self._bed.root(NODE) / "run/cdi"

    async def restart_kubelet(self) -> None:
        await asyncio.to_thread(self._bed.restart, f"kubelet:{NODE}")

    def program(self, script: str) -> dict[str, Any]:
        mounts = [{"name": f.strip("/"), "mountPath": f, "readOnly": True} for f in _FOLDERS]
        return {"image": "localhost/pause:1", "command": ["/bin/sh", "-c", script], "volumeMounts": mounts}

    def pod_part(self) -> dict[str, Any]:
        return {"volumes": [{"name": f.strip("/"), "hostPath": {"path": f}} for f in _FOLDERS]}

    async def forget(self) -> None:
        """Restart the API server: its new caches hold no old versions."""
        await asyncio.to_thread(self._bed.kill, "kube-apiserver")  # on SIGTERM it would wait for all watches to end
        await asyncio.to_thread(self._bed.start, "kube-apiserver")
        await asyncio.to_thread(
            self._bed.wait, "kube-apiserver ready", lambda: self._bed.call("GET", "/readyz") == "ok"
        )


@asynccontextmanager
async def real(bed: Bed) -> AsyncIterator[Real]:
    """Use a running bed as a subject for the time of the context."""
    found = Real(bed)
    try:
        yield found
    finally:
        await found.api.close()
