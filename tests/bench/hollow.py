"""Nodes without machines, to measure only scheduling: ``python -m tests.bench.hollow KUBECONFIG COUNT``.

The program creates node objects with GPUs on a real API server, keeps them Ready and renews their Leases. It runs no
pods. For each pod that it sees bound, it prints ``bound SECONDS`` with the machine's monotonic clock. So a measurement
need not query the API server. It does nothing else of a kubelet's work, since that would take processor time from the
programs under test.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from hami_core.model import Device
from hami_core.wire import node as node_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MERGE = {"Content-Type": "application/merge-patch+json"}
CARDS, SLOTS, CARD_MIB = 8, 10, 81920
RENEWAL = 35  # seconds; a node whose Lease is 50 s old is not Ready


def connect(kubeconfig: Path) -> aiohttp.ClientSession:
    """A session with the API server of a kubeconfig that has a token."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    return aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(ssl=context, limit=64),
        headers={"Authorization": f"Bearer {user['token']}"},
    )


def node(name: str) -> dict[str, Any]:
    """A node of eight cards, as our agent registers it."""
    devices = [
        Device(f"GPU-{name}-{index}", index, SLOTS, CARD_MIB, 100, "NVIDIA-A100", "NVIDIA", index // 4)
        for index in range(CARDS)
    ]
    annotations = {"hami.io/node-nvidia-register": node_wire.encode_devices_json(devices)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "gpu": "on", "hami.io/agent-nvidia": "ready"},
            "annotations": annotations,
        },
    }


def status() -> dict[str, Any]:
    """A node status with plenty of room, and Ready."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(CARDS * SLOTS)}
    now = _now()
    ready = {"type": "Ready", "status": "True", "reason": "Hollow", "lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}


class Hollow:
    """Creates nodes and keeps them Ready."""

    def __init__(self, api: aiohttp.ClientSession, names: list[str]) -> None:
        self.api = api
        self.names = names

    async def run(self, ready: Callable[[], None]) -> None:
        """Create the nodes, call `ready`, and keep the nodes Ready until cancelled."""
        await self._each(self._make)
        ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            group.create_task(self._watch())

    async def _each(self, call: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        gate = asyncio.Semaphore(32)

        async def one(name: str) -> None:
            async with gate:
                await call(name)

        await asyncio.gather(*(one(name) for name in self.names))

    async def _make(self, name: str) -> None:
        await self._call("POST", "/api/v1/nodes", node(name))
        await self._call("PATCH", f"/api/v1/nodes/{name}/status", status(), MERGE)
        lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}
        lease["spec"]["renewTime"] = _now(micro=True)
        await self._call("POST", LEASES, lease)

    async def _renew(self) -> None:
        """Renew Leases at an even rate. A burst within a short measurement would change its result."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        for name in itertools.cycle(self.names):
            await self._call("PATCH", f"{LEASES}/{name}", {"spec": {"renewTime": _now(micro=True)}}, MERGE)
            due += RENEWAL / len(self.names)
            await asyncio.sleep(due - loop.time())

    async def _watch(self) -> None:
        path = "/api/v1/pods?watch=1&resourceVersion=0&fieldSelector=spec.nodeName!="
        while True:
            try:
                async with self.api.get(path, timeout=aiohttp.ClientTimeout(sock_read=300)) as stream:
                    async for line in stream.content:
                        self._seen(json.loads(line))
            except (aiohttp.ClientError, TimeoutError) as error:
                print(error, flush=True)
                await asyncio.sleep(0.5)

    def _seen(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise aiohttp.ClientPayloadError(f"the watch of pods: {event['object'].get('message')}")
        if event["type"] == "ADDED":
            print("bound", time.monotonic(), flush=True)

    async def _call(self, method: str, path: str, body: object, headers: dict[str, str] | None = None) -> None:
        async with self.api.request(method, path, json=body, headers=headers) as answer:
            if answer.status >= 300 and answer.status not in {404, 409}:
                print(method, path, answer.status, (await answer.text())[:300], flush=True)


def _now(*, micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


async def _main(kubeconfig: Path, count: int) -> None:
    async with connect(kubeconfig) as api:
        await Hollow(api, [f"hollow-{index:05}" for index in range(count)]).run(lambda: print("ready", flush=True))


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hollow", description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    asyncio.run(_main(options.kubeconfig, options.count))


if __name__ == "__main__":
    main()
