"""10,000 refused pods that wait, on 1,000 full nodes of eight cards, through the whole scheduler process.

*One shape*: the pods of a Deployment. *Many shapes*: each pod asks for an amount of its own, so each needs a search of
its own. After a change that may have made room, the scheduler looks for waiting pods that fit by now. Meanwhile another
pod is filtered again and again, and its answers must not be late. The API server is the embedded one.
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from hami_core.model import Device, Slice
from hami_core.sim import Cluster
from hami_core.wire import keys
from hami_core.wire import node as node_wire
from hami_core.wire import pod as pod_wire
from tests.bench.figures import Figure, percentile
from tests.bench.http import CARDS, cpu_s, rss_mib, scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable

    from hami_core.testing.parts import Part

BENCH: Final = "pending"
NODES, CARD_MIB = 1000, 81_559
NAMES: Final = [f"node-{number:05d}" for number in range(NODES)]
PODS: Final = "/api/v1/namespaces/default/pods"
QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
SMALLEST_MIB: Final = 20_000
"""What a waiting pod asks for at least. Each card of a full node has less left."""
WATCH_S: Final = 20.0
"""How long another pod is filtered after each change."""
CALLS_AT_ONCE: Final = 16
SHAPES: Final = {"one shape": 1, "many shapes": 50_000}


def run(*, quick: bool) -> list[Figure]:
    """Measure waiting pods of one and of many shapes. `quick` takes a tenth of the pods."""
    count = 1000 if quick else 10_000
    return [figure for name, shapes in SHAPES.items() for figure in asyncio.run(_run(name, shapes, count))]


async def _run(name: str, shapes: int, count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hami-") as folder:
        async with Cluster(folder, nodes=[]) as cluster, aiohttp.ClientSession() as session:
            part, port, _ = scheduler(Path(folder), cluster)
            crowd = _Crowd(session, cluster, part, f"http://127.0.0.1:{port}", f"{count} pods of {name}")
            await crowd.fill_nodes()
            part.start()
            try:
                await part.ready(60)
                return [figure async for figure in crowd.measure(shapes, count)]
            finally:
                part.signal(signal.SIGTERM)
                part.wait()


class _Crowd:
    """Waiting pods, and what the scheduler does about them.

    Args:
        session: For all requests.
        cluster: The embedded API server.
        part: The scheduler process.
        extender: URL of its extender.
        case: Name of the pods in the figures.
    """

    def __init__(self, session: aiohttp.ClientSession, cluster: Cluster, part: Part, extender: str, case: str) -> None:
        self._session = session
        self._cluster = cluster
        self._part = part
        self._extender = extender
        self._case = case
        self._gate = asyncio.Semaphore(CALLS_AT_ONCE)
        self._retried: dict[str, float] = {}
        self._probe: dict[str, Any] = {}

    async def measure(self, shapes: int, count: int) -> AsyncIterator[Figure]:
        """All figures."""
        self._probe = await self._call("POST", PODS, self._pod(count, 2 * CARD_MIB))
        empty = rss_mib(self._part)
        yield self._figure("memory without them", empty, "MiB")
        asked = Counter(await self._cluster.requests())
        watching = asyncio.create_task(self._watch())
        taken = await self._together(self._refuse(number, SMALLEST_MIB + number % shapes) for number in range(count))
        for figure in self._latency("their Filters", taken):
            yield figure
        await asyncio.sleep(5)
        yield self._figure("memory that they take", rss_mib(self._part) - empty, "MiB")
        calls = Counter(await self._cluster.requests()) - asked
        written = sum(n for call, n in calls.items() if " events" in call)
        yield self._figure("writes of events", written, "writes")
        await asyncio.sleep(11)  # kube-scheduler itself retries the pods that were refused just before
        async for figure in self._after("a quota was raised, nothing fits", self._raise_quota("1")):
            yield figure
        async for figure in self._after("a node was freed", self._free(NAMES[0])):
            yield figure
        async for figure in self._after("a node was freed and a quota was raised", self._raise_quota("2")):
            yield figure
        watching.cancel()

    async def _after(self, what: str, change: Awaitable[None]) -> AsyncIterator[Figure]:
        """Make a change, and filter another pod meanwhile."""
        self._retried.clear()
        body = {"Pod": self._probe, "NodeNames": NAMES}
        spent, began = cpu_s(self._part), time.monotonic()
        await change
        taken = []
        while time.monotonic() < began + WATCH_S:
            taken.append(await self._ask("filter", body))
            await asyncio.sleep(0.05)
        for figure in self._latency(f"Filters of another pod after {what}", taken):
            yield figure
        busy = (cpu_s(self._part) - spent) / (time.monotonic() - began)
        yield self._figure(f"processor time after {what}", 100 * busy, "%")
        yield self._figure(f"pods retried after {what}", len(self._retried), "pods")
        if self._retried:
            first = min(self._retried.values()) - began
            yield self._figure(f"first retry after {what}", first, "s")

    # --- the cluster

    async def fill_nodes(self) -> None:
        """Create nodes, each with a running pod that takes nearly all memory."""
        await self._together(self._full_node(name) for name in NAMES)

    async def _full_node(self, name: str) -> None:
        cards = [
            Device(f"GPU-{name}-{at}", at, 10, CARD_MIB, 100, "NVIDIA-H100", "NVIDIA", at // 4) for at in range(CARDS)
        ]
        annotations = {"hami.io/node-nvidia-register": node_wire.encode_devices_json(cards)}
        meta = {"name": name, "labels": {"hami.io/agent-nvidia": "ready"}, "annotations": annotations}
        await self._call("POST", "/api/v1/nodes", {"metadata": meta, "status": {"capacity": {"nvidia.com/gpu": "80"}}})
        slices = [[Slice(card.id, "NVIDIA", CARD_MIB - 10_000, 10)] for card in cards]
        given = {"hami.io/vgpu-node": name, "hami.io/vgpu-devices-allocated": pod_wire.encode_pod_devices(slices)}
        containers = [{"name": f"c{at}", "image": "x"} for at in range(CARDS)]
        meta = {"name": f"busy-{name}", "annotations": given}
        await self._call("POST", PODS, {"metadata": meta, "spec": {"nodeName": name, "containers": containers}})

    async def _refuse(self, number: int, memory: int) -> float:
        """Create a pod and filter it as kube-scheduler does. Returns Filter's time in seconds."""
        made = await self._call("POST", PODS, self._pod(number, memory))
        taken = await self._ask("filter", {"Pod": made, "NodeNames": NAMES})
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"conditions": [condition]}}
        await self._call("PATCH", f"{PODS}/{made['metadata']['name']}/status", status)
        return taken

    @staticmethod
    def _pod(number: int, memory: int) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
        containers = [{"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}]
        spec = {"schedulerName": "bench", "containers": containers}  # not the embedded scheduler's
        return {"metadata": {"name": f"waiting-{number:05d}", "namespace": "default"}, "spec": spec}

    async def _free(self, node: str) -> None:
        await self._call("DELETE", f"{PODS}/busy-{node}?gracePeriodSeconds=0")

    async def _raise_quota(self, name: str) -> None:
        hard = {"limits.nvidia.com/gpu": "1000000"}
        await self._call("POST", QUOTAS, {"metadata": {"name": f"quota-{name}"}, "spec": {"hard": hard}})

    async def _watch(self) -> None:
        """Remember when each pod was retried."""
        url = f"{self._cluster.url}{PODS}?watch=1"
        async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as stream:
            while line := await stream.content.readline():
                meta = json.loads(line)["object"]["metadata"]
                if keys.SCHEDULING_RETRY in meta.get("annotations", {}):
                    self._retried.setdefault(meta["name"], time.monotonic())

    # --- requests

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        async with self._session.request(method, self._cluster.url + path, json=body, headers=headers) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def _ask(self, verb: str, body: object) -> float:
        """Ask the extender about a pod that fits nowhere. Returns the time in seconds."""
        data = json.dumps(body).encode()
        start = time.perf_counter()
        async with self._session.post(f"{self._extender}/{verb}", data=data) as answer:
            found = await answer.json(content_type=None)
        taken = time.perf_counter() - start
        assert not found["NodeNames"], "it must not fit"
        return taken

    async def _together(self, work: Iterable[Awaitable[Any]]) -> list[Any]:
        async def one(task: Awaitable[Any]) -> Any:
            async with self._gate:
                return await task

        return await asyncio.gather(*map(one, work))

    # --- figures

    def _figure(self, what: str, value: float, unit: str) -> Figure:
        return Figure(BENCH, f"{self._case}: {what}", value, unit)

    def _latency(self, what: str, seconds: list[float]) -> list[Figure]:
        return [
            self._figure(f"{what}, p50", 1e3 * statistics.median(seconds), "ms"),
            self._figure(f"{what}, p99", 1e3 * percentile(seconds, 99), "ms"),
            self._figure(f"{what}, longest", 1e3 * max(seconds), "ms"),
        ]
