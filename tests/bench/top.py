"""Duration of ``hami top`` with 1,000 agents behind an API server, and of the scheduler's ``/usage`` at 5,000 nodes."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from hami_core.http.serve import Request
from hami_core.inventory import Inventory
from hami_core.kube.official import connect
from hami_core.model import Allocation, Booking, ContainerKind, ContainerSlices, Device, NodeFacts, Slice
from hami_core.reach import Reach
from hami_core.scheduler.usage import usage_route
from hami_core.sim import Cluster
from hami_core.sim.client import Client
from hami_core.tests.inventory.worlds import rules
from hami_core.tests.test_reach import Stage, ours
from hami_core.tests.top.fakes import of_card, of_slice
from hami_core.top.gather import Gatherer
from hami_core.top.plain import table
from hami_core.top.view import look, read_options
from tests.bench.figures import Figure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CARDS, PODS = 8, 16


def run(*, quick: bool = False) -> list[Figure]:
    """Measure, with a tenth of the nodes if it should be quick."""
    return asyncio.run(_run(5000 // (10 if quick else 1), 1000 // (10 if quick else 1)))


def cluster(nodes: int) -> Inventory:
    """Nodes of eight cards with four pods each."""
    inventory = Inventory(rules())
    for number in range(nodes):
        node = f"node-{number:05}"
        devices = [Device(f"{node}-{i}", i, 10, 40960, 100, "NVIDIA A100", "NVIDIA") for i in range(CARDS)]
        inventory.set_node(NodeFacts(node), {"NVIDIA": devices})
        for pod in range(4):
            pieces = (Slice(f"{node}-{pod}", "NVIDIA", 8000, 20),)
            container = ContainerSlices("main", ContainerKind.APP, pieces)
            inventory.set_pod(Booking(f"{node}-u{pod}", "team", f"p{pod}", Allocation(node, (container,))))
    return inventory


async def answer(inventory: Inventory) -> tuple[bytes, float, float]:
    """``/usage``, the seconds that it took, and the longest CPU time without a turn for other tasks."""
    longest, last = 0.0, time.thread_time()

    async def turns() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    task = asyncio.create_task(turns())
    start = time.perf_counter()
    stream: AsyncIterator[bytes] | None = (
        await usage_route(inventory, lambda: True).handler(Request("GET", "/usage"))
    ).stream
    assert stream is not None
    body = b"".join([piece async for piece in stream])
    taken = time.perf_counter() - start
    task.cancel()
    return body, taken, longest


async def _run(nodes: int, agents: int) -> list[Figure]:
    body, taken, longest = await answer(cluster(nodes))
    figures = [
        Figure("top", f"/usage of {nodes} nodes", taken * 1e3, "ms"),
        Figure("top", f"length of /usage of {nodes} nodes", len(body) / 2**20, "MiB"),
        Figure("top", f"longest CPU time between turns, {nodes} nodes", longest * 1e3, "ms", 5.0),
    ]
    said, _, _ = await answer(cluster(agents))
    return [*figures, Figure("top", f"hami top with {agents} agents", await _top(said, agents), "s", 60.0)]


async def _top(said: bytes, agents: int) -> float:
    """Seconds of one look through the embedded API server's proxy."""
    metrics = "".join(of_card("node-00000", i, 5000, 50) for i in range(CARDS))
    metrics += "".join(of_slice(f"u{i}", f"node-00000-{i % CARDS}", 2500, 3000, 20) for i in range(PODS))

    async def listener(request: web.Request) -> web.Response:
        return web.Response(body=said if request.path == "/usage" else metrics.encode())

    app = web.Application()
    app.router.add_get("/{path:.*}", listener)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        with tempfile.TemporaryDirectory(prefix="hami-") as folder:
            async with Cluster(Path(folder), nodes=[]) as embedded:
                client, api = Client(embedded.url, "bench"), await connect(embedded.kubeconfig)
                try:
                    stage = Stage(client, api, runner.addresses[0][1])
                    await stage.add(ours("scheduler", "scheduler", stage.port))
                    for number in range(agents):
                        pod: dict[str, Any] = ours(f"agent-{number}", "agent", stage.port)
                        pod["spec"]["nodeName"] = f"node-{number:05}"
                        await stage.add(pod)
                    options = read_options("nodes", sort="", filters=(), limit=None, no_agents=False, as_json=False)
                    start = time.perf_counter()
                    shown = await look(Gatherer(Reach(api)), options)
                    table("nodes", shown.rows)
                    taken = time.perf_counter() - start
                    assert len(shown.rows) == agents
                    assert {row["agent"] for row in shown.rows} == {"ok"}, shown.lines
                    return taken
                finally:
                    await client.close()
                    await api.close()
    finally:
        await runner.cleanup()
