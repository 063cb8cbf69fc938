"""The node agent with 16 cards of 100 slots and 160 containers: answers to the kubelet, memory, scrapes, idle CPU.

The agent runs as a separate process, as in production, on simulated GPUs. The kubelet is the stub of the tests, which
admits containers one by one and writes its checkpoint like the real one. Pods come from the embedded API server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from hami_core.agent.kubelet import dial
from hami_core.agent.metrics import MAX_SAMPLE_AGE_S
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services
from hami_core.model import Allocation, ContainerKind, ContainerSlices, Slice
from hami_core.plugins import load
from hami_core.sim import Cluster
from hami_core.testing.parts import Part, free_port
from hami_core.tests.agent.stub_kubelet import Given, StubKubelet
from hami_core.wire import keys
from hami_core.wire.pod import allocation_annotations
from hami_core.wire.signature import generate_private_key, public_key_pem, sign, statement_of
from tests.bench.figures import Figure, p50_p99

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.model import Family
    from hami_core.wire.signature import PrivateKey

CARDS, SLOTS, CONTAINERS, WAVE = 16, 100, 160, 40
GPU = "nvidia.com/gpu"
TICKS = os.sysconf("SC_CLK_TCK")


def run(*, quick: bool) -> list[Figure]:
    """Measure the latency of each call, memory and idle CPU."""
    return asyncio.run(_run(*(5.0, 1) if quick else (60.0, 10)))


async def _run(idle_s: float, scrapes: int) -> list[Figure]:
    sim = import_module("hami_gpusim")
    with tempfile.TemporaryDirectory(prefix="hami-") as name:
        folder = Path(name)
        sim.create(folder / "gpus", f"h100x{CARDS}")
        with sim.State(folder / "gpus") as state:
            cards = [device.uuid for device in state.devices]
        key = generate_private_key()
        (folder / "key.pub").write_bytes(public_key_pem(key.public_key()))
        async with Cluster(folder / "cluster", nodes=[]) as cluster, aiohttp.ClientSession(cluster.url) as session:
            status = {"allocatable": {GPU: str(CARDS * SLOTS)}, "capacity": {GPU: str(CARDS * SLOTS)}}
            await _post(session, "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
            kubelet = StubKubelet(folder / "dp", folder / "cdi")
            await kubelet.start()
            part = _agent(folder, cluster)
            part.start()
            try:
                await kubelet.until(lambda: kubelet.slots.get(GPU), 60)
                families = dict(load({}, side="scheduler", only=["nvidia"]).families)
                wanted = [(n, cards[n % CARDS]) for n in range(CONTAINERS + WAVE)]
                pods = [await _bound(session, key, families, number, card) for number, card in wanted]
                await part.ready(60)
                return await _measure(kubelet, part, pods, cluster, idle_s, scrapes)
            finally:
                part.signal(signal.SIGTERM)
                part.wait()
                await kubelet.stop()


def _agent(folder: Path, cluster: Cluster) -> Part:
    metrics = free_port()
    libraries = import_module("hami_gpusim").library_dir()
    return Part(
        "agent",
        [sys.executable, "-m", "hami_core", "agent", "--vendor=nvidia", "--node-name=n1",
         f"--kubeconfig={cluster.kubeconfig}", f"--state-dir={folder / 'state'}", f"--cdi-dir={folder / 'cdi'}",
         f"--kubelet-plugin-dir={folder / 'dp'}", f"--signing-keys={folder / 'key.pub'}",
         f"--metrics-bind-address=127.0.0.1:{metrics}", "--log-format=json"],
        {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "", "HAMI_NVIDIA_SPLIT_COUNT": str(SLOTS),
         "HAMI_SIM_STATE": str(folder / "gpus"), "LD_LIBRARY_PATH": str(libraries),
         "HAMI_NVIDIA_DEV_ROOT": str(folder / "gpus" / "dev"),
         "HAMI_NVIDIA_DRIVER_LIBRARIES": f"{libraries}/libcuda.so.1,{libraries}/libnvidia-ml.so.1"},
        folder / "agent.log",
        f"http://127.0.0.1:{metrics}/healthz",
    )  # fmt: skip


async def _post(session: aiohttp.ClientSession, path: str, body: object) -> dict[str, Any]:
    async with session.post(path, json=body) as answer:
        assert answer.status < 300, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def _bound(
    session: aiohttp.ClientSession, key: PrivateKey, families: Mapping[str, Family], number: int, card: str
) -> str:
    """Create a pod and bind it with a signed allocation, as the scheduler does. Returns its UID."""
    name = f"p{number:03d}"
    limits = {GPU: "1", "nvidia.com/gpumem": str(500 + number)}
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]}
    made = await _post(session, "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    uid: str = made["metadata"]["uid"]
    held = Slice(card, "NVIDIA", 500 + number, 5, type="NVIDIA")
    allocation = Allocation("n1", (ContainerSlices("main", ContainerKind.APP, (held,)),))
    annotations = allocation_annotations(allocation, families, int(time.time()), keys.PHASE_SUCCESS)
    statement = statement_of(uid, annotations, families.values(), epoch=1)
    annotations[keys.SIGNATURE] = sign(key, statement)
    binding = {"metadata": {"name": name, "uid": uid, "annotations": annotations}, "target": {"name": "n1"}}
    await _post(session, f"/api/v1/namespaces/default/pods/{name}/binding", binding)
    return uid


async def _measure(
    kubelet: StubKubelet, part: Part, pods: list[str], cluster: Cluster, idle_s: float, scrapes: int
) -> list[Figure]:
    times: dict[str, list[float]] = {"Allocate": [], "in a row": [], "first": [], "again": [], "wave": []}
    async with dial(kubelet.sockets[GPU]) as channel:
        plugin = services.DevicePluginStub(channel)

        async def allocate(uid: str, kind: str) -> Given:
            slot = next(free)
            request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[slot])])
            start = time.perf_counter()
            answer = await plugin.Allocate(request)
            times[kind].append(time.perf_counter() - start)
            given = Given(uid, "main", GPU, [slot], answer.container_responses[0])
            kubelet.given.append(given)
            kubelet.checkpoint()
            return given

        async def prestart(given: Given, kind: str) -> None:
            start = time.perf_counter()
            await plugin.PreStartContainer(api.PreStartContainerRequest(devices_ids=given.slots))
            times[kind].append(time.perf_counter() - start)

        free = iter(sorted(kubelet.slots[GPU]))
        idle = _cpu_s(part)
        for uid in pods[:CONTAINERS]:
            await prestart(await allocate(uid, "Allocate"), "first")
        started = (_cpu_s(part) - idle) / CONTAINERS * 1e3
        for given in kubelet.given:
            await prestart(given, "again")
        memory = _rss_mib(part)
        await asyncio.sleep(2)
        before, asked = _cpu_s(part), Counter(await cluster.requests())
        await asyncio.sleep(idle_s)
        busy, asked = (_cpu_s(part) - before) / idle_s * 100, Counter(await cluster.requests()) - asked
        scraped = await _scrapes(part, scrapes)
        late = [await allocate(uid, "in a row") for uid in pods[CONTAINERS:]]
        await asyncio.gather(*(prestart(given, "wave") for given in late))
    assert len(list(kubelet.cdi_dir.glob("hami-*.json"))) == len(pods), "a container lacks its CDI spec"
    ours = {what: count for what, count in asked.items() if what.endswith(" hami-agent") and "lease" not in what}
    writes = sum(count for what, count in ours.items() if what.split()[0] not in {"get", "list", "watch"})
    case = f"{CONTAINERS} containers"
    return [
        *p50_p99("agent", f"Allocate, {case}", times["Allocate"], budget_ms=(5, 5)),
        *p50_p99("agent", f"Allocate, {WAVE} in a row", times["in a row"], budget_ms=(5, 5)),
        *p50_p99("agent", f"PreStartContainer right after Allocate, {case}", times["first"], budget_ms=(50, 50)),
        *p50_p99("agent", "PreStartContainer of a container known", times["again"], budget_ms=(50, 50)),
        *p50_p99("agent", f"PreStartContainer, {WAVE} at once", times["wave"]),
        Figure("agent", "processor time for each container started", started, "ms"),
        Figure("agent", f"memory of the agent process, {CARDS} x {SLOTS} slots, {case}", memory, "MiB", 130.0),
        Figure("agent", f"idle CPU of the agent process, {case}", busy, "% of a core", 1.0),
        Figure("agent", f"writes to the API server in {idle_s:g} s of steady state, Lease left out", writes, "", 0.0),
        *scraped,
    ]


async def _scrapes(part: Part, count: int) -> list[Figure]:
    """Scrapes that ask the vendor, and the next ones, which get the same samples."""
    taken: dict[str, list[float]] = {"asks": [], "again": []}
    length = 0
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            await asyncio.sleep(MAX_SAMPLE_AGE_S + 0.1)
            for times in taken.values():
                start = time.perf_counter()
                async with session.get(part.ready_url.replace("/healthz", "/metrics")) as answer:
                    length = len(await answer.read())
                    assert answer.status == 200
                times.append(time.perf_counter() - start)
    case = f"scrape of {CONTAINERS} containers"
    return [
        Figure("agent", f"{case}, p50", statistics.median(taken["asks"]) * 1e3, "ms", 50.0),
        Figure("agent", f"{case}, longest of {count}", max(taken["asks"]) * 1e3, "ms", 50.0),
        Figure(
            "agent", f"{case}, within {MAX_SAMPLE_AGE_S:g} s of another", statistics.median(taken["again"]) * 1e3, "ms"
        ),
        Figure("agent", f"length of a {case}", length / 2**10, "KiB"),
    ]


def _rss_mib(part: Part) -> float:
    assert part.process is not None
    status = Path(f"/proc/{part.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def _cpu_s(part: Part) -> float:
    assert part.process is not None
    fields = Path(f"/proc/{part.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
