"""All parts together: the Python face of the embedded cluster."""

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

_START_SECONDS = 30.0
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True)
class NodeSpec:
    """One node.

    Args:
        name: Its name.
        image_env: Environment that every image is taken to have.
        shared: Host paths that all containers see as they are (a container's other writes stay in its overlay).
        seed: Of the order in which device ids are picked and named; None draws one.
        resync_seconds: Until a refused container start is tried again (the first time after a tenth of it).
        crash_seconds: First back-off of a crash loop.
        settle_seconds: Time that plugins have to register again after the kubelet's restart, before it takes up its
            pods; those whose plugin is later fail, as on a real node. It goes on at once when all are back.
        status_seconds: Until the node object says that a plugin came or went; up to ten on a real node.
        reduced: No mount namespaces, even where they are possible.
        cdi: Off: the runtime drops CDI names without a word, as containerd 1.7 does with ``enable_cdi`` off.
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
    """Where a node keeps what agents touch.

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
        """The node's processes as an agent may see them: those of containers, with a runtime's control groups."""
        return self.root / "proc"

    @property
    def pod_resources(self) -> Path:
        """Socket of the PodResources service."""
        return self.root / "pod-resources" / "kubelet.sock"

    def log(self, uid: str, container: str) -> str:
        """What the latest attempt at a container has printed."""
        latest = self.attempt(uid, container)
        return (latest.folder / "log").read_text() if latest else ""

    def attempt(self, uid: str, container: str) -> containers.Container | None:
        """The latest attempt at a container, whose folder holds ``spec.json``; None before the first."""
        known = containers.attempts(self.root / "pods", uid, container)
        return known[-1] if known else None


@dataclass
class _Part:
    arguments: list[str]
    process: asyncio.subprocess.Process | None = None
    url: str = ""


class Cluster:
    """An API server, a kube-scheduler loop and kubelets, each a process, for as long as the context lasts.

    Args:
        directory: Folder for state and logs; short, since sockets lie in it. What is there already is taken up.
        nodes: The nodes.
        scheduler_config: A `KubeSchedulerConfiguration`; None is one without extenders.
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
        """Starts API server, then scheduler and kubelets."""
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
        """Ends kubelets, containers, scheduler, API server, in this order."""
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
        """Starts a part that was ended, where it was."""
        await self._start(name, ["--port", str(self._port)] if name == "apiserver" else [])

    async def restart(self, name: str, kill: signal.Signals = signal.SIGKILL) -> None:
        """Ends one part with a signal and starts it again; its state and its port stay."""
        await self.stop_part(name, kill)
        await self.start_part(name)

    def pid(self, name: str) -> int:
        """Process id of a part; 0 while it is ended."""
        process = self._parts[name].process
        return process.pid if process else 0

    # ---- where things are

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self._parts["apiserver"].url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for it."""
        return self.directory / "kubeconfig"

    def node(self, name: str) -> NodePaths:
        """A node's folders."""
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
        """Sets a fault; the fields are those of `hami_core.sim.faults.Fault`."""
        await self._sim("POST", "faults", {"action": action, **fields})

    async def faults(self) -> list[dict[str, Any]]:
        """The faults that are set, with their hits."""
        found: list[dict[str, Any]] = await self._sim("GET", "faults")
        return found

    async def clear_faults(self) -> None:
        """Removes all faults."""
        await self._sim("DELETE", "faults")

    async def drop_watches(self) -> None:
        """Cuts every watch."""
        await self._sim("POST", "drop-watches")

    async def compact(self) -> None:
        """Forgets the history, so that a watch resumed from before gets 410."""
        await self._sim("POST", "compact")

    async def requests(self) -> dict[str, int]:
        """How often what was asked of the API server, by verb, resource and caller."""
        found: dict[str, int] = await self._sim("GET", "requests")
        return found
