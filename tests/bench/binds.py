"""Filter, Prioritize and Bind of many pods through the whole scheduler process, in kube-scheduler's order.

*One node*: 40 small pods that fit on one node only. Filters run one after the other, and Binds run beside them.
*Four at once*: four clients place pods until nothing fits. Then the allocations of all pods are added up by card.
The API server is the embedded one.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import aiohttp

from hami_core.sim import Cluster
from hami_core.wire.pod import decode_pod_devices
from tests.bench.figures import Figure
from tests.bench.http import CARDS, populate, scheduler

BENCH: Final = "binds"
NODES, CARD_MIB = 100, 81_559
SMALL_PODS, LARGE_PODS, FULL_NODES, CLIENTS = 40, 300, 10, 4
PODS: Final = "/api/v1/namespaces/default/pods"
ALLOCATED_KEY: Final = "hami.io/vgpu-devices-allocated"
ONE_NODE, AT_ONCE = f"{SMALL_PODS} pods on one node", f"{CLIENTS} clients at once"
CASES: Final[dict[str, tuple[str, float | None]]] = {
    f"{ONE_NODE}, until all are bound": ("s", None),
    f"{ONE_NODE}, refused Binds": ("binds", 0.0),
    f"{ONE_NODE}, API calls for each pod, events included": ("calls", None),
    f"{ONE_NODE}, API calls for each pod, events left out": ("calls", None),
    f"{AT_ONCE}, pods bound of {LARGE_PODS}": ("pods", None),
    f"{AT_ONCE}, cards over their memory": ("cards", 0.0),
}
"""What is measured → unit and budget."""


def run(*, quick: bool) -> list[Figure]:
    """Run both cases three times, or once if `quick`, and report the medians."""
    turns = [asyncio.run(_turn()) for _ in range(1 if quick else 3)]
    return [
        Figure(BENCH, case, statistics.median(turn[case] for turn in turns), unit, budget)
        for case, (unit, budget) in CASES.items()
    ]


async def _turn() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="hami-") as name:
        folder = Path(name)
        async with Cluster(folder, nodes=[]) as cluster, aiohttp.ClientSession() as session:
            async with aiohttp.ClientSession(cluster.url) as filling:
                await populate(filling, NODES)
            part, port, _ = scheduler(folder, cluster)
            part.start()
            try:
                await part.ready(60)
                client = _Client(session, cluster, f"http://127.0.0.1:{port}")
                return await _one_node(client) | await _four_at_once(client)
            finally:
                part.signal(signal.SIGTERM)
                part.wait()


class _Client:
    """Calls the extender like kube-scheduler."""

    def __init__(self, session: aiohttp.ClientSession, cluster: Cluster, extender: str) -> None:
        self._session = session
        self._extender = extender
        self.cluster = cluster

    async def call(self, url: str, body: object = None) -> Any:
        """Send a POST of JSON, or a GET without a body."""
        method = "GET" if body is None else "POST"
        async with self._session.request(method, url, json=body) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json(content_type=None)

    async def create(self, name: str, memory: int) -> dict[str, Any]:
        """Create a waiting pod that asks for one card."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
        containers = [{"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}]
        spec = {"schedulerName": "bench", "containers": containers}  # not the embedded scheduler's
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        made: dict[str, Any] = await self.call(self.cluster.url + PODS, body)
        return made

    async def filter(self, pod: dict[str, Any], nodes: list[str]) -> str:
        """The node with the highest score. Empty if the pod fits nowhere."""
        found = (await self.call(f"{self._extender}/filter", {"Pod": pod, "NodeNames": nodes}))["NodeNames"]
        if not found:
            return ""
        scores = await self.call(f"{self._extender}/prioritize", {"Pod": pod, "NodeNames": found})
        return str(max(scores, key=lambda score: score["Score"])["Host"])

    async def bind(self, pod: dict[str, Any], node: str) -> bool:
        """Bind the pod. Returns whether it was bound."""
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        return not (await self.call(f"{self._extender}/bind", body))["Error"]


async def _one_node(client: _Client) -> dict[str, float]:
    pods = [await client.create(f"small{number:02}", 300) for number in range(SMALL_PODS)]
    node = await client.filter(pods[0], [f"node-{number:05d}" for number in range(NODES)])
    asked = Counter(await client.cluster.requests())
    start = time.perf_counter()
    binds = []
    for pod in pods:
        assert await client.filter(pod, [node]) == node
        binds.append(asyncio.create_task(client.bind(pod, node)))
    bound = await asyncio.gather(*binds)
    taken = time.perf_counter() - start
    await asyncio.sleep(1)  # events are written in the background
    calls = Counter(await client.cluster.requests()) - asked
    ours = {what: count for what, count in calls.items() if what.endswith(" hami-scheduler") and "lease" not in what}
    events = sum(count for what, count in ours.items() if " events " in what)
    return {
        f"{ONE_NODE}, until all are bound": taken,
        f"{ONE_NODE}, refused Binds": bound.count(False),
        f"{ONE_NODE}, API calls for each pod, events included": sum(ours.values()) / SMALL_PODS,
        f"{ONE_NODE}, API calls for each pod, events left out": (sum(ours.values()) - events) / SMALL_PODS,
    }


async def _four_at_once(client: _Client) -> dict[str, float]:
    names = [f"node-{number:05d}" for number in range(FULL_NODES)]
    waiting = [await client.create(f"large{number:03}", 20_000) for number in range(LARGE_PODS)]

    async def place() -> int:
        bound = 0
        while waiting:
            pod = waiting.pop()
            node = await client.filter(pod, names)
            bound += bool(node) and await client.bind(pod, node)
        return bound

    bound = sum(await asyncio.gather(*(place() for _ in range(CLIENTS))))
    taken: Counter[str] = Counter()
    for pod in (await client.call(client.cluster.url + PODS))["items"]:
        text = pod["metadata"].get("annotations", {}).get(ALLOCATED_KEY)
        for held in decode_pod_devices(text, key=ALLOCATED_KEY, family="NVIDIA") if text else ():
            for piece in held:
                taken[piece.device_id] += piece.memory_mib
    assert len(taken) == NODES * CARDS
    assert 0 < bound < LARGE_PODS, "there must be more pods than fit"
    return {
        f"{AT_ONCE}, pods bound of {LARGE_PODS}": bound,
        f"{AT_ONCE}, cards over their memory": sum(mib > CARD_MIB for mib in taken.values()),
    }
