"""`Cluster`: starts, stops and breaks all parts of the embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson
import yaml

from hami_core.errors import ConfigError
from hami_core.sim.client import Client
from hami_core.sim.kubelet import containers
from hami_core.sim.process import PARENT_PIPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_START_SECONDS = 60.0
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True)
class NodeSpec:
    """One node.

    Args:
        name: Its name.
        image_env: Environment that every image is assumed to set.
        shared: Host paths that all containers share with the host. All other writes stay in a container's overlay.
        seed: Seed of the random order of device ids; None draws one.
        resync_seconds: Seconds until a refused container start is tried again. The first retry comes after a tenth.
        crash_seconds: First back-off of a crash loop.
        settle_seconds: Seconds that plugins have to register again after a restart of the kubelet. Then the kubelet
            admits pods, and pods whose plugin is missing fail, as on a real node. It does not wait once all are back.
        status_seconds: Delay until the node object shows that a plugin came or went. On a real node it is up to 10 s.
        reduced: Whether to do without mount namespaces even if the machine allows them.
        cdi: False: the runtime silently drops CDI names, as containerd 1.7 does with ``enable_cdi`` off.
    """

    name: str
    image_env: Mapping[str, str] = field(default_factory=dict)
    shared: Sequence[str | Path] = ()
    seed: int | None = None
    resync_seconds: float = 12.0
    crash_seconds: float = 10.0
    settle_seconds: float = 3.0
    status_seconds: float = 0.0
    reduced: bool = False
    cdi: bool = True


@dataclass(frozen=True)
class NodePaths:
    """Paths of a node that its agents use.

    Args:
        root: The node's folder.
    """

    root: Path

    @property
    def plugin_dir(self) -> Path:
        """Folder of kubelet.sock, plugin sockets and kubelet_internal_checkpoint."""
        return self.root / "device-plugins"

    @property
    def cdi_dir(self) -> Path:
        """Folder of CDI specifications."""
        return self.root / "cdi"

    @property
    def proc(self) -> Path:
        """A substitute for the node's ``/proc``: the containers' processes, with control groups in a runtime's form."""
        return self.root / "proc"

    @property
    def pod_resources(self) -> Path:
        """Socket of the PodResources service."""
        return self.root / "pod-resources" / "kubelet.sock"

    def log(self, uid: str, container: str) -> str:
        """Output of the latest attempt at a container."""
        latest = self.attempt(uid, container)
        return (latest.folder / "log").read_text() if latest else ""

    def attempt(self, uid: str, container: str) -> containers.Container | None:
        """The latest attempt at a container, whose folder holds ``spec.json``; None before the first."""
        known = containers.attempts(self.root / "pods", uid, container)
        return next((one for one in reversed(known) if (one.folder / "spec.json").exists()), None)


@dataclass
class _Part:
    arguments: list[str]
    process: asyncio.subprocess.Process | None = None
    url: str = ""


class Cluster:
    """An API server, a kube-scheduler loop and kubelets, each a process. They run until the context ends.

    Args:
        directory: Folder for state and logs. The path must be short, because it contains sockets. State of an earlier
            run is used again.
        nodes: The nodes.
        scheduler_config: A `KubeSchedulerConfiguration`; None means no extenders.
        api_args: Further arguments of the API server.
        port: The API server's port; 0 takes a free one.

    Raises:
        ConfigError: The folder's path is too long for unix sockets, or a part does not start.
    """

    def __init__(
        self,
        directory: Path | str,
        nodes: Sequence[NodeSpec] = (NodeSpec("n1"),),
        scheduler_config: Mapping[str, Any] | None = None,
        api_args: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        self.directory = Path(directory).resolve()
        self._nodes = {n.name: n for n in nodes}
        self._config = dict(scheduler_config or {})
        self._port = port
        self._parts: dict[str, _Part] = {
            "apiserver": _Part(["apiserver", "--dir", str(self.directory / "apiserver"), *api_args])
        }
        for name in self._nodes:
            longest = self.node(name).plugin_dir / ("x" * 24 + ".sock")
            if len(str(longest)) > _SOCKET_PATH_MAX:
                fix = f"unix sockets allow {_SOCKET_PATH_MAX} characters: choose a shorter folder"
                raise ConfigError("Cluster directory", f"{self.directory} is too long", fix)

    # ---- life

    async def __aenter__(self) -> Self:
        """Starts everything."""
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops everything, containers included."""
        await self.stop()

    async def start(self) -> None:
        """Starts the API server, then the scheduler and the kubelets."""
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        await self._start("apiserver", ["--port", str(self._port)])
        self._port = urlsplit(self.url).port or 0
        user = {"name": "sim", "user": {}}
        context = {"name": "sim", "context": {"cluster": "sim", "user": "sim"}}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "sim", "contexts": [context], "users": [user],
            "clusters": [{"name": "sim", "cluster": {"server": self.url}}],
        }  # fmt: skip
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self._write_scheduler_config()
        self._parts["scheduler"] = _Part(["scheduler", "--server", self.url, "--config", str(self._scheduler_file)])
        for name, spec in self._nodes.items():
            self._parts[f"kubelet:{name}"] = _Part(["kubelet", *self._kubelet_arguments(spec)])
        await asyncio.gather(*(self._start(name, []) for name in self._parts if name != "apiserver"))

    async def stop(self) -> None:
        """Ends the kubelets, the containers, the scheduler and the API server, in this order."""
        kubelets = [n for n in self._parts if n.startswith("kubelet:")]
        await asyncio.gather(*(self.stop_part(n) for n in kubelets))
        await asyncio.gather(*(containers.end_all(self.node(n).root / "pods") for n in self._nodes))
        for name in ("scheduler", "apiserver"):
            if name in self._parts:
                await self.stop_part(name)

    async def _start(self, name: str, more: list[str]) -> None:
        part = self._parts[name]
        arguments = [sys.executable, "-m", "hami_core.sim", *part.arguments, *more]
        with (self.directory / "logs" / f"{name.replace(':', '-')}.log").open("ab") as log:
            part.process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, PARENT_PIPE: "1"},
                start_new_session=True,
            )
        output = part.process.stdout
        assert output is not None  # noqa: S101 - it was asked for
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                line = await output.readline()
        if not line:
            log_file = self.directory / "logs" / f"{name.replace(':', '-')}.log"
            tail = log_file.read_text()[-2000:]
            await self.stop_part(name, signal.SIGKILL)
            raise ConfigError(f"embedded cluster: {name}", f"did not start:\n{tail}", f"see {log_file}")
        part.url = orjson.loads(line)["url"]

    async def stop_part(self, name: str, kill: signal.Signals = signal.SIGTERM) -> None:
        """Ends one part (``apiserver``, ``scheduler``, ``kubelet:<node>``) and waits for it."""
        process = self._parts[name].process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(kill)
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._parts[name].process = None

    async def start_part(self, name: str) -> None:
        """Starts a part that was ended, with its former state and port."""
        await self._start(name, ["--port", str(self._port)] if name == "apiserver" else [])

    async def restart(self, name: str, kill: signal.Signals = signal.SIGKILL) -> None:
        """Ends one part with a signal and starts it again with its former state and port."""
        await self.stop_part(name, kill)
        await self.start_part(name)

    def pid(self, name: str) -> int:
        """Process id of a part; 0 while it does not run."""
        process = self._parts[name].process
        return process.pid if process else 0

    # ---- paths

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self._parts["apiserver"].url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for the API server."""
        return self.directory / "kubeconfig"

    def node(self, name: str) -> NodePaths:
        """A node's paths."""
        return NodePaths(self.directory / "nodes" / name)

    # ---- the scheduler

    @property
    def _scheduler_file(self) -> Path:
        return self.directory / "scheduler.yaml"

    def _write_scheduler_config(self) -> None:
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        self._scheduler_file.write_text(yaml.safe_dump({**head, **self._config}))

    async def configure_scheduler(self, config: Mapping[str, Any]) -> None:
        """Restarts the scheduler with another `KubeSchedulerConfiguration`."""
        self._config = dict(config)
        self._write_scheduler_config()
        await self.restart("scheduler", signal.SIGTERM)

    def _kubelet_arguments(self, spec: NodeSpec) -> list[str]:
        found = ["--name", spec.name, "--server", self.url, "--root", str(self.node(spec.name).root)]
        found += [a for k, v in spec.image_env.items() for a in ("--image-env", f"{k}={v}")]
        found += [a for path in spec.shared for a in ("--shared", str(Path(path).resolve()))]
        for name in ("resync_seconds", "crash_seconds", "settle_seconds", "status_seconds", "seed"):
            if (value := getattr(spec, name)) is not None:
                found += [f"--{name.replace('_', '-')}", str(value)]
        return [*found, *(["--reduced"] if spec.reduced else []), *([] if spec.cdi else ["--no-cdi"])]

    # ---- faults

    async def _sim(self, method: str, what: str, body: Any = None) -> Any:  # noqa: ANN401 - JSON
        client = Client(self.url, "test")
        try:
            return await client.call(method, f"/sim/{what}", body)
        finally:
            await client.close()

    async def fault(self, action: str, **fields: Any) -> None:  # noqa: ANN401 - fields of several types
        """Sets a fault with the fields of `hami_core.sim.faults.Fault`."""
        await self._sim("POST", "faults", {"action": action, **fields})

    async def faults(self) -> list[dict[str, Any]]:
        """The faults in force, with the number of hits."""
        found: list[dict[str, Any]] = await self._sim("GET", "faults")
        return found

    async def clear_faults(self) -> None:
        """Removes all faults."""
        await self._sim("DELETE", "faults")

    async def drop_watches(self) -> None:
        """Cuts every watch."""
        await self._sim("POST", "drop-watches")

    async def compact(self) -> None:
        """Forgets the history, so that a watch from an earlier version gets 410."""
        await self._sim("POST", "compact")

    async def requests(self) -> dict[str, int]:
        """Number of requests to the API server by verb, resource and caller."""
        found: dict[str, int] = await self._sim("GET", "requests")
        return found
