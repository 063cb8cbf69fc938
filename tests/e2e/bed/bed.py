"""A small real Kubernetes cluster on one machine: a control plane and nodes, each in its own Linux namespaces."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tests.e2e.bed import client, lifecycle, network, waiting
from tests.e2e.bed import containers as oci
from tests.e2e.bed.components import Components
from tests.e2e.bed.control_plane import MACHINE as CONTROL_PLANE
from tests.e2e.bed.state import Node, Options, State
from tests.e2e.bed.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.e2e.bed.processes import Process, Row

T = TypeVar("T")


class Bed:
    """A cluster in a work folder. As a context manager it starts the cluster, and ends it but keeps its logs.

    The cluster does not listen on any address of the host. Tests reach the API by the socket `api` in the work folder.
    Programs that need the cluster's network run inside it, by `run`, `kubectl` or `helm`.

    Machines are ``cp`` (the control plane) and the nodes, by name. Components are ``etcd``, ``kube-apiserver``,
    ``kube-controller-manager``, ``kube-scheduler``, ``kubectl-proxy`` and, for each node, ``kubelet:node1`` and
    ``containerd:node1``.
    """

    def __init__(
        self,
        work: Path,
        tools: Tools,
        nodes: Sequence[Node],
        *,
        images: Sequence[Path] = (),
        audit: bool = True,
        cdi: bool = True,
        kubelet: Mapping[str, Any] | None = None,
        apiserver: Sequence[str] = (),
    ) -> None:
        """Describe a bed without starting it.

        Args:
            work: Folder for this bed alone; created if it does not exist.
            tools: The programs, which also decide the versions.
            nodes: The first nodes.
            images: OCI archives that every node has from the start. One of them must hold ``localhost/pause:1``.
            audit: Write every request's metadata to ``log/audit.log``.
            cdi: Let containerd inject CDI devices.
            kubelet: Settings that replace those in every kubelet's configuration file.
            apiserver: Further flags of kube-apiserver.
        """
        self.work = work.absolute()
        self.tools = tools
        options = Options(
            images=[str(path.absolute()) for path in images],
            audit=audit,
            cdi=cdi,
            kubelet=dict(kubelet or {}),
            apiserver=list(apiserver),
        )
        self.state = State(tools.to_state(), options)
        self.components = Components(self.work, self.state)
        self._wanted = tuple(nodes)

    @classmethod
    def open(cls, work: Path) -> Self:
        """The bed that another program started in this folder.

        Raises:
            BedError: There is no bed.
        """
        state = State.load(work.absolute())
        bed = cls(work, Tools.from_state(state.tools), [placed.node for placed in state.nodes.values()])
        bed.state = state
        bed.components = Components(bed.work, state)
        return bed

    @property
    def api(self) -> Path:
        """Unix socket of the API: plain HTTP, as cluster admin."""
        return self.work / "api.sock"

    @property
    def nodes(self) -> list[str]:
        """Names of its nodes."""
        return list(self.state.nodes)

    # --- start and end

    def up(self) -> None:
        """Start everything and wait until all nodes are Ready. If that fails, everything is ended again.

        Raises:
            BedError: A part failed. The text names it and has the end of its log.
        """
        lifecycle.up(self, self._wanted)

    def down(self, *, purge: bool = False) -> None:
        """End everything and keep only the logs; with ``purge``, remove the logs too."""
        lifecycle.down(self)
        if purge:
            shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # --- the cluster

    def call(
        self, method: str, path: str, body: object = None, content_type: str = client.JSON, timeout: float = 30
    ) -> Any:
        """Send a request to the API; see `tests.e2e.bed.client.call`."""
        return client.call(self.api, method, path, body, content_type, timeout)

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """Run ``kubectl`` as cluster admin and return its output."""
        command = (str(self.tools.kubectl), f"--kubeconfig={self.work}/kubeconfig/admin", *words)
        environment = {"HOME": str(self.work / "config")}
        return self.run(CONTROL_PLANE, *command, stdin=stdin, check=check, timeout=timeout, env=environment).stdout

    def helm(self, *words: str, stdin: str | None = None, check: bool = True, timeout: float = 300) -> str:
        """Run ``helm`` as cluster admin and return its output."""
        folder = self.work / "helm"
        environment = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        environment |= {"KUBECONFIG": str(self.work / "kubeconfig/admin"), "HOME": str(folder)}
        command = (str(self.tools.helm), *words)
        return self.run(CONTROL_PLANE, *command, stdin=stdin, check=check, timeout=timeout, env=environment).stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects, as ``kubectl apply --server-side`` does."""
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=body)

    def pods(self, selector: str = "", *, namespace: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Pods of the cluster.

        Args:
            selector: Label selector.
            namespace: Namespace; "" for all.
            fields: Field selector.
        """
        return waiting.pods(self.call, selector, namespace, fields)

    def wait(self, what: str, condition: Callable[[], T], timeout: float = 60, poll: float = 0.1) -> T:
        """Wait until a condition is true and return its value. Errors of the API count as "not yet".

        Raises:
            NotInTime: The condition did not become true. The text has its last value or error, and pods and events.
        """
        return waiting.wait(self.call, what, condition, timeout, poll)

    # --- machines

    def run(
        self,
        machine: str,
        *command: str,
        check: bool = True,
        stdin: str | bytes | None = None,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine until it ends; see `tests.e2e.bed.machine.Machine.run`."""
        where = self.components.machine(machine)
        return where.run(*command, check=check, stdin=stdin, timeout=timeout, environment=env)

    @contextmanager
    def program(
        self, machine: str, *command: str, log: Path, env: Mapping[str, str] | None = None
    ) -> Iterator[Process]:
        """Run a program on a machine during the block. After it, the program gets SIGTERM, then SIGKILL."""
        process, launcher = self.components.machine(machine).spawn(list(command), log, env or {})
        try:
            yield process
        finally:
            process.signal(signal.SIGTERM)
            try:
                launcher.wait(20)
            except subprocess.TimeoutExpired:
                process.signal(signal.SIGKILL)
                launcher.wait(10)

    def root(self, machine: str) -> Path:
        """A machine's file system as the host sees it. Use real paths (``/run``, not ``/var/run``)."""
        return self.components.machine(machine).root

    def processes(self, machine: str) -> list[Row]:
        """All processes of a machine, including its containers': pid on the host, parent, name, resident KiB."""
        return self.components.machine(machine).processes()

    def containers(self, node: str) -> dict[tuple[str, str], oci.Container]:
        """The containers of a node as containerd made them, by pod UID and container name."""
        return oci.read(self.components.machine(node), self.tools.containerd_bin / "ctr")

    def import_image(self, path: Path, nodes: Iterable[str] | None = None) -> None:
        """Import the images of an OCI archive on nodes; None means all nodes."""
        names = list(self.nodes if nodes is None else nodes)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: lifecycle.import_image(self, name, path), names))

    # --- faults; each method returns once the fault has happened

    def kill(self, component: str) -> None:
        """End a component with SIGKILL."""
        self.components.kill(component)

    def stop(self, component: str) -> None:
        """End a component with SIGTERM and wait until it has ended."""
        self.components.stop(component)

    def start(self, component: str) -> None:
        """Start a component that does not run."""
        self.components.start(component)

    def restart(self, component: str) -> None:
        """Stop, then start a component."""
        self.components.stop(component)
        self.components.start(component)

    def pause(self, component: str) -> None:
        """Freeze a component."""
        self.components.pause(component)

    def resume(self, component: str) -> None:
        """Continue a frozen component."""
        self.components.resume(component)

    def cut(self, node: str) -> None:
        """Drop all packets between a node and all other machines."""
        network.cut(self.components.machine(CONTROL_PLANE), self.state.placed(node))

    def join(self, node: str) -> None:
        """Undo `cut`."""
        network.join(self.components.machine(CONTROL_PLANE), self.state.placed(node))

    def reboot(self, node: str) -> None:
        """Power a node off and on: its processes and ``/run`` vanish at once, its disk stays, the kubelet starts."""
        lifecycle.reboot(self, node)

    def remove_node(self, node: str) -> None:
        """Remove a node for ever. Kubernetes decides what happens to its pods."""
        lifecycle.remove(self, node)

    def add_node(self, node: Node) -> None:
        """Add a node and wait until it is Ready."""
        lifecycle.add(self, node)
