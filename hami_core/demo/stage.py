"""Everything the demo runs on, started, restarted and stopped: cluster, GPUs, scheduler, agents.

Each part of ours is the production program in a process of its own, started through its command line; the cluster
around it is the embedded one, the GPUs are simulated ones unless the machine's own are asked for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp

from hami_core.demo.parts import Part, PartError, free_port
from hami_core.errors import ConfigError
from hami_core.http import tls
from hami_core.sim import Cluster, NodeSpec
from hami_core.wire import keys, signature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType, TracebackType

SCHEDULER_NAME: Final = "hami-scheduler"
LIBRARY_DIR: Final = "/usr/local/nvidia/lib64"
"""Where containers find the driver's libraries: on the path of every CUDA image."""
PROGRAMS: Final = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node of the stage: its name, the simulated GPUs in it, and how often each is offered."""

    name: str
    profile: str
    split: int = 10


@dataclass(frozen=True, slots=True)
class Card:
    """One card as the driver describes it on the node; bytes, and bytes by process id."""

    uuid: str
    name: str
    total: int
    used_by: Mapping[int, int]


@dataclass
class Stage:
    """The whole system on this machine; an asynchronous context manager.

    Attributes:
        work: Folder for everything it writes.
        nodes: The nodes.
        real: Use the machine's own GPUs in place of simulated ones (one node).
        kubelet: Further options of each embedded kubelet, for tests.
        agent: Further flags of each agent, for tests.
        scheduler: Further flags of the scheduler, for tests.
        vendors: Vendors the scheduler loads.
        extender_url: Where our scheduler answers kube-scheduler and the API server.
    """

    work: Path
    nodes: Sequence[GpuNode]
    real: bool = False
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    agent: Sequence[str] = ()
    scheduler: Sequence[str] = ()
    vendors: Sequence[str] = ("nvidia",)
    extender_url: str = field(init=False, default="")
    cluster: Cluster = field(init=False, repr=False)
    parts: dict[str, Part] = field(init=False, default_factory=dict, repr=False)
    session: aiohttp.ClientSession = field(init=False, repr=False)

    # --- life ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.work.mkdir(parents=True, exist_ok=True)
        self._write_keys()
        self._make_gpus()
        self._build_probe()
        port, metrics = free_port(), free_port()
        self.extender_url = f"https://127.0.0.1:{port}"
        self.cluster = Cluster(
            self.work / "cluster",
            nodes=[self._node_spec(node) for node in self.nodes],
            scheduler_config=self._scheduler_config(),
        )
        await self.cluster.start()
        self.session = aiohttp.ClientSession(self.cluster.url)
        try:
            self.parts["scheduler"] = self._scheduler(port, metrics)
            for node in self.nodes:
                self.parts[f"agent:{node.name}"] = self._agent(node)
            for part in self.parts.values():
                part.start()
            await asyncio.gather(*(part.ready() for part in self.parts.values()))
            await self._register_webhook()
            await self._nodes_ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    async def close(self) -> None:
        """Stop everything, ours first."""
        for part in self.parts.values():
            part.signal(signal.SIGTERM)
        for part in self.parts.values():
            part.wait()
        await self.session.close()
        await self.cluster.stop()

    @property
    def part_names(self) -> tuple[str, ...]:
        """Every part that `restart` can kill: ours and the embedded cluster's."""
        kubelets = tuple(f"kubelet:{node.name}" for node in self.nodes)
        return (*self.parts, "apiserver", "kube-scheduler", *kubelets)

    async def restart(self, name: str) -> None:
        """Kill a part (SIGKILL) and start it again; returns once it serves."""
        part = self.parts.get(name)
        if part is None:
            await self.cluster.restart({"kube-scheduler": "scheduler"}.get(name, name))
            return
        part.signal(signal.SIGKILL)
        part.wait()
        part.start()
        await part.ready()

    async def replace(self, name: str) -> None:
        """End a part of ours gracefully (SIGTERM), as an upgrade does, and start it again; returns once it serves."""
        part = self.parts[name]
        part.signal(signal.SIGTERM)
        await asyncio.to_thread(part.wait)
        part.start()
        await part.ready()

    # --- what runs ---------------------------------------------------------------------------------------------

    def _hami(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "hami_core", *words]

    def _environment(self, **more: str) -> dict[str, str]:
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("HAMI_", "KUBE", "CUDA_"))}
        return keep | {"PYTHONUNBUFFERED": "1"} | more

    def _scheduler(self, port: int, metrics: int) -> Part:
        return Part(
            "scheduler",
            self._hami(
                "scheduler",
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--http_bind=127.0.0.1:{port}",
                f"--cert_file={self.work / 'tls' / 'tls.crt'}",
                f"--key_file={self.work / 'tls' / 'tls.key'}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
                f"--scheduler-name={SCHEDULER_NAME}",
                f"--signing-key={self.work / 'signing.key'}",
                "--leader-elect",
                "--leader-elect-resource-name=kube-scheduler",
                "--leader-elect-resource-namespace=kube-system",
                f"--vendors={','.join(self.vendors)}",
                "--log-format=json",
                *self.scheduler,
            ),
            self._environment(),
            self.work / "scheduler.log",
            f"http://127.0.0.1:{metrics}/readyz",
        )

    def _agent(self, node: GpuNode) -> Part:
        metrics = free_port()
        place = self.cluster.node(node.name)
        environment = {"HAMI_NVIDIA_SPLIT_COUNT": str(node.split)}
        if not self.real:
            libraries = str(_interposer().sim_library_dir())
            environment |= {
                "HAMI_SIM_STATE": str(self.gpu_state(node.name)),
                "LD_LIBRARY_PATH": libraries,
                "HAMI_NVIDIA_DEV_ROOT": str(self.gpu_state(node.name) / "dev"),
                "HAMI_NVIDIA_DRIVER_LIBRARIES": f"{libraries}/libcuda.so.1,{libraries}/libnvidia-ml.so.1",
                "HAMI_NVIDIA_CONTAINER_LIBRARY_DIR": LIBRARY_DIR,
            }
        return Part(
            f"agent:{node.name}",
            self._hami(
                "agent",
                "--vendor=nvidia",
                f"--node-name={node.name}",
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--state-dir={self.work / node.name / 'state'}",
                f"--kubelet-plugin-dir={place.plugin_dir}",
                f"--cdi-dir={place.cdi_dir}",
                f"--proc-dir={place.proc}",
                f"--signing-keys={self.work / 'signing.pub'}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
                "--log-format=json",
                *self.agent,
            ),
            self._environment(**environment),
            self.work / f"agent-{node.name}.log",
            f"http://127.0.0.1:{metrics}/readyz",
        )

    def _scheduler_config(self) -> dict[str, Any]:
        """The KubeSchedulerConfiguration that joins kube-scheduler and ours."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "podMaxBackoffSeconds": 3,
            "leaderElection": {"leaseDuration": "8s", "renewDeadline": "6s", "retryPeriod": "1s"},
            "profiles": [{"schedulerName": SCHEDULER_NAME}],
            "extenders": [
                {
                    "urlPrefix": self.extender_url,
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "bindVerb": "bind",
                    "weight": 10,
                    "nodeCacheCapable": True,
                    "enableHTTPS": True,
                    "tlsConfig": {"caFile": str(self.work / "tls" / "tls.crt")},
                    "httpTimeout": "30s",
                    "managedResources": [
                        {"name": "nvidia.com/gpu", "ignoredByScheduler": True},
                        {"name": "nvidia.com/gpumem", "ignoredByScheduler": True},
                        {"name": "nvidia.com/gpumem-percentage", "ignoredByScheduler": True},
                        {"name": "nvidia.com/gpucores", "ignoredByScheduler": True},
                        {"name": "nvidia.com/priority", "ignoredByScheduler": True},
                    ],
                }
            ],
        }

    def _node_spec(self, node: GpuNode) -> NodeSpec:
        """An embedded node; the books of its GPUs are hardware, so all containers see them as they are."""
        path = f"{self.work / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        env = {"PATH": path, "LD_LIBRARY_PATH": LIBRARY_DIR}
        if not self.real:
            env |= {"HAMI_SIM_STATE": str(self.gpu_state(node.name)), "HAMI_SIM_DEV": "/dev"}
        shared = [] if self.real else [self.gpu_state(node.name)]
        return NodeSpec(name=node.name, image_env=env, shared=shared, **self.kubelet)

    # --- what it needs -----------------------------------------------------------------------------------------

    def gpu_state(self, node: str) -> Path:
        """State folder of a node's simulated GPUs."""
        return self.work / node / "gpus"

    def _write_keys(self) -> None:
        key = signature.generate_private_key()
        _private(self.work / "signing.key", signature.private_key_pem(key))
        (self.work / "signing.pub").write_bytes(signature.public_key_pem(key.public_key()))
        tls.ensure_self_signed(self.work / "tls", ["127.0.0.1", "localhost"])

    def _make_gpus(self) -> None:
        if self.real:
            return
        simulated = import_module("hami_interpose.sim")
        for node in self.nodes:
            self.gpu_state(node.name).parent.mkdir(parents=True, exist_ok=True)
            simulated.create(self.gpu_state(node.name), node.profile)

    def _build_probe(self) -> None:
        """Compile the C client program against the driver's library."""
        (self.work / "bin").mkdir(exist_ok=True)
        where = [] if self.real else [f"-L{_interposer().sim_library_dir()}"]
        build = ["cc", "-std=c11", "-O1", str(PROGRAMS / "probe.c"), "-o", str(self.work / "bin" / "cuda-probe")]
        done = subprocess.run([*build, *where, "-l:libcuda.so.1"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PartError(f"the C client program does not compile:\n{done.stderr}")

    async def _register_webhook(self) -> None:
        bundle = base64.b64encode((self.work / "tls" / "tls.crt").read_bytes()).decode()
        hook = {
            "name": "vgpu.hami.io",
            "clientConfig": {"url": f"{self.extender_url}/webhook", "caBundle": bundle},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
                for operation, resource in (("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers"))
            ],
            "objectSelector": {
                "matchExpressions": [{"key": keys.WEBHOOK_LABEL, "operator": "NotIn", "values": ["ignore"]}]
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "hami-webhook"},
            "webhooks": [hook],
        }
        await self.call("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", body)

    async def _nodes_ready(self, limit_s: float = 30.0) -> None:
        """Wait until every node offers devices to the kubelet and has its register annotation."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        waiting: list[str] = []
        while loop.time() < deadline:
            listing = await self.call("GET", "/api/v1/nodes")
            waiting = [
                item["metadata"]["name"]
                for item in listing["items"]
                if item.get("status", {}).get("allocatable", {}).get("nvidia.com/gpu", "0") == "0"
                or "hami.io/node-nvidia-register" not in item["metadata"].get("annotations", {})
            ]
            if not waiting and len(listing["items"]) == len(self.nodes):
                return
            await asyncio.sleep(0.05)
        logs = "\n".join(part.tail() for name, part in self.parts.items() if name.startswith("agent"))
        raise PartError(f"nodes without devices after {limit_s:.0f} s: {', '.join(waiting)}\n{logs}")

    # --- the API server, as any client would -----------------------------------------------------------------------

    async def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """One call to the API server.

        Raises:
            PartError: The server refused; with its words.
        """
        async with self.session.request(method, path, json=body) as answer:
            if answer.status >= 400:
                text = await answer.text()
                raise PartError(f"{method} {path}: {answer.status}: {text[:2000]}")
            if answer.content_type == "application/json":
                return await answer.json()
            return await answer.text()

    async def pods(self, namespace: str = "default") -> dict[str, dict[str, Any]]:
        """All pods by name."""
        listing = await self.call("GET", f"/api/v1/namespaces/{namespace}/pods")
        return {item["metadata"]["name"]: item for item in listing["items"]}

    async def submit(self, pod: Mapping[str, Any], namespace: str = "default") -> None:
        """Create a pod."""
        await self.call("POST", f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", **pod})

    async def log(self, pod: str, container: str, namespace: str = "default") -> str:
        """What a container has printed; empty before it started."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}"
        try:
            text = await self.call("GET", path)
        except PartError:
            return ""
        return str(text)

    def devices(self) -> dict[str, list[Card]]:
        """What the driver itself says, by node: the simulated one's books, or the real one's NVML."""
        if self.real:
            return {self.nodes[0].name: _real_cards()}
        simulated = import_module("hami_interpose.sim")
        found = {}
        for node in self.nodes:
            with simulated.State(self.gpu_state(node.name)) as state:
                found[node.name] = [
                    Card(d.uuid, d.name, d.memory_total, {p.pid: p.memory_used for p in d.processes})
                    for d in state.devices
                ]
        return found


def _real_cards() -> list[Card]:
    argv = [sys.executable, "-m", "hami_core.demo.programs.nvml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PartError(f"NVML cannot be asked on this machine:\n{done.stderr}")
    return [
        Card(d["uuid"], d["name"], d["total_bytes"], {p["pid"]: p["used_bytes"] for p in d["processes"]})
        for d in json.loads(done.stdout)["devices"]
    ]


def _interposer() -> ModuleType:
    try:
        return import_module("hami_interpose")
    except ImportError as error:
        raise ConfigError("demo", "hami-interpose is not installed", "pip install 'hami[nvidia]'") from error


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
