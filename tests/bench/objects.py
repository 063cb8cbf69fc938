"""The scheduler process in a cluster whose objects are as large as real ones, with every installed vendor.

Each node has eight cards of 80 GiB and four running pods of two cards each; four fifths of all memory are taken. The
case of 50,000 nodes has the same 20,000 running pods. Allocations are signed. The API server is the embedded one, in a
process of its own, and the client that measures is a third one. They share the machine, so each figure of wall time has
one of the scheduler's processor time beside it.

*Pods a second*: Filters run one after the other, as kube-scheduler's do, each with the names of all nodes. Binds run
beside them.
"""

from __future__ import annotations

import asyncio
import http.client
import random
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, Final

import orjson

from hami_core.plugins import load
from hami_core.sim import Cluster
from hami_core.wire.signature import generate_private_key, private_key_pem
from tests.bench import realistic
from tests.bench.figures import Figure, p50_p99
from tests.bench.http import cpu_s, rss_mib, scheduler

if TYPE_CHECKING:
    from hami_core.testing.parts import Part

BENCH: Final = "objects"
BINDS_AT_ONCE: Final = 16
ORDERS: Final = 8
"""Orders of the names of all nodes. kube-scheduler's workers write them in any order."""
IDLE_S: Final = 1.0


@dataclass(frozen=True)
class Case:
    """A size of cluster, how much is measured there, and what is promised. A budget of None promises nothing."""

    nodes: int
    running: int
    pods: int
    rounds: int
    start_s: float | None = None
    filter_ms: float | None = None
    webhook_ms: float | None = None
    memory_mib: float | None = None
    pod_ms: float | None = None

    def __str__(self) -> str:
        """The case in the table."""
        return f"{self.nodes:,} nodes, {self.running:,} running pods"


QUICK: Final = Case(500, 2_000, 100, 40)
CASES: Final = (
    Case(1_000, 4_000, 200, 200),  # measured with HAMi too, see docs/reference/compared.md
    Case(5_000, 20_000, 1_000, 200, start_s=5, filter_ms=4, webhook_ms=1.3, memory_mib=300, pod_ms=5),
    Case(50_000, 20_000, 200, 50),
)


def run(*, quick: bool) -> list[Figure]:
    """Measure all cases."""
    return [figure for case in ((QUICK,) if quick else CASES) for figure in asyncio.run(_run(case))]


async def _run(case: Case) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hami-") as folder:
        key = write_state(Path(folder), case)
        async with Cluster(folder, nodes=[]) as cluster:
            part, port, metrics = scheduler(Path(folder), cluster, vendors="", more=[f"--signing-key={key}"])
            try:
                return await asyncio.to_thread(measure, part, port, metrics, case)
            finally:
                part.signal(signal.SIGTERM)
                part.wait()


def write_state(folder: Path, case: Case) -> Path:
    """Write the API server's journal and the key that signed the allocations. Returns the key's file."""
    key = generate_private_key()
    file = folder / "key.pem"
    file.write_bytes(private_key_pem(key))
    families = load({}, side="scheduler").families
    found = realistic.objects(case.nodes, case.running, case.pods, key, families)
    realistic.write_journal(folder / "apiserver" / "journal", found)
    return file


def measure(part: Part, port: int, metrics: int, case: Case) -> list[Figure]:
    """Start the scheduler process and measure everything."""
    client = Client(port, case)
    started = time.perf_counter()
    part.start()
    client.first(part)
    first, cpu_of_start = time.perf_counter() - started, cpu_s(part)
    _wait_idle(part)
    figures = [
        Figure(BENCH, f"start to the first Filter's answer, {case}", first, "s", case.start_s),
        Figure(BENCH, f"processor time of that, {case}", cpu_of_start, "s"),
        Figure(BENCH, f"processor time until all signatures are checked, {case}", cpu_s(part), "s"),
    ]
    for what, call, budget in (("Filter", client.filter, case.filter_ms), ("webhook", client.webhook, case.webhook_ms)):
        for number in range(5):
            call(f"warm-{number}")
        spent = cpu_s(part)
        taken = [call(f"timed-{number}")[0] for number in range(case.rounds)]
        spent = (cpu_s(part) - spent) / case.rounds * 1e3
        median, high = p50_p99(BENCH, f"{what}, {case}", taken)
        figures += [
            Figure(BENCH, median.case, median.value, "ms", budget),
            high,
            Figure(BENCH, f"processor time of a {what}, {case}", spent, "ms"),
        ]
    spent = cpu_s(part)
    taken, binds = client.place_all()
    spent = (cpu_s(part) - spent) / case.pods * 1e3
    memory = rss_mib(part)
    _read(metrics)
    return [
        *figures,
        *p50_p99(BENCH, f"Bind, {BINDS_AT_ONCE} at once, {case}", binds),
        Figure(BENCH, f"pods a second through Filter and Bind, {case}", case.pods / taken, "pods"),
        Figure(BENCH, f"time for each of these pods, {case}", taken / case.pods * 1e3, "ms", case.pod_ms),
        Figure(BENCH, f"processor time for each of these pods, {case}", spent, "ms"),
        Figure(BENCH, f"memory of the scheduler process, {case}", memory, "MiB", case.memory_mib),
        Figure(BENCH, f"memory once its metrics were read, {case}", rss_mib(part), "MiB"),
    ]


def _read(metrics: int) -> None:
    """Read ``/metrics`` once."""
    connection = http.client.HTTPConnection("127.0.0.1", metrics)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    while answer.read(1 << 20):
        pass
    connection.close()


def _wait_idle(part: Part) -> None:
    """Wait until the process has used less than a tenth of a core over `IDLE_S`."""
    while True:
        spent = cpu_s(part)
        time.sleep(IDLE_S)
        if cpu_s(part) - spent < IDLE_S / 10:
            return


class Client:
    """Calls the scheduler as kube-scheduler and the API server do."""

    def __init__(self, port: int, case: Case) -> None:
        self._port = port
        self._case = case
        self._rng = random.Random(7)
        names = [realistic.name(number) for number in range(case.nodes)]
        self._names = [orjson.Fragment(orjson.dumps(self._rng.sample(names, len(names)))) for _ in range(ORDERS)]
        self._thread = local()

    def first(self, part: Part) -> None:
        """Ask until a node is answered: the process may not listen yet, or may not have read the cluster yet."""
        assert part.process is not None
        while True:
            try:
                self.filter("first")
            except (OSError, AssertionError):
                assert part.process.poll() is None, part.tail()
                self._connection().close()
                time.sleep(0.01)
            else:
                return

    def filter(self, uid: str, pod: dict[str, Any] | None = None) -> tuple[float, str]:
        """Seconds, and the best node. The names of all nodes are in the request, in one of several orders."""
        if pod is None:
            pod = realistic.pod(uid, uid, memory_mib=self._rng.randrange(500, 9000))
        taken, answer = self._post("/filter", {"Pod": pod, "Nodes": None, "NodeNames": self._rng.choice(self._names)})
        assert answer["NodeNames"], answer
        return taken, answer["NodeNames"][0]

    def bind(self, pod: dict[str, Any], node: str) -> float:
        """Seconds of a Bind."""
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        return self._post("/bind", body)[0]

    def webhook(self, uid: str) -> tuple[float, dict[str, Any]]:
        """Seconds, and the response, of a review of a pod of 5 kB."""
        pod = realistic.pod(uid, uid, memory_mib=self._rng.randrange(500, 9000))
        pod["spec"]["schedulerName"] = "default-scheduler"
        pod["spec"]["containers"][0]["env"] += [{"name": f"MORE_{i:02}", "value": "y" * 60} for i in range(14)]
        request = {"uid": uid, "operation": "CREATE", "namespace": "default", "object": pod}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        taken, answer = self._post("/webhook", review)
        assert answer["response"]["allowed"], answer
        return taken, answer["response"]

    def place_all(self) -> tuple[float, list[float]]:
        """Place every waiting pod. Returns the seconds until the last is bound, and those of each Bind."""
        waiting = [realistic.waiting_pod(number) for number in range(self._case.pods)]
        with ThreadPoolExecutor(BINDS_AT_ONCE) as pool:
            started = time.perf_counter()
            binds = [pool.submit(self.bind, pod, self.filter("", pod)[1]) for pod in waiting]
            taken = [bind.result() for bind in binds]
            return time.perf_counter() - started, taken

    def _connection(self) -> http.client.HTTPConnection:
        if not hasattr(self._thread, "connection"):
            self._thread.connection = http.client.HTTPConnection("127.0.0.1", self._port)
        found: http.client.HTTPConnection = self._thread.connection
        return found

    def _post(self, path: str, document: object) -> tuple[float, dict[str, Any]]:
        body, connection = orjson.dumps(document), self._connection()
        start = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        taken = time.perf_counter() - start
        found: dict[str, Any] = orjson.loads(answer)
        assert not found.get("Error"), found["Error"]
        return taken, found
