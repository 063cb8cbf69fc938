"""The scheduler's memory stays flat over a million requests, with all vendors loaded.

Pods, nodes, namespaces and quotas come and go, and many requests are refused. Each round of requests has new names,
namespaces, labels, annotations and selectors, and new amounts in the pods that are reviewed or refused. The amounts of
pods that fit repeat. A replaced node has a new name, new labels, and cards with new ids. So a cache with such a key and
without a bound grows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest

from hami_core.model import Device
from hami_core.sim import Cluster
from hami_core.testing.parts import Part, free_port
from hami_core.wire.node import encode_devices_json
from hami_core.wire.signature import generate_private_key, private_key_pem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODES, CARDS, CARD_MIB = 100, 8, 80_000
NAMES = [f"n{number:03d}" for number in range(NODES)]
STEADY, CHANGING = NAMES[:-10], NAMES[-10:]
"""Nodes that stay, and the first ones of those that are replaced again and again."""
WORKERS = 4
GROWTH_MIB = 20
"""Most growth of resident memory after the first tenth of the requests, which fills every bounded cache."""
SETTLE_S = 60
"""Seconds after the last request until no hold and no deleted pod may be left. A hold ends after one second."""
BLOCK_GROWTH = 0.05
"""Most growth of the number of Python's memory blocks, as a part of it."""

PROBE = """
import gc, os, signal, sys

from hami_core.kube import events

events.REMEMBERED, events.BUCKETS = 500, 500

def probe(*_):
    gc.collect()
    file = os.environ["BLOCKS_FILE"]
    with open(file + ".new", "w") as out:
        out.write(str(sys.getallocatedblocks()))
    os.replace(file + ".new", file)

signal.signal(signal.SIGUSR1, probe)
"""
"""Runs in the scheduler process as ``sitecustomize``: on a signal, it writes the number of memory blocks to a file.

It also bounds what is remembered of events at 500 entries. As 50 events are written a second, the real bounds are
reached after seven minutes, and memory grows until then.
"""


class Memory(NamedTuple):
    """Resident memory, and Python's memory blocks."""

    rss_mib: float
    blocks: int


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A kept HTTP connection. aiohttp's client would take more processor time than the scheduler."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Any) -> Answer:
        """Send a body as JSON, or as it is if it is bytes. The server may close the connection after its answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = Answer(int(head.split(None, 2)[1]), await reader.readexactly(length))
        if b"connection: close" in head:
            self.close()
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Load:
    """Sends requests from several connections, and counts them.

    Args:
        cluster: The embedded API server.
        session: For requests to it, and for ``/metrics``.
        part: The scheduler process.
        port: Its extender's port.
        metrics: The port of ``/metrics``.
    """

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession, part: Part, port: int, metrics: int) -> None:
        self.sent = 0
        self._api = cluster.url + "/api/v1"
        self._session = session
        self._part = part
        self._port = port
        self._metrics = metrics
        self._numbers = count()
        self._changing = list(CHANGING)

    async def until(self, total: int) -> None:
        """Send requests until so many were sent since the start."""
        await asyncio.gather(*(self._work(total) for _ in range(WORKERS)))

    async def _work(self, total: int) -> None:
        scheduler = Connection(self._port)
        try:
            while self.sent < total:
                number = next(self._numbers)
                await self._one_pod(scheduler, number)
                await self._fits_but_never_binds(scheduler, number)
                await self._admission(scheduler, number)
                await self._refused(scheduler, number)
                await self._hostile(scheduler, number)
                if number % 100 == 0:
                    await self._node_and_quota(number)
                if number % 400 == 0:
                    await self.metrics()
        finally:
            scheduler.close()

    @property
    def _names(self) -> list[str]:
        return STEADY + self._changing

    async def _post(self, scheduler: Connection, path: str, body: Any, status: int = 200) -> Answer:
        self.sent += 1
        answer = await scheduler.post(path, body)
        assert answer.status == status, answer
        return answer

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(method, f"{self._api}/{path}", json=body) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return json.loads(text)

    async def _one_pod(self, scheduler: Connection, number: int) -> None:
        """A pod that is created, bound and deleted."""
        pod = _pod(number, memory=500 + number % 3000)
        made = await self._call("POST", "namespaces/default/pods", pod)
        names = _answered(await self._post(scheduler, "/filter", {"Pod": made, "NodeNames": STEADY}))
        await self._post(scheduler, "/prioritize", {"Pod": made, "NodeNames": names})
        meta = made["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": names[0]}
        assert (await self._post(scheduler, "/bind", body)).json()["Error"] == ""
        await self._call("DELETE", f"namespaces/default/pods/{meta['name']}?gracePeriodSeconds=0")

    async def _fits_but_never_binds(self, scheduler: Connection, number: int) -> None:
        """Pods in ever new namespaces. They get a hold, and then nothing is heard of them."""
        for turn in range(3):
            pod = _pod(number, memory=1000 + turn, namespace=f"space-{number}-{turn}", uid=f"lost-{number}-{turn}")
            names = _answered(await self._post(scheduler, "/filter", {"Pod": pod, "NodeNames": self._names}))
            await self._post(scheduler, "/prioritize", {"Pod": pod, "NodeNames": names})

    async def _admission(self, scheduler: Connection, number: int) -> None:
        for turn in range(4):
            pod = _pod(number, memory=number + turn + 1, namespace=f"space-{number}")
            pod["spec"]["containers"][0]["env"] = [{"name": f"TENANT_{number}_{turn}", "value": "x"}]
            request = {"uid": f"r{number}", "operation": "CREATE", "namespace": f"space-{number}", "object": pod}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            await self._post(scheduler, "/webhook", review)

    async def _refused(self, scheduler: Connection, number: int) -> None:
        """Pods that fit nowhere, each for a reason with a text of its own."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(CARD_MIB + 1 + number)}
        selector = {"nvidia.com/use-gpuuuid": f"GPU-{number}", "nvidia.com/use-gputype": f"type-{number}"}
        wrong = {"nvidia.com/gpu": f"{number}-many", "nvidia.com/gpumem": "1"}
        for turn, (amounts, more) in enumerate(((limits, {}), ({}, selector), (wrong, {}))):
            pod = _pod(number, memory=100, namespace=f"space-{number}", uid=f"refused-{number}-{turn}")
            pod["metadata"]["annotations"] |= more
            pod["spec"]["containers"][0]["resources"]["limits"] |= amounts
            answer = (await self._post(scheduler, "/filter", {"Pod": pod, "NodeNames": self._names})).json()
            assert not answer["NodeNames"], answer
        body = {"PodName": f"gone-{number}", "PodNamespace": "default", "PodUID": f"gone-{number}", "Node": NAMES[0]}
        assert (await self._post(scheduler, "/bind", body)).json()["Error"]

    async def _hostile(self, scheduler: Connection, number: int) -> None:
        """Requests that kube-scheduler and API server never send."""
        await self._post(scheduler, f"/no-such-path-{number}", b"x", 404)
        await self._post(scheduler, "/filter", b'{"Pod": {"metadata": {"name": "%d"' % number)
        await self._post(scheduler, "/filter", b'{"Pod":' + b"[" * 900 + b"%d" % number + b"]" * 900 + b"}")
        await self._post(scheduler, "/bind", b'{"%d": "\xff"}' % number)
        stranger = {"Pod": _pod(number, memory=1), "NodeNames": [f"stranger-{number}-{turn}" for turn in range(5)]}
        await self._post(scheduler, "/filter", stranger)

    async def _node_and_quota(self, number: int) -> None:
        """A new node takes the place of one; a namespace gets a quota and loses it."""
        place = number // 100 % len(self._changing)
        gone, self._changing[place] = self._changing[place], f"m{number}"
        await self._call("DELETE", f"nodes/{gone}")
        await self._call("POST", "nodes", _node(f"m{number}", generation=number))
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": str(number)}}}
        await self._call("POST", "namespaces", {"metadata": {"name": f"space-{number}"}})
        await self._call("POST", f"namespaces/space-{number}/resourcequotas", quota)
        await self._call("DELETE", f"namespaces/space-{number}/resourcequotas/q")
        await self._call("DELETE", f"namespaces/space-{number}")

    async def metrics(self) -> str:
        """The text of ``/metrics``."""
        self.sent += 1
        async with self._session.get(f"http://127.0.0.1:{self._metrics}/metrics") as answer:
            assert answer.status == 200
            return await answer.text()

    async def settled(self) -> None:
        """Wait until holds have expired, and deleted pods are forgotten.

        Raises:
            AssertionError: Some are left after `SETTLE_S`.
        """
        left: list[str] = []
        try:
            async with asyncio.timeout(SETTLE_S):
                while left := await self._left():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"left after {SETTLE_S} s: {left}") from None

    async def _left(self) -> list[str]:
        """The series of `TRACKED` that are not 0."""
        found = [line for line in (await self.metrics()).splitlines() if line.startswith(TRACKED)]
        assert len(found) == len(TRACKED), found
        return [line for line in found if not line.endswith(" 0.0")]

    async def memory(self) -> Memory:
        """The scheduler process's memory, after holds and pods are gone."""
        await self.settled()
        assert self._part.process is not None
        blocks = self._part.log.with_name("blocks")
        blocks.unlink(missing_ok=True)
        self._part.signal(signal.SIGUSR1)
        while not blocks.exists():
            await asyncio.sleep(0.05)
            await self.metrics()  # Python runs the signal's handler between two requests
        status = Path(f"/proc/{self._part.process.pid}/status").read_text().splitlines()
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        return Memory(rss / 1024, int(blocks.read_text()))


TRACKED = (
    "hami_scheduler_holds ",
    "hami_scheduler_bookings ",
    'hami_informer_objects{resource="pods"} ',
    'hami_informer_objects{resource="resourcequotas"} ',
)
"""Series that are 0 when no pod and no quota exists."""


def _answered(answer: Answer) -> list[str]:
    names = answer.json()["NodeNames"]
    assert names, answer
    return list(names)


def _pod(number: int, *, memory: int, namespace: str = "default", uid: str = "") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    meta = {
        "name": f"p{number}",
        "namespace": namespace,
        "labels": {"tenant": f"t{number}"},
        "annotations": {f"tenant.example/{number}": "x" * 50},
    }
    container = {"name": f"c{number}", "image": "i", "resources": {"limits": limits, "requests": limits}}
    spec = {"schedulerName": "soak", "containers": [container]}
    return {"metadata": meta | ({"uid": uid} if uid else {}), "spec": spec}


def _node(name: str, *, generation: int = 0) -> dict[str, Any]:
    cards = [
        Device(f"GPU-{name}-{generation}-{at}", at, 40, CARD_MIB, 100, "NVIDIA-H100", "NVIDIA", at // 4)
        for at in range(CARDS)
    ]
    annotations = {"hami.io/node-nvidia-register": encode_devices_json(cards)}
    labels = {"hami.io/agent-nvidia": "ready", f"operator.example/{name}": f"of-{name}"}
    meta = {"name": name, "labels": labels, "annotations": annotations}
    return {"metadata": meta, "status": {"capacity": {"nvidia.com/gpu": "320"}}}


@asynccontextmanager
async def load(folder: Path) -> AsyncIterator[Load]:
    """A cluster, a scheduler process and its load."""
    folder.mkdir()
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(PROBE)
    (folder / "signing.key").write_bytes(private_key_pem(generate_private_key()))
    async with Cluster(folder / "c", nodes=[]) as cluster, aiohttp.ClientSession() as session:
        for name in NAMES:
            async with session.post(f"{cluster.url}/api/v1/nodes", json=_node(name)) as answer:
                assert answer.status == 201
        port, metrics = free_port(), free_port()
        flags = {
            "kubeconfig": cluster.kubeconfig,
            "http_bind": f"127.0.0.1:{port}",
            "metrics-bind-address": f"127.0.0.1:{metrics}",
            "signing-key": folder / "signing.key",
            "hold-time": 1,
            "kube-qps": 0,
            "log-level": "error",
        }
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("HAMI_", "KUBE", "POD_"))}
        part = Part(
            "scheduler",
            [sys.executable, "-m", "hami_core", "scheduler", *(f"--{name}={value}" for name, value in flags.items())],
            {**ours, "PYTHONPATH": str(folder / "site"), "BLOCKS_FILE": str(folder / "blocks")},
            folder / "scheduler.log",
            f"http://127.0.0.1:{metrics}/readyz",
        )
        part.start()
        try:
            await part.ready()
            yield Load(cluster, session, part, port, metrics)
            assert part.process is not None
            assert part.process.poll() is None, part.tail()
            assert "Traceback" not in part.log.read_text(), part.tail()
        finally:
            part.signal(signal.SIGKILL)
            part.wait()


async def test_nothing_is_kept_of_pods_that_came_and_went(short_folder):
    async with load(short_folder / "few") as few:
        await few.until(1000)
        await few.memory()  # raises if a hold, a booking, a pod or a quota is left


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_memory_is_flat_over_a_million_requests(short_folder):
    total = int(os.environ.get("HAMI_SOAK_REQUESTS", "1000000"))
    async with load(short_folder / "million") as million:
        seen: list[Memory] = []
        began = time.monotonic()
        for part in range(1, 11):
            await million.until(total * part // 10)
            seen.append(await million.memory())
            rate = million.sent / (time.monotonic() - began)
            now = f"{seen[-1].rss_mib:.1f} MiB resident, {seen[-1].blocks} blocks"
            print(f"{million.sent} requests, {rate:.0f} a second: {now}", flush=True)
    first, last = seen[0], seen[-1]
    assert last.rss_mib - first.rss_mib <= GROWTH_MIB, seen
    assert last.blocks <= first.blocks * (1 + BLOCK_GROWTH), seen
