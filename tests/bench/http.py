"""Filter and webhook over HTTP, through the whole scheduler process, as kube-scheduler and API server use it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from hami_core.model import Device, Slice
from hami_core.sim import Cluster
from hami_core.testing.parts import Part, free_port
from hami_core.wire import node as node_wire
from hami_core.wire import pod as pod_wire
from tests.bench import scrape
from tests.bench.figures import Figure, p50_p99

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES, CARDS = 5000, 8
RNG = random.Random(7)


def run(*, quick: bool) -> list[Figure]:
    """Measure the latency of each verb."""
    return asyncio.run(_run(200 if not quick else 40))


async def _run(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hami-") as folder:
        async with Cluster(folder, nodes=[]) as cluster:
            async with aiohttp.ClientSession(cluster.url) as session:
                await populate(session, NODES)
            part, port, metrics = scheduler(Path(folder), cluster)
            start = time.monotonic()
            part.start()
            try:
                await part.ready(60)
                ready = time.monotonic() - start
                figures = [
                    Figure("http", f"start to ready, {NODES} nodes", ready, "s", 5.0),
                    Figure("http", f"processor time of that, {NODES} nodes", cpu_s(part), "s", 5.0),
                ]
                figures += await asyncio.to_thread(_measure, port, rounds)
                figures.append(Figure("http", "memory of the scheduler process", rss_mib(part), "MiB", 300.0))
                figures += await asyncio.to_thread(scrape.measure, port, metrics, f"{NODES} x {CARDS}")
                figures.append(Figure("http", "memory of the scheduler process after scrapes", rss_mib(part), "MiB"))
                return figures
            finally:
                part.signal(signal.SIGTERM)
                part.wait()


def scheduler(
    folder: Path, cluster: Cluster, *, vendors: str = "nvidia", more: Sequence[str] = ()
) -> tuple[Part, int, int]:
    """The scheduler process, not yet started, with the ports of the extender and of ``/metrics``.

    Args:
        folder: For its log.
        cluster: Has the API server.
        vendors: Names of the vendors to load; empty: all that are installed.
        more: Further arguments.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": ""}
    _compile(environment)
    port, metrics = free_port(), free_port()
    part = Part(
        "scheduler",
        [sys.executable, "-m", "hami_core", "scheduler", f"--kubeconfig={cluster.kubeconfig}",
         f"--http_bind=127.0.0.1:{port}", f"--metrics-bind-address=127.0.0.1:{metrics}",
         f"--vendors={vendors}", "--log-format=json", *more],
        environment,
        folder / "scheduler.log",
        f"http://127.0.0.1:{metrics}/readyz",
    )  # fmt: skip
    return part, port, metrics


def _compile(environment: dict[str, str]) -> None:
    """Compile the modules to bytecode, as in an image. Compiling would take longer than the rest of the start."""
    modules = "import hami_core.cli.main, hami_core.scheduler.process, hami_nvidia, kubernetes.aio.client"
    subprocess.run([sys.executable, "-c", modules], env=environment, check=True)


def cpu_s(part: Part) -> float:
    """Processor seconds that a part has used so far."""
    assert part.process is not None
    fields = Path(f"/proc/{part.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(part: Part) -> float:
    """Resident memory of a part."""
    assert part.process is not None
    status = Path(f"/proc/{part.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


async def populate(session: aiohttp.ClientSession, nodes: int) -> None:
    """Create nodes of eight cards, each with one running pod that takes a different amount of each card."""
    gate = asyncio.Semaphore(32)

    async def post(path: str, body: object) -> None:
        async with gate, session.post(path, json=body) as answer:
            assert answer.status < 300, await answer.text()

    async def one(number: int) -> None:
        name = f"node-{number:05d}"
        cards = [
            Device(
                f"GPU-{number:08x}-{i:04x}-0000-0000-000000000000", i, 10, 81_559, 100, "NVIDIA-H100", "NVIDIA", i // 4
            )
            for i in range(CARDS)
        ]
        node = {
            "metadata": {
                "name": name,
                "labels": {"hami.io/agent-nvidia": "ready"},
                "annotations": {"hami.io/node-nvidia-register": node_wire.encode_devices_json(cards)},
            },
            "status": {"allocatable": {"nvidia.com/gpu": "80"}, "capacity": {"nvidia.com/gpu": "80"}},
        }
        await post("/api/v1/nodes", node)
        slices = [[Slice(c.id, "NVIDIA", RNG.randrange(500, 60_000), RNG.randrange(0, 60))] for c in cards]
        pod = {
            "metadata": {
                "name": f"busy-{number:05d}",
                "annotations": {
                    "hami.io/vgpu-node": name,
                    "hami.io/vgpu-devices-allocated": pod_wire.encode_pod_devices(slices),
                },
            },
            "spec": {"nodeName": name, "containers": [{"name": f"c{i}", "image": "x"} for i in range(CARDS)]},
        }
        await post("/api/v1/namespaces/default/pods", pod)

    await asyncio.gather(*(one(number) for number in range(nodes)))


def _measure(port: int, rounds: int) -> list[Figure]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    names = [f"node-{number:05d}" for number in range(NODES)]

    def ask(path: str, body: bytes) -> float:
        start = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        taken = time.perf_counter() - start
        document = json.loads(answer)
        assert not document.get("Error"), document["Error"]
        if path == "/filter":
            assert document["NodeNames"], answer[:200]
        return taken

    def filters(containers: int) -> list[float]:
        found = []
        for number in range(rounds):
            specs = [
                {"name": f"c{i}", "resources": {"limits": {"nvidia.com/gpu": str(RNG.choice([1, 1, 2])),
                 "nvidia.com/gpumem": str(RNG.randrange(500, 9000)), "nvidia.com/gpucores": str(RNG.randrange(1, 20))}}}
                for i in range(containers)
            ]  # fmt: skip
            pod = {
                "metadata": {"name": "p", "namespace": "default", "uid": f"u{containers}-{number}"},
                "spec": {"containers": specs},
            }
            found.append(ask("/filter", json.dumps({"Pod": pod, "NodeNames": names}).encode()))
        return found

    def webhooks() -> list[float]:
        found = []
        for number in range(rounds):
            limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(500 + number)}
            container = {"name": "c", "image": "x", "resources": {"limits": limits, "requests": limits}}
            metadata = {"name": "p", "namespace": "default"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
            request = {"uid": f"r{number}", "operation": "CREATE", "namespace": "default", "object": pod}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            found.append(ask("/webhook", json.dumps(review).encode()))
        return found

    filters(1)
    return [
        *p50_p99("http", f"filter, one container, {NODES} x {CARDS}", filters(1), budget_ms=(4, 15)),
        *p50_p99("http", f"filter, three containers, {NODES} x {CARDS}", filters(3)),
        *p50_p99("http", "webhook", webhooks()),
    ]
