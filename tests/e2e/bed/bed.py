"""A small real Kubernetes cluster on one machine: the control plane and nodes, each in namespaces of its own."""

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
    """A cluster in a work folder; as a context manager it is up inside and gone afterwards, only its logs are left.

    Nothing listens on an address of the host: `api` is a socket in the work folder, and programs that need the
    cluster's own network run in it, by `run`, `kubectl` or `helm`. Machines are called ``cp`` (control plane) and by
    their nodes' names; components ``etcd``, ``kube-apiserver``, ``kube-controller-manager``, ``kube-scheduler``,
    ``kubectl-proxy`` and, with the node's name, ``kubelet:node1``, ``containerd:node1``.
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
        """Describe a bed; nothing is done yet.

        Args:
            work: Its folder, for a bed of its own; made if it is not there.
            tools: The programs, and thereby the versions.
            nodes: The nodes it begins with.
            images: OCI archives that every node has from the start; one of them holds ``localhost/pause:1``.
            audit: Write every request's metadata to ``log/audit.log``.
            cdi: Let containerd inject CDI devices.
            kubelet: Settings laid over those of every kubelet's configuration file.
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
        """The bed that another program brought up in that folder.

        Raises:
            BedError: There is none.
        """
        state = State.load(work.absolute())
        bed = cls(work, Tools.from_state(state.tools), [placed.node for placed in state.nodes.values()])
        bed.state = state
        bed.components = Components(bed.work, state)
        return bed

    @property
    def api(self) -> Path:
        """Unix socket of the API as cluster admin, plain HTTP."""
        return self.work / "api.sock"

    @property
    def nodes(self) -> list[str]:
        """Names of its nodes."""
        return list(self.state.nodes)

    # --- coming and going

    def up(self) -> None:
        """Start everything and return once all nodes are Ready; if that fails, everything is taken down again.

        Raises:
            BedError: What failed, and the end of the log that says more.
        """
        lifecycle.up(self, self._wanted)

    def down(self, *, purge: bool = False) -> None:
        """End everything and leave nothing behind but the logs (``purge``: not even those)."""
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

    # --- asking the cluster

    def call(
        self, method: str, path: str, body: object = None, content_type: str = client.JSON, timeout: float = 30
    ) -> Any:
        """One request to the API; see `tests.e2e.bed.client.call`."""
        return client.call(self.api, method, path, body, content_type, timeout)

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """What ``kubectl`` prints, as cluster admin."""
        command = (str(self.tools.kubectl), f"--kubeconfig={self.work}/kubeconfig/admin", *words)
        environment = {"HOME": str(self.work / "config")}
        return self.run(CONTROL_PLANE, *command, stdin=stdin, check=check, timeout=timeout, env=environment).stdout

    def helm(self, *words: str, stdin: str | None = None, check: bool = True, timeout: float = 300) -> str:
        """What ``helm`` prints, as cluster admin."""
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
        """Pods as the API has them.

        Args:
            selector: Label selector.
            namespace: "" = all.
            fields: Field selector.
        """
        return waiting.pods(self.call, selector, namespace, fields)

    def wait(self, what: str, condition: Callable[[], T], timeout: float = 60, poll: float = 0.1) -> T:
        """Return the first true value of a condition; errors of the API count as "not yet".

        Raises:
            NotInTime: With what was waited for, the last value or error, the state of all pods, the latest events.
        """
        return waiting.wait(self.call, what, condition, timeout, poll)

    # --- inside of machines

    def run(
        self,
        machine: str,
        *command: str,
        check: bool = True,
        stdin: str | bytes | None = None,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine to its end; see `tests.e2e.bed.machine.Machine.run`."""
        where = self.components.machine(machine)
        return where.run(*command, check=check, stdin=stdin, timeout=timeout, environment=env)

    @contextmanager
    def program(
        self, machine: str, *command: str, log: Path, env: Mapping[str, str] | None = None
    ) -> Iterator[Process]:
        """A program that runs on a machine while the block does; it is asked to end, then killed."""
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
        """A machine's file system, from outside; name real paths (``/run``, not ``/var/run``)."""
        return self.components.machine(machine).root

    def processes(self, machine: str) -> list[Row]:
        """All processes of a machine, its containers' included: pid (on the host), parent, name, KiB resident."""
        return self.components.machine(machine).processes()

    def containers(self, node: str) -> dict[tuple[str, str], oci.Container]:
        """What containerd made of each container of a node, by pod UID and container name."""
        return oci.read(self.components.machine(node), self.tools.containerd_bin / "ctr")

    def import_image(self, path: Path, nodes: Iterable[str] | None = None) -> None:
        """Give nodes (None: all) the images of an OCI archive."""
        names = list(self.nodes if nodes is None else nodes)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: lifecycle.import_image(self, name, path), names))

    # --- faults; each returns once it is so

    def kill(self, component: str) -> None:
        """End a component with SIGKILL."""
        self.components.kill(component)

    def stop(self, component: str) -> None:
        """Ask a component to end and wait until it has."""
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
        """Let a frozen component go on."""
        self.components.resume(component)

    def cut(self, node: str) -> None:
        """Drop all packets between a node and everybody else."""
        network.cut(self.components.machine(CONTROL_PLANE), self.state.placed(node))

    def join(self, node: str) -> None:
        """Undo `cut`."""
        network.join(self.components.machine(CONTROL_PLANE), self.state.placed(node))

    def reboot(self, node: str) -> None:
        """Power a node off and on: all its processes and ``/run`` gone at once, its disk kept, the kubelet started."""
        lifecycle.reboot(self, node)

    def remove_node(self, node: str) -> None:
        """End a node for good; its pods go as Kubernetes decides."""
        lifecycle.remove(self, node)

    def add_node(self, node: Node) -> None:
        """Add a node and return once it is Ready."""
        lifecycle.add(self, node)
