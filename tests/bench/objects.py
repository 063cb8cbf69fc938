"""The scheduler process in a cluster of 1,000 nodes with objects of realistic size.

A node object has 11 kB (25 images), a pod object 5 kB. Each node has eight cards of 80 GiB and four running pods of two
cards each. Four fifths of all memory are taken. This measures the start, single Filters, and memory.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from hami_core.model import Device, Slice
from hami_core.sim import Cluster
from hami_core.wire import node as node_wire
from hami_core.wire import pod as pod_wire
from tests.bench.figures import Figure, p50_p99
from tests.bench.http import cpu_s, rss_mib, scheduler

if TYPE_CHECKING:
    from hami_core.testing.parts import Part

BENCH: Final = "objects"
NODES, CARDS, PODS_A_NODE = 1000, 8, 4
TAKEN_MIB: Final = range(45_000, 85_000)
"""MiB that a running pod takes of each of its two cards of 81,920 MiB. A larger amount is cut to the card."""


def run(*, quick: bool) -> list[Figure]:
    """Measure all cases."""
    return asyncio.run(_run(40 if quick else 200))


async def _run(rounds: int) -> list[Figure]:
    rng = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="hami-") as name:
        folder = Path(name)
        async with Cluster(folder, nodes=[]) as cluster:
            async with aiohttp.ClientSession(cluster.url) as session:
                await _populate(session, rng)
            part, port, _ = scheduler(folder, cluster)
            start = time.monotonic()
            part.start()
            try:
                await part.ready(120)
                await asyncio.to_thread(_filters, port, rng, 1)
                answered = time.monotonic() - start
                case = f"{NODES} nodes, {NODES * PODS_A_NODE} running pods"
                started = [
                    Figure(BENCH, f"start to the first Filter's answer, {case}", answered, "s"),
                    Figure(BENCH, f"processor time of that, {case}", cpu_s(part), "s"),
                ]
                return [*started, *await asyncio.to_thread(_measure, port, rng, rounds, part, case)]
            finally:
                part.signal(signal.SIGTERM)
                part.wait()


def _measure(port: int, rng: random.Random, rounds: int, part: Part, case: str) -> list[Figure]:
    spent = cpu_s(part)
    taken = _filters(port, rng, rounds)
    return [
        *p50_p99(BENCH, f"Filter, {case}", taken),
        Figure(BENCH, f"processor time of a Filter, {case}", (cpu_s(part) - spent) / rounds * 1e3, "ms"),
        Figure(BENCH, f"memory of the scheduler process, {case}", rss_mib(part), "MiB"),
    ]


async def _populate(session: aiohttp.ClientSession, rng: random.Random) -> None:
    gate = asyncio.Semaphore(32)

    async def post(path: str, body: object) -> None:
        async with gate, session.post(path, json=body) as answer:
            assert answer.status < 300, await answer.text()

    async def one(number: int) -> None:
        node, cards = _node(number)
        await post("/api/v1/nodes", node)
        for pod in _pods(node["metadata"]["name"], cards, rng):
            await post("/api/v1/namespaces/default/pods", pod)

    await asyncio.gather(*(one(number) for number in range(NODES)))


def _node(number: int) -> tuple[dict[str, Any], list[Device]]:
    ids = [f"GPU-{number:08x}-{i:04x}-0000-0000-000000000000" for i in range(CARDS)]
    cards = [Device(d, i, 10, 81_920, 100, "NVIDIA-A100", "NVIDIA", i // 4) for i, d in enumerate(ids)]
    images = [
        {
            "names": [
                f"registry.example/{'team' * 20}/{i:02}@sha256:{'0' * 64}",
                f"registry.example/{'team' * 40}/{i:02}",
            ]
        }
        for i in range(25)
    ]
    node = {
        "metadata": {
            "name": f"node-{number:05d}",
            "labels": {"hami.io/agent-nvidia": "ready"},
            "annotations": {"hami.io/node-nvidia-register": node_wire.encode_devices_json(cards)},
        },
        "status": {"allocatable": {"nvidia.com/gpu": "80"}, "capacity": {"nvidia.com/gpu": "80"}, "images": images},
    }
    return node, cards


def _pods(node: str, cards: list[Device], rng: random.Random) -> list[dict[str, Any]]:
    env = [{"name": f"VARIABLE_{i:02}", "value": "x" * 140} for i in range(25)]
    pods = []
    for number in range(PODS_A_NODE):
        own = cards[number % (CARDS // 2) * 2 :][:2]
        slices = [[Slice(card.id, "NVIDIA", min(card.memory_mib, rng.choice(TAKEN_MIB)), 50) for card in own]]
        pods.append(
            {
                "metadata": {
                    "name": f"busy-{node}-{number}",
                    "annotations": {
                        "hami.io/vgpu-node": node,
                        "hami.io/vgpu-devices-allocated": pod_wire.encode_pod_devices(slices),
                    },
                },
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x", "env": env}]},
            }
        )
    return pods


def _filters(port: int, rng: random.Random, rounds: int) -> list[float]:
    """Seconds of each Filter. They run one after the other."""
    names = [f"node-{number:05d}" for number in range(NODES)]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken = []
    for number in range(rounds):
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(rng.randrange(500, 9000)), "nvidia.com/gpucores": "5"}
        spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
        metadata = {"name": "p", "namespace": "default", "uid": f"u{rounds}-{number}"}
        body = json.dumps({"Pod": {"metadata": metadata, "spec": spec}, "NodeNames": names}).encode()
        start = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        taken.append(time.perf_counter() - start)
        assert answer["NodeNames"], answer
    return taken
