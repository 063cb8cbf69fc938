"""Scheduling on real Kubernetes: ``nox -s bench -- --real``.

*Throughput*: kube-scheduler, API server and etcd place 1,000 waiting pods on 1,000 hollow nodes of eight cards. Rounds
on one control plane compare kube-scheduler alone, with an extender that decides nothing, and with ours. Pods and
settings of kube-scheduler are the same in all rounds, and 100 % of the nodes are scored. Only the limit of requests a
second varies: so high that kube-scheduler never waits, the chart's, and kube-scheduler's default. Without waits, all
programs compete for this machine's processors. Extenders run on the interpreter of our images if this machine has it:
one built without a distribution's optimizations is slower by half.

*A node*: 40 pods on one node of eight cards with kubelet and containerd, compared with the same pods without a device.
Also the time from the release of a slice to the Bind of the pod that waits for it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.bench.figures import Figure, percentile
from tests.e2e.bed import Bed, Node, find
from tests.e2e.bed.processes import children
from tests.e2e.pods import container, pod
from tests.e2e.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.processes import Process
    from tests.e2e.bed.tools import Tools

ROOT = Path(__file__).parents[2]
SHIPPED_PYTHON = Path("/usr/bin/python3.11")  # Debian's interpreter, as in the images
NODES, PODS, ROUNDS = 1000, 1000, 6
WITHHELD = 5.0  # percent of the wanted processor time; if the host withholds more, a turn is repeated
# Requests a second that kube-scheduler may make: no limit in practice, the chart's value, kube-scheduler's default.
FREE, SHIPPED, DEFAULT = 500, 100, 50
QUIET = 0.35  # processor seconds of the control plane in a second; renewing the nodes' Leases takes less
SCHEDULER = "bench"
EXTENDER_PORT, METRICS_PORT = 9901, 9902
PODS_PATH = "/api/v1/namespaces/default/pods"
IGNORED = ("nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage", "nvidia.com/priority")
STOLEN = "processor time withheld by the host"
NAMES = {"none": "kube-scheduler alone", "null": "an extender that decides nothing", "ours": "our extender"}


def run(*, quick: bool) -> list[Figure]:
    """Measure both parts. `quick` takes a fifth of the pods and one round."""
    tools = find()
    figures: list[Figure] = []
    for part in (_throughput, _node):
        with tempfile.TemporaryDirectory(prefix="bed-") as folder:
            figures += part(tools, Path(folder) / "b", quick=quick)
    return figures


# --- throughput ----------------------------------------------------------------------------------------------------


def _throughput(tools: Tools, work: Path, *, quick: bool) -> list[Figure]:
    pods, rounds = (PODS // 5, 1) if quick else (PODS, ROUNDS)
    with Bed(work, tools, (), audit=False) as bed:
        _service_account(bed)
        print(f"extenders run on {_python(bed)}", file=sys.stderr, flush=True)
        words = [_python(bed), "-m", "tests.bench.hollow", _kubeconfig(bed), str(NODES)]
        with _program(bed, words, "hollow", ready="ready"):
            figures = _race(bed, tools, list(NAMES), FREE, rounds, pods)
            for qps in (SHIPPED, DEFAULT):
                figures += _race(bed, tools, ["none", "ours"], qps, -(-rounds // 2), pods)
            return figures


def _race(bed: Bed, tools: Tools, kinds: list[str], qps: int, rounds: int, pods: int) -> list[Figure]:
    """Run rounds of all kinds in turn, with one limit of kube-scheduler's requests a second.

    A turn is one round of each kind. A turn in which the machine's host withheld processor time is printed but not
    counted, and another turn follows. If twice as many turns as `rounds` do not give enough, all turns count.
    """
    turns: list[dict[str, tuple[float, dict[str, float]]]] = []
    while sum(map(_undisturbed, turns)) < rounds and len(turns) < 2 * rounds:
        first = len(turns) % len(kinds)  # a different kind is first in each turn
        turns.append({})
        for kind in (*kinds[first:], *kinds[:first]):
            rate, more = turns[-1][kind] = _round(bed, tools, kind, qps, pods)
            told = f"{qps} requests/s, turn {len(turns)}: {NAMES[kind]}: {rate:.0f} pods/s"
            print(f"{told}, {more[STOLEN]:.1f} % of processor time withheld", file=sys.stderr, flush=True)
    group = f"real, {qps} requests/s"
    counted = [turn for turn in turns if _undisturbed(turn)]
    disturbed = Figure(group, "turns that the machine's host disturbed", len(turns) - len(counted), f"of {len(turns)}")
    counted = counted if len(counted) == rounds else turns
    seen: dict[tuple[str, str], list[float]] = {}
    rates: dict[str, list[float]] = {kind: [turn[kind][0] for turn in counted] for kind in kinds}
    for turn in counted:
        for kind, (_, more) in turn.items():
            for case, value in more.items():
                seen.setdefault((kind, case), []).append(value)
    figures = [
        Figure(group, f"pods bound, {NAMES[kind]}", statistics.median(values), "pods/s")
        for kind, values in rates.items()
    ]
    # Compare within turns, because a shared machine's speed changes within minutes by more than an extender costs.
    slower = 100 * (1 - statistics.median(ours / none for ours, none in zip(rates["ours"], rates["none"], strict=True)))
    figures.append(Figure(group, "pods/s below kube-scheduler alone, our extender", slower, "%", 15))
    figures.append(disturbed)
    budgets = {"extender, synchronous": 6.0, "Filter p99, upper bound": 20.0, "pods that fit and were not bound": 0.0}
    for (kind, case), values in seen.items():
        unit = "%" if case == STOLEN else "pods" if "not bound" in case else "ms"
        figures.append(Figure(group, f"{kind}: {case}", statistics.median(values), unit, budgets.get(case)))
    return figures


def _kubeconfig(bed: Bed) -> str:
    return str(bed.work / "kubeconfig/bench")


def _service_account(bed: Bed) -> None:
    """Write a kubeconfig with the token of a service account, as the chart's programs have.

    With the bed's client certificates, the API server would verify a signature for each request.
    """
    account = {"kind": "ServiceAccount", "metadata": {"name": "bench", "namespace": "default"}}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "default"}],
    }
    bed.apply({"apiVersion": "v1", **account}, {"apiVersion": "rbac.authorization.k8s.io/v1", **binding})
    token = bed.kubectl("create", "token", "bench", "--duration=24h").strip()
    config = yaml.safe_load((bed.work / "kubeconfig/admin").read_text())
    cluster = config["clusters"][0]["cluster"]
    if file := cluster.pop("certificate-authority", None):
        cluster["certificate-authority-data"] = base64.b64encode(Path(file).read_bytes()).decode()
    config["users"][0]["user"] = {"token": token}
    Path(_kubeconfig(bed)).write_text(yaml.safe_dump(config))


def _round(bed: Bed, tools: Tools, kind: str, qps: int, pods: int) -> tuple[float, dict[str, float]]:
    """Let `pods` waiting pods be bound. Returns pods a second, and other figures by name, mostly in ms a pod."""
    _create(bed, pods)
    config = bed.work / f"bench-{kind}.json"
    config.write_text(json.dumps(_config(bed, qps, extender=kind != "none"), indent=1))
    words = [str(tools.kubernetes_bin / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
    seen: dict[str, float] = {}
    with ExitStack() as programs:
        measured = {row.name: row.pid for row in bed.processes("cp") if row.name in ("kube-apiserver", "etcd")}
        if kind != "none":
            extender = programs.enter_context(_program(bed, _extender(bed, kind), f"extender-{kind}"))
            measured["the extender"] = extender.pid
            bed.wait("the extender answers", lambda: _get(bed, EXTENDER_PORT, "/readyz").strip(), 60)
        _quiet(bed)
        seen_before = _seen_bound(bed)
        before = {name: _cpu(pid) for name, pid in measured.items()}
        scheduler = programs.enter_context(_program(bed, words, "kube-scheduler-bench"))
        given, stolen = _processors()
        seconds = _bound(bed, len(seen_before), pods)
        given, stolen = (now - then for now, then in zip(_processors(), (given, stolen), strict=True))
        seen[STOLEN] = 100 * stolen / (given + stolen)
        for name, pid in (measured | {"kube-scheduler": scheduler.pid}).items():
            seen[f"processor time of {name} for a pod"] = 1e3 * (_cpu(pid) - before.get(name, 0.0)) / pods
        if kind == "ours":
            seen |= _verbs(_get(bed, METRICS_PORT, "/metrics"), pods)
            seen["pods that fit and were not bound"] = float(_waiting(bed))
    bed.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false", timeout=300)
    bed.wait("all pods are gone", lambda: not bed.call("GET", f"{PODS_PATH}?limit=1")["items"], 180)
    return pods / seconds, seen


def _config(bed: Bed, qps: int, *, extender: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "podMaxBackoffSeconds": 3,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": _kubeconfig(bed), "qps": qps, "burst": 2 * qps},
        "profiles": [{"schedulerName": SCHEDULER, "pluginConfig": [{"name": "NodeResourcesFit", "args": {}}]}],
    }
    if not extender:  # no node advertises memory
        config["profiles"][0]["pluginConfig"][0]["args"]["ignoredResources"] = ["nvidia.com/gpumem"]
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
                    {"name": "nvidia.com/gpu", "ignoredByScheduler": True},
                    *({"name": name, "ignoredByScheduler": True} for name in IGNORED),
                ],
            }
        ]
    return config


def _extender(bed: Bed, kind: str) -> list[str]:
    kubeconfig = _kubeconfig(bed)
    if kind == "null":
        return [_python(bed), "-m", "tests.bench.null_extender", str(EXTENDER_PORT), kubeconfig]
    return [
        _python(bed), "-m", "hami_core", "scheduler", f"--kubeconfig={kubeconfig}", "--vendors=nvidia",
        f"--http_bind=127.0.0.1:{EXTENDER_PORT}", f"--metrics-bind-address=127.0.0.1:{METRICS_PORT}",
        f"--scheduler-name={SCHEDULER}", "--kube-qps=500", "--kube-burst=1000", "--log-format=json",
    ]  # fmt: skip


def _python(bed: Bed) -> str:
    """The images' interpreter, if this machine has it and it can run this environment's packages. Else this one."""
    place = bed.work / "python"
    same = f"python{sys.version_info.major}.{sys.version_info.minor}" == SHIPPED_PYTHON.name
    if not (same and SHIPPED_PYTHON.exists()):
        return sys.executable
    if not place.exists():
        subprocess.run([SHIPPED_PYTHON, "-m", "venv", "--without-pip", place], check=True, capture_output=True)
        ours = f"import site; site.addsitedir({sysconfig.get_path('platlib')!r})\n"
        (place / "lib" / SHIPPED_PYTHON.name / "site-packages/bench.pth").write_text(ours)
    return str(place / "bin/python")


@contextmanager
def _program(bed: Bed, words: list[str], name: str, *, ready: str = "") -> Iterator[Process]:
    """Run a program beside the control plane, and wait for the word `ready` in its output if it is given."""
    log = bed.work / "log" / f"{name}.log"
    log.unlink(missing_ok=True)
    environment = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with bed.program("cp", *words, log=log, env=environment) as process:
        if ready:
            bed.wait(f"{name} is ready", lambda: ready in log.read_text(), 120)
        yield process


def _create(bed: Bed, pods: int) -> None:
    """Create pods for the scheduler under test, which does not run yet."""
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
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: bed.call("POST", PODS_PATH, body), range(pods)))


def _bound(bed: Bed, before: int, pods: int) -> float:
    """Seconds between the first and the last Bind, as the hollow nodes saw them."""

    def times() -> list[float] | None:
        seen = _seen_bound(bed)[before:]
        return seen if len(seen) >= pods else None

    seen = bed.wait(f"{pods} pods are bound", times, 600, poll=0.5) or []
    return max(seen) - min(seen)


def _seen_bound(bed: Bed) -> list[float]:
    """The time at which each pod was seen bound, in seconds of the machine's monotonic clock."""
    lines = (bed.work / "log/hollow.log").read_text().split("\n")[:-1]  # the last line may be incomplete
    return [float(line.split()[1]) for line in lines if line.startswith("bound ")]


def _waiting(bed: Bed) -> int:
    return len(bed.kubectl("get", "pods", "--field-selector=spec.nodeName=", "-o", "name", "--chunk-size=0").split())


def _quiet(bed: Bed) -> None:
    """Wait until the control plane has finished the work of the last round."""
    programs = [row.pid for row in bed.processes("cp") if row.name.startswith(("kube-", "etcd"))]
    spent = sum(map(_cpu, programs))
    for _ in range(60):
        time.sleep(1)
        last, spent = spent, sum(map(_cpu, programs))
        if spent - last < QUIET:
            return


def _get(bed: Bed, port: int, path: str) -> str:
    url = f"http://127.0.0.1:{port}{path}"
    script = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=60).read().decode())"
    return bed.run("cp", sys.executable, "-c", script, timeout=90).stdout


def _processors() -> tuple[int, int]:
    """Ticks that this machine's processors worked, and ticks that its host withheld."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    user, nice, system, _, _, irq, softirq, steal = fields
    return user + nice + system + irq + softirq, steal


def _undisturbed(turn: dict[str, tuple[float, dict[str, float]]]) -> bool:
    return all(more[STOLEN] <= WITHHELD for _, more in turn.values())


def _cpu(program: int) -> float:
    """Processor seconds of a program and of its children."""
    total = 0
    for pid in _tree(program):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    return [pid, *(deeper for child in children(pid) for deeper in _tree(child))]


def _verbs(metrics: str, pods: int) -> dict[str, float]:
    """Our extender's time in each verb in ms a pod, from its own histograms."""
    name = "hami_scheduler_request_duration_seconds"
    spent = {
        verb: 1e3 * sum(map(float, re.findall(rf'{name}_sum{{[^}}]*verb="{verb}"[^}}]*}} (\S+)', metrics))) / pods
        for verb in ("filter", "prioritize", "bind")
    }
    seen = {f"time in {verb} for a pod": value for verb, value in spent.items()}
    # kube-scheduler waits for filter and prioritize before it takes the next pod. It binds in the background.
    seen["extender, synchronous"] = spent["filter"] + spent["prioritize"]
    buckets: dict[float, float] = {}
    for labels, count in re.findall(rf"{name}_bucket{{([^}}]*)}} (\S+)", metrics):
        if 'verb="filter"' in labels and (edge := re.search(r'le="([^"]+)"', labels)):
            bound = float(edge.group(1).replace("+Inf", "inf"))
            buckets[bound] = buckets.get(bound, 0) + float(count)
    edges = sorted(buckets)
    seen["Filter p99, upper bound"] = 1e3 * next(edge for edge in edges if buckets[edge] >= 0.99 * buckets[edges[-1]])
    return seen


# --- a node ----------------------------------------------------------------------------------------------------------


def _node(tools: Tools, work: Path, *, quick: bool) -> list[Figure]:
    work.mkdir(parents=True)
    with System(work, tools, (Node("node1", "a100x8"),)) as system:
        times: dict[str, list[float]] = {"with a slice": [], "without a device": []}
        for _ in range(1 if quick else 3):
            for case, count in (("with a slice", 1), ("without a device", 0)):
                times[case].append(_forty(system, count))
        middle = {case: statistics.median(values) for case, values in times.items()}
        figures = [
            Figure("real", f"40 pods on one node running, {case}", value, "s", 15 if "slice" in case else None)
            for case, value in middle.items()
        ]
        more = middle["with a slice"] - middle["without a device"]
        figures.append(Figure("real", "40 pods: what a slice adds", more, "s", 2))
        waits = _handed_on(system, 10 if quick else 40)
        figures += [
            Figure("real", "from a slice's release to the waiting pod's bind, p50", statistics.median(waits), "s"),
            Figure("real", "from a slice's release to the waiting pod's bind, p99", percentile(waits, 99), "s", 5),
        ]
    return figures


def _forty(system: System, count: int) -> float:
    """Seconds until 40 pods created at once are all ready."""
    command = ["cuda-probe", "look", "100000"] if count else ["python3", "-c", "import time; time.sleep(1e5)"]
    names = [f"forty{index:02}" for index in range(40)]
    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        bodies = [pod(name, container(memory=2000, count=count, command=command)) for name in names]
        list(pool.map(system.submit, bodies))
    system.running(*names, timeout=180)
    taken = time.monotonic() - start
    system.clean()
    return taken


def _handed_on(system: System, times: int) -> list[float]:
    """Seconds from the end of the pod that held all eight cards to the Bind of the one that waits for them."""
    waits = []
    system.submit(pod("holder0", container(memory=None, count=8)))
    system.running("holder0")
    for index in range(times):
        following = f"holder{index + 1}"
        system.submit(pod(following, container(memory=None, count=8)))
        system.bed.wait("it waits", lambda name=following: system.pod(name)["status"].get("conditions"))
        system.delete(f"holder{index}")
        released = time.time()
        now = system.running(following, timeout=90)[0]
        bound = next(c["lastTransitionTime"] for c in now["status"]["conditions"] if c["type"] == "PodScheduled")
        # The API server's times are whole seconds, so the result is no finer.
        waits.append(max(0.0, datetime.fromisoformat(bound).timestamp() + 1 - released))
    system.clean()
    return waits
