"""A whole cluster on this machine for any installed vendor: embedded Kubernetes, our scheduler, agents on each node.

Our scheduler and agents are the production programs, each in a process of its own, started by its command line. Only
the cluster around them is embedded. `hami demo` runs on this stage. A vendor's own tests can use it too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import yaml

from hami_core.errors import ConfigError
from hami_core.http import tls
from hami_core.plugins import load
from hami_core.plugins.discovery import NODE, installed
from hami_core.sim import Cluster, NodeSpec
from hami_core.testing.parts import START_LIMIT_S, Part, StageError, free_port
from hami_core.wire import keys, signature

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType

    from hami_core.model import Family
    from hami_core.plugins import Loaded

SCHEDULER_NAME: Final = "hami-scheduler"
_POLL_S: Final = 0.05
_MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class StageNode:
    """A node of the stage.

    Attributes:
        name: Its name.
        env: Environment of the node's agents. It tells the vendor's node side where its devices are, for example
            ``{"HAMI_ACME_SYSFS": "/tmp/acme"}``. The agents do not inherit ``HAMI_*``, ``KUBE*`` and ``CUDA_*`` from
            this process.
        annotations: Annotations of the node object. For a vendor without a node side, they list its devices.
        labels: Labels of the node object.
        capacity: Extended resources of the node object, for vendors that count devices there.
        agents: Vendors whose agents run on the node. None: every vendor of the stage that has a node side.

    >>> node = StageNode("npu-1", env={"HAMI_ACME_SYSFS": "/tmp/acme"}, labels={"zone": "b"})
    >>> node.name, dict(node.labels)
    ('npu-1', {'zone': 'b'})
    """

    name: str
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    annotations: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    labels: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    capacity: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    agents: Collection[str] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class StagedContainer:
    """What the runtime gave a container.

    Attributes:
        env: Environment of the container, including the image's.
        mounts: Path in the container → path on the node.
        devices: Device path in the container → path on the node.
        exit_code: Exit code of the latest attempt; None while it runs.

    >>> got = StagedContainer({"ACME": "1"}, {}, {"/dev/acme0": "/dev/acme0"}, None)
    >>> got.env["ACME"], sorted(got.devices)
    ('1', ['/dev/acme0'])
    """

    env: Mapping[str, str]
    mounts: Mapping[str, str]
    devices: Mapping[str, str]
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class StagedCard:
    """One device as its driver describes it on the node.

    Attributes:
        uuid: Its id.
        name: Its model, for people.
        total: Its memory in bytes.
        used_by: Bytes that processes hold, by process id on this machine.

    Example:
        >>> StagedCard("ACME-0", "Acme X1", 32 << 30, {4711: 1 << 30}).used_by[4711]
        1073741824
    """

    uuid: str
    name: str
    total: int
    used_by: Mapping[int, int]


@dataclass
class Stage:
    """The whole system on this machine, as an asynchronous context manager.

    A test of a vendor whose node side finds its devices in the folder that ``HAMI_ACME_SYSFS`` names::

        nodes = [StageNode("npu-1", env={"HAMI_ACME_SYSFS": str(sysfs), "HAMI_ACME_DEV": str(dev)})]
        async with Stage(folder, nodes, vendors=["acme"]) as stage:
            await stage.submit(pod)
            await stage.wait_running("trainer")
            got = await stage.container("trainer")
            assert got.env["ACME_MEMORY_LIMITS_MIB"] == "3000"
            assert got.devices == {"/dev/acme0": str(dev / "acme0")}

    The vendor must be installed, because scheduler and agents find it by its entry point. Needs ``hami[testing]``.

    Attributes:
        work: Folder for state and logs. Its path must be short, because it contains unix sockets.
        nodes: The nodes.
        vendors: Vendors that the scheduler loads. Each vendor with a node side gets an agent on every node, unless
            `StageNode.agents` says otherwise.
        kubelet: Further options of each embedded kubelet (`hami_core.sim.NodeSpec`).
        agent: Further flags of each agent.
        scheduler: Further flags of the scheduler.
        device_config: The vendors' sections of device-config.yaml. If empty, the vendors use their defaults.
        extender_url: URL at which our scheduler answers kube-scheduler and the API server.
        metrics_url: URL at which it serves its metrics, and answers ``hami explain`` and ``hami top``.

    Raises:
        ConfigError: A vendor is not installed or cannot be loaded, or nothing says which devices the nodes have.
        StageError: A process does not start, or a node does not offer devices. The text has the end of the log.
    """

    work: Path
    nodes: Sequence[StageNode]
    vendors: Sequence[str]
    kubelet: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    agent: Sequence[str] = field(default=(), kw_only=True)
    scheduler: Sequence[str] = field(default=(), kw_only=True)
    device_config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    extender_url: str = field(init=False, default="")
    metrics_url: str = field(init=False, default="")
    loaded: Loaded = field(init=False, repr=False)
    cluster: Cluster = field(init=False, repr=False)
    parts: dict[str, Part] = field(init=False, default_factory=dict, repr=False)
    session: aiohttp.ClientSession = field(init=False, repr=False)
    _bind_finisher: asyncio.Task[None] | None = field(init=False, default=None, repr=False)

    # --- life ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.loaded = self.load()
        self.work.mkdir(parents=True, exist_ok=True)
        self._write_keys()
        self.prepare()
        port, metrics = free_port(), free_port()
        self.extender_url, self.metrics_url = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{metrics}"
        self.cluster = Cluster(
            self.work / "cluster",
            nodes=[self._node_spec(node) for node in self.nodes],
            scheduler_config=self._scheduler_config(),
        )
        await self.cluster.start()
        self.session = aiohttp.ClientSession(self.cluster.url)
        try:
            await self._write_nodes()
            self.parts["scheduler"] = self._scheduler(port, metrics)
            for node in self.nodes:
                for vendor in self.agents_on(node):
                    part = self._agent(node, vendor)
                    self.parts[part.name] = part
            for part in self.parts.values():
                part.start()
            await asyncio.gather(*(part.ready() for part in self.parts.values()))
            await self._register_webhook()
            await self._nodes_ready()
            if any(len(self.agents_on(node)) < len(self.vendors) for node in self.nodes):
                self._bind_finisher = asyncio.create_task(self._finish_binds())
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
        """Stop our processes, then the cluster."""
        if self._bind_finisher is not None:
            self._bind_finisher.cancel()
            await asyncio.gather(self._bind_finisher, return_exceptions=True)
        for part in self.parts.values():
            part.signal(signal.SIGTERM)
        for part in self.parts.values():
            part.wait()
        await self.session.close()
        await self.cluster.stop()

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of all parts that `restart` can kill: ours and the embedded cluster's."""
        kubelets = tuple(f"kubelet:{node.name}" for node in self.nodes)
        return (*self.parts, "apiserver", "kube-scheduler", *kubelets)

    async def restart(self, name: str) -> None:
        """Kill a part with SIGKILL, start it again and wait until it serves."""
        part = self.parts.get(name)
        if part is None:
            await self.cluster.restart({"kube-scheduler": "scheduler"}.get(name, name))
            return
        part.signal(signal.SIGKILL)
        part.wait()
        part.start()
        await part.ready()

    async def replace(self, name: str) -> None:
        """End one of our parts with SIGTERM, as an upgrade does, start it again and wait until it serves."""
        part = self.parts[name]
        part.signal(signal.SIGTERM)
        await asyncio.to_thread(part.wait)
        part.start()
        await part.ready()

    # --- what a subclass may add -------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Prepare the nodes' devices before any process starts. By default it does nothing."""

    def agent_environment(self, node: StageNode) -> dict[str, str]:
        """Environment of the node's agents, in addition to the common environment."""
        return dict(node.env)

    @property
    def image_env(self) -> dict[str, str]:
        """Environment that every image is assumed to set."""
        return {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"}

    def node_env(self, node: StageNode) -> dict[str, str]:
        """Environment of containers on a node, in addition to the image's. By default it is empty."""
        del node
        return {}

    def shared_folders(self, node: StageNode) -> Sequence[Path]:
        """Folders that all containers of a node share with the host, such as simulated hardware. By default none."""
        del node
        return ()

    def devices(self) -> Mapping[str, Sequence[StagedCard]]:
        """Devices by node, as the driver describes them; empty if the stage does not ask a driver."""
        return {}

    # --- vendors -----------------------------------------------------------------------------------------------

    @property
    def agent_vendors(self) -> tuple[str, ...]:
        """The vendors with a node side, in the order of ``vendors``."""
        have = {source.name for source, _ in installed(NODE)}
        return tuple(name for name in self.vendors if name in have)

    def agents_on(self, node: StageNode) -> tuple[str, ...]:
        """The vendors whose agents run on a node, in the order of ``vendors``."""
        return tuple(name for name in self.agent_vendors if node.agents is None or name in node.agents)

    @property
    def read_vendors(self) -> Sequence[str]:
        """Vendors whose requests and registers this process reads. The scheduler loads the same ones."""
        return self.vendors

    def load(self) -> Loaded:
        """Load the vendors in this process, to learn their families and to read requests.

        Raises:
            ConfigError: A vendor is not installed or cannot be loaded, or nothing says which devices the nodes have.
        """
        loaded = load(self.device_config, only=self.read_vendors, named_by="vendors")
        loaded.require()
        for name in self.read_vendors:
            loaded.vendor(name)
        bare = [node.name for node in self.nodes if not node.annotations and not node.capacity]
        if bare and not self.agent_vendors:
            problem = f"has no node side (entry point {NODE}), and nothing says what devices node {bare[0]} has"
            fix = "give the node's annotations and capacity as the vendor's device plugin leaves them"
            raise ConfigError(f"vendor {', '.join(self.vendors)}", problem, fix)
        return loaded

    def _families(self, vendor: str) -> Sequence[Family]:
        return self.loaded.vendor(vendor).families

    # --- what runs ---------------------------------------------------------------------------------------------

    def _node_spec(self, node: StageNode) -> NodeSpec:
        env = self.image_env | self.node_env(node)
        return NodeSpec(name=node.name, image_env=env, shared=self.shared_folders(node), **self.kubelet)

    def _hami(self, *words: str) -> list[str]:
        config = [f"--device-config-file={self._config_file}"] if self.device_config else []
        return [sys.executable, "-m", "hami_core", *words, *config, "--log-format=json"]

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
                *self.scheduler,
            ),
            self._environment(),
            self.work / "scheduler.log",
            f"http://127.0.0.1:{metrics}/readyz",
        )

    def _agent(self, node: StageNode, vendor: str) -> Part:
        """The node's agent for one vendor. With several vendors, the names of part and folder end in the vendor."""
        metrics = free_port()
        place = self.cluster.node(node.name)
        several = f"-{vendor}" if len(self.agent_vendors) > 1 else ""
        return Part(
            f"agent:{node.name}{several}",
            self._hami(
                "agent",
                f"--vendor={vendor}",
                f"--node-name={node.name}",
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--state-dir={self.work / node.name / f'state{several}'}",
                f"--kubelet-plugin-dir={place.plugin_dir}",
                f"--cdi-dir={place.cdi_dir}",
                f"--proc-dir={place.proc}",
                f"--signing-keys={self.work / 'signing.pub'}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
                *self.agent,
            ),
            self._environment(**self.agent_environment(node)),
            self.work / f"agent-{node.name}{several}.log",
            f"http://127.0.0.1:{metrics}/readyz",
            fatal="devices can't be discovered",
            fix="say where its devices are: StageNode(env=…), or hami demo --agent-env NAME=VALUE",
        )

    def _scheduler_config(self) -> dict[str, Any]:
        """The KubeSchedulerConfiguration that tells kube-scheduler about our scheduler."""
        names = dict.fromkeys(name for family in self.loaded.families.values() for name in family.resources.names())
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
                    "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
                }
            ],
        }

    # --- set-up ------------------------------------------------------------------------------------------------

    @property
    def _config_file(self) -> Path:
        return self.work / "device-config.yaml"

    def _write_keys(self) -> None:
        key = signature.generate_private_key()
        _private(self.work / "signing.key", signature.private_key_pem(key))
        (self.work / "signing.pub").write_bytes(signature.public_key_pem(key.public_key()))
        tls.ensure_self_signed(self.work / "tls", ["127.0.0.1", "localhost"])
        if self.device_config:
            self._config_file.write_text(yaml.safe_dump(dict(self.device_config)), "utf-8")

    async def _write_nodes(self) -> None:
        for node in self.nodes:
            path = f"/api/v1/nodes/{node.name}"
            if node.annotations or node.labels:
                meta = {"annotations": dict(node.annotations), "labels": dict(node.labels)}
                await self.call("PATCH", path, {"metadata": meta}, content_type=_MERGE)
            if node.capacity:
                status = {"capacity": dict(node.capacity), "allocatable": dict(node.capacity)}
                await self.call("PATCH", f"{path}/status", {"status": status}, content_type=_MERGE)

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

    async def _nodes_ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until every node exists and offers devices of every vendor whose agent runs there."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        waiting: list[str] = []
        while loop.time() < deadline:
            items = (await self.call("GET", "/api/v1/nodes"))["items"]
            waiting = [item["metadata"]["name"] for item in items if not self._offers_devices(item)]
            if not waiting and len(items) == len(self.nodes):
                return
            await asyncio.sleep(_POLL_S)
        logs = "\n".join(part.tail() for name, part in self.parts.items() if name.startswith("agent"))
        raise StageError(f"nodes without devices after {limit_s:.0f} s: {', '.join(waiting)}\n{logs}")

    def _offers_devices(self, node: Mapping[str, Any]) -> bool:
        served = next(self.agents_on(n) for n in self.nodes if n.name == node["metadata"]["name"])
        allocatable = node.get("status", {}).get("allocatable", {})
        annotations = node["metadata"].get("annotations", {})
        return all(
            any(
                allocatable.get(family.resources.count, "0") != "0"
                and (not family.register_key or family.register_key in annotations)
                for family in self._families(name)
            )
            for name in served
        )

    async def _finish_binds(self) -> None:
        """Finish Binds in place of the device plugins of vendors that have no agent on the node.

        The plugins finish a Bind by two writes, and the scheduler waits for both: they remove the node lock, and they
        set the pod's bind phase. If the pod also has devices of one of our agents, the agent may have set the phase.
        """
        families = self.loaded.families.values()
        locks = {key for f in families for key in (keys.NODE_LOCK, f.foreign_lock, *f.lock_timeouts_s) if key}
        every = {f.allocated_key for f in families}
        theirs = {
            node.name: every - {f.allocated_key for name in self.agents_on(node) for f in self._families(name)}
            for node in self.nodes
        }
        finished: set[str] = set()
        while True:
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(StageError, aiohttp.ClientError):
                for pod in (await self.call("GET", "/api/v1/pods"))["items"]:
                    meta, node = pod["metadata"], pod["spec"].get("nodeName")
                    annotations = meta.get("annotations", {})
                    if not node or meta["uid"] in finished or not theirs[node] & annotations.keys():
                        continue
                    unlocked = {"metadata": {"annotations": dict.fromkeys(locks)}}
                    await self.call("PATCH", f"/api/v1/nodes/{node}", unlocked, content_type=_MERGE)
                    done = {"metadata": {"annotations": {keys.BIND_PHASE: keys.PHASE_SUCCESS}}}
                    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    await self.call("PATCH", path, done, content_type=_MERGE)
                    finished.add(meta["uid"])

    # --- the API server, as any client would -----------------------------------------------------------------------

    async def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:  # noqa: ANN401 - JSON
        """Call the API server.

        Raises:
            StageError: The server refused. The text has the server's answer.
        """
        async with self.session.request(method, path, json=body, headers={"Content-Type": content_type}) as answer:
            if answer.status >= 400:
                text = await answer.text()
                raise StageError(f"{method} {path}: {answer.status}: {text[:2000]}")
            if answer.content_type == "application/json":
                return await answer.json()
            return await answer.text()

    async def pods(self, namespace: str = "default") -> dict[str, dict[str, Any]]:
        """All pods by name."""
        listing = await self.call("GET", f"/api/v1/namespaces/{namespace}/pods")
        return {item["metadata"]["name"]: item for item in listing["items"]}

    async def submit(self, pod: Mapping[str, Any], namespace: str = "default") -> None:
        """Create a pod from its manifest.

        Raises:
            StageError: The API server or our webhook refused the pod. The text has their answer.
        """
        await self.call("POST", f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", **pod})

    async def wait_running(self, name: str, limit_s: float = 60.0, namespace: str = "default") -> dict[str, Any]:
        """Wait until a pod runs or has succeeded.

        Returns:
            The pod's object.

        Raises:
            StageError: The pod failed, or does not run in time. The text has its status and events.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while True:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            pod: dict[str, Any] = await self.call("GET", path)
            phase = pod.get("status", {}).get("phase", "Pending")
            if phase in {"Running", "Succeeded"}:
                return pod
            if phase == "Failed" or loop.time() > deadline:
                events = await self.events(name, namespace)
                told = "\n".join(dict.fromkeys([refusal_of(pod), *events]))
                raise StageError(f"pod {name} is {phase}: {told}")
            await asyncio.sleep(_POLL_S)

    async def events(self, name: str, namespace: str = "default") -> list[str]:
        """Messages of the events about one pod."""
        items = (await self.call("GET", f"/api/v1/namespaces/{namespace}/events"))["items"]
        return [item.get("message", "") for item in items if item["involvedObject"].get("name") == name]

    async def container(self, pod: str, name: str = "", namespace: str = "default") -> StagedContainer:
        """What the runtime gave a container. Without a name it is the pod's first container.

        Raises:
            StageError: The container has not been created yet.
        """
        found: dict[str, Any] = await self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
        name = name or found["spec"]["containers"][0]["name"]
        node, uid = found["spec"].get("nodeName", ""), found["metadata"]["uid"]
        attempt = self.cluster.node(node).attempt(uid, name) if node else None
        if attempt is None:
            raise StageError(f"pod {pod}, container {name}: was not created yet: {refusal_of(found)}")
        spec = json.loads((attempt.folder / "spec.json").read_bytes())
        return StagedContainer(
            env=spec["env"],
            mounts={mount["target"]: mount["source"] for mount in spec["mounts"]},
            devices={device["target"]: device["source"] for device in spec["devices"]},
            exit_code=None if attempt.exit is None else int(attempt.exit["exit_code"]),
        )

    async def log(self, pod: str, container: str, namespace: str = "default") -> str:
        """The output of a container; empty before it has started."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}"
        try:
            text = await self.call("GET", path)
        except StageError:
            return ""
        return str(text)


def refusal_of(pod: Mapping[str, Any]) -> str:
    """Why a pod is not running, from its status; empty if the status does not say."""
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip()
    return str(status.get("message", ""))


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
