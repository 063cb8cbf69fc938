"""Scheduling through real kube-scheduler, API server and etcd: 1,000 hollow nodes of eight cards, 1,000 waiting pods.

Three rounds on one control plane: kube-scheduler alone, with an extender that accepts everything and decides nothing,
and with ours. The same pods, the same settings of kube-scheduler (100 % of the nodes scored, 500 requests/s). Then 40
pods on one node of eight cards with kubelet and containerd, and how soon a released slice is bound again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.figures import Figure
from tests.e2e.bed import tools as bed_tools
from tests.e2e.bed.bed import Bed

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.e2e.bed.tools import Tools

NODES, PODS = 1000, 1000
SCHEDULER = "bench"
EXTENDER_PORT, METRICS_PORT = 9901, 9902
PODS_PATH = "/api/v1/namespaces/default/pods"
RESOURCES = ("nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage", "nvidia.com/priority")


def run(*, quick: bool) -> list[Figure]:
    """All of it; `quick` takes a fifth of the pods."""
    tools = bed_tools.find()
    with tempfile.TemporaryDirectory(prefix="bed-") as folder:
        return _throughput(tools, Path(folder), PODS // 5 if quick else PODS)


def _throughput(tools: Tools, work: Path, pods: int) -> list[Figure]:
    figures: list[Figure] = []
    with Bed(work, tools, (), audit=False) as bed:
        kubeconfig = str(work / "kubeconfig" / "admin")
        with _program(bed, [sys.executable, "-m", "tests.bench.hollow", kubeconfig, str(NODES)], "hollow", "ready"):
            rates: dict[str, list[float]] = {"none": [], "null": [], "ours": []}
            for _ in range(3):
                for kind, seen in rates.items():
                    rate, more = _round(bed, tools, kind, pods)
                    seen.append(rate)
                    figures += more
    middle = {kind: statistics.median(values) for kind, values in rates.items()}
    names = {"none": "kube-scheduler alone", "null": "an extender that decides nothing", "ours": "our extender"}
    figures += [
        Figure("real", f"pods bound, {names[kind]} (median of 3 rounds)", rate, "pods/s")
        for kind, rate in middle.items()
    ]
    slower = 100 * (1 - middle["ours"] / middle["none"])
    figures.append(Figure("real", "ours: pods/s below kube-scheduler alone", slower, "%", 15))
    return figures


def _round(bed: Bed, tools: Tools, kind: str, pods: int) -> tuple[float, list[Figure]]:
    """Bind `pods` waiting pods; pods a second, and what else was seen."""
    _create(bed, pods)
    figures: list[Figure] = []
    extender = {
        "none": None,
        "null": [
            sys.executable,
            "-m",
            "tests.bench.null_extender",
            str(EXTENDER_PORT),
            str(bed.work / "kubeconfig" / "admin"),
        ],
        "ours": _ours(bed),
    }[kind]
    config = bed.work / f"bench-{kind}.json"
    config.write_text(json.dumps(_config(bed, extender=kind != "none"), indent=1))
    words = [str(tools.kubernetes_bin / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
    if extender is None:
        with _program(bed, words, "kube-scheduler-bench") as scheduler:
            seconds = _bound(bed, pods)
            cpu = {"kube-scheduler": _cpu(scheduler)}
    else:
        with _program(bed, extender, f"extender-{kind}") as process:
            bed.wait("the extender answers", lambda: _curl(bed, EXTENDER_PORT, "/readyz").strip(), 60)
            with _program(bed, words, "kube-scheduler-bench") as scheduler:
                seconds = _bound(bed, pods)
                cpu = {"kube-scheduler": _cpu(scheduler), "extender": _cpu(process)}
                if kind == "ours":
                    figures += _verbs(_curl(bed, METRICS_PORT, "/metrics"), pods)
                    figures.append(Figure("real", "pods that fit and were not bound", _unbound(bed), "pods", 0))
    figures += [
        Figure("real", f"{kind}: processor time of {name} for a pod", 1e3 * used / pods, "ms")
        for name, used in cpu.items()
    ]
    bed.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false", timeout=300)
    bed.wait("all pods are gone", lambda: not _items(bed, f"{PODS_PATH}?limit=1"), 180)
    return pods / seconds, figures


def _config(bed: Bed, *, extender: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "podMaxBackoffSeconds": 3,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(bed.work / "kubeconfig" / "admin"), "qps": 500, "burst": 1000},
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    if extender:
        config["extenders"] = [
            {
                "urlPrefix": f"http://127.0.0.1:{EXTENDER_PORT}",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "weight": 10,
                "nodeCacheCapable": True,
                "httpTimeout": "30s",
                "managedResources": [
                    {"name": "nvidia.com/gpu"},
                    *({"name": name, "ignoredByScheduler": True} for name in RESOURCES),
                ],
            }
        ]
    return config


def _ours(bed: Bed) -> list[str]:
    return [
        sys.executable, "-m", "hami_core", "scheduler", f"--kubeconfig={bed.work / 'kubeconfig' / 'admin'}",
        f"--http_bind=127.0.0.1:{EXTENDER_PORT}", f"--metrics-bind-address=127.0.0.1:{METRICS_PORT}",
        f"--scheduler-name={SCHEDULER}", "--vendors=nvidia", "--kube-qps=500", "--kube-burst=1000", "--log-format=json",
    ]  # fmt: skip


@contextmanager
def _program(bed: Bed, words: list[str], name: str, ready: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A program beside the control plane, until the block ends; `ready`: wait for this word in its output."""
    log = bed.work / "log" / f"{name}.log"
    log.unlink(missing_ok=True)
    process = bed.popen("cp", words, log)
    try:
        if ready:
            bed.wait(f"{name} is ready", lambda: ready in log.read_text(), 120)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _create(bed: Bed, pods: int) -> None:
    """Pods that wait for the scheduler under test: nobody serves its name yet."""
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "bench-"},
        "spec": {
            "schedulerName": SCHEDULER,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
        },
    }
    for _ in range(pods):
        bed.call("POST", PODS_PATH, body)


def _bound(bed: Bed, pods: int) -> float:
    """Seconds from the first pod's binding to the last's, by the API server's own clock of requests seen here."""
    first = 0.0
    while True:
        open_ = len(_items(bed, f"{PODS_PATH}?fieldSelector=spec.nodeName%3D"))
        now = time.monotonic()
        if open_ < pods and not first:
            first, done = now, pods - open_
        if not open_:
            return (now - first) * pods / max(1, pods - done)
        time.sleep(0.05)


def _items(bed: Bed, path: str) -> list[Any]:
    return list(bed.call("GET", path)["items"])


def _unbound(bed: Bed) -> float:
    return float(len(_items(bed, f"{PODS_PATH}?fieldSelector=spec.nodeName%3D")))


def _curl(bed: Bed, port: int, path: str) -> str:
    script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}{path}', timeout=5).read().decode())"
    return bed.run("cp", [sys.executable, "-c", script])


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """Processor seconds of a program started through `popen`, and of its children."""
    total = 0
    for pid in _tree(process.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(deeper for child in children for deeper in _tree(int(child)))]


def _verbs(metrics: str, pods: int) -> list[Figure]:
    """Our extender's time in each verb, from its own histograms."""
    figures, total = [], 0.0
    for verb in ("filter", "prioritize", "bind"):
        sums = re.findall(rf'hami_scheduler_request_duration_seconds_sum{{[^}}]*verb="{verb}"[^}}]*}} (\S+)', metrics)
        seconds = sum(map(float, sums))
        figures.append(Figure("real", f"ours: time in {verb} for a pod", 1e3 * seconds / pods, "ms"))
        if verb != "bind":
            total += seconds
    figures.append(Figure("real", "ours: synchronous extender time for a pod", 1e3 * total / pods, "ms", 6))
    figures.append(Figure("real", "ours: Filter p99, upper bound of its bucket", _p99(metrics, "filter"), "ms", 20))
    return figures


def _p99(metrics: str, verb: str) -> float:
    """Upper bound of the bucket that holds the 99th percentile."""
    name = "hami_scheduler_request_duration_seconds_bucket"
    buckets: dict[float, float] = {}
    for labels, count in re.findall(rf"{name}{{([^}}]*)}} (\S+)", metrics):
        if f'verb="{verb}"' in labels:
            edge = float(re.search(r'le="([^"]+)"', labels).group(1).replace("+Inf", "inf"))  # type: ignore[union-attr]
            buckets[edge] = buckets.get(edge, 0) + float(count)
    edges = sorted(buckets)
    values = [buckets[edge] for edge in edges]
    wanted = 0.99 * values[-1]
    return 1e3 * next(edge for edge, value in zip(edges, values, strict=True) if value >= wanted)
