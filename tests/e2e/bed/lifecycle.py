"""Start and end a bed; add, reboot and remove nodes."""

from __future__ import annotations

import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bed import cgroups, control_plane, disk, inotify, machine, network, node, processes, waiting
from tests.e2e.bed.control_plane import MACHINE as CONTROL_PLANE
from tests.e2e.bed.errors import BedError
from tests.e2e.bed.processes import Process
from tests.e2e.bed.state import Held, Node, Placed

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from tests.e2e.bed.bed import Bed

KEPT = "log"


def up(bed: Bed, nodes: Sequence[Node]) -> None:
    """Start a bed. After an error or an interrupt, end it again."""
    disk.check(bed.work)
    inotify.check(len(nodes))
    bed.work.mkdir(parents=True, exist_ok=True)
    strangers = sorted(path.name for path in bed.work.iterdir() if path.name != KEPT)
    if "state.json" in strangers:
        raise BedError(f"{bed.work}: already has a bed; end it: python -m tests.e2e.bed down --work {bed.work}")
    if strangers:
        raise BedError(f"{bed.work}: not empty ({', '.join(strangers[:3])}); a bed needs a folder of its own")
    shutil.rmtree(bed.work / KEPT, ignore_errors=True)
    for name in (KEPT, "config", "kubeconfig", "nodes"):
        (bed.work / name).mkdir()
    bed.state.save(bed.work)
    try:
        _up(bed, nodes)
    except BaseException as error:
        ended = [name for name in bed.state.components if not bed.components.running(name)]
        error.add_note(f"ended: {', '.join(ended) or 'none'}")
        error.add_note(f"logs: {bed.work / KEPT}")
        down(bed)
        raise


def _up(bed: Bed, nodes: Sequence[Node]) -> None:
    """Start all parts, each after those that it needs: a part that starts too early backs off for seconds."""
    control_plane.write_certificates(bed.work)
    _hold(bed, CONTROL_PLANE)
    network.prepare_control_plane(bed.components.machine(CONTROL_PLANE))
    start, tools, work, options = bed.components.define, bed.tools, bed.work, bed.state.options
    start("etcd", CONTROL_PLANE, control_plane.etcd(tools, work))
    apiserver = control_plane.apiserver(tools, work, audit=options.audit, more=options.apiserver)
    start("kube-apiserver", CONTROL_PLANE, apiserver)
    start("kubectl-proxy", CONTROL_PLANE, control_plane.proxy(tools, work, bed.api))
    placed = [_place(bed, one) for one in nodes]
    for one in placed:
        _boot(bed, one)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: _load_images(bed, one.node.name), placed))
    _wait(bed, "kube-apiserver", "ready", lambda: bed.call("GET", "/readyz") == "ok")
    start("kube-controller-manager", CONTROL_PLANE, control_plane.controller_manager(tools, work))
    start("kube-scheduler", CONTROL_PLANE, control_plane.scheduler(tools, work))
    for one in placed:
        _start_kubelet(bed, one)
    for one in placed:
        _wait_ready(bed, one.node.name)
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    bed.wait("the default service account", lambda: bed.call("GET", account))


def add(bed: Bed, wanted: Node) -> None:
    """Add a node and wait until it is Ready."""
    if wanted.name in bed.state.nodes:
        raise BedError(f"a node {wanted.name} exists already")
    placed = _place(bed, wanted)
    _boot(bed, placed)
    _load_images(bed, wanted.name)
    _start_kubelet(bed, placed)
    _wait_ready(bed, wanted.name)


def reboot(bed: Bed, name: str) -> None:
    """Simulate a power cut: all processes and /run vanish at once, disk and API objects stay."""
    placed = bed.state.placed(name)
    held = bed.components.machine(name).held
    held.holder.signal(signal.SIGKILL)
    _wait_gone(bed, name, held)
    left = cgroups.remove(bed.state.id, name)
    if left:
        raise BedError(f"{name}: control groups can't be removed, something runs in them: {left}")
    _boot(bed, placed)
    _wait_runtime(bed, name)
    _start_kubelet(bed, placed)


def remove(bed: Bed, name: str) -> None:
    """Remove a node for ever: its machine, its disk and its object."""
    bed.state.placed(name)
    held = bed.components.machine(name).held
    held.holder.signal(signal.SIGKILL)
    _wait_gone(bed, name, held)
    left = cgroups.remove(bed.state.id, name)
    for component in [key for key, part in bed.state.components.items() if part.machine == name]:
        del bed.state.components[component]
    del bed.state.nodes[name]
    bed.state.save(bed.work)
    shutil.rmtree(bed.work / "nodes" / name)
    bed.call("DELETE", f"/api/v1/nodes/{name}")
    if left:
        raise BedError(f"{name}: control groups can't be removed, something runs in them: {left}")


def _wait_gone(bed: Bed, name: str, held: Held) -> None:
    """Wait until a machine has ended after its pid 1 was killed, and forget its processes."""
    parts = [part for part in bed.state.components.values() if part.machine == name]
    processes.wait((held.holder, held.launcher, *(part.launcher for part in parts)))
    for part in parts:
        part.process = part.launcher = None
    bed.state.machines.pop(name, None)
    bed.components.reap()
    bed.state.save(bed.work)


def _place(bed: Bed, wanted: Node) -> Placed:
    """Give a node its number, its certificate and its disk."""
    if not wanted.name.replace("-", "").isalnum() or wanted.name == CONTROL_PLANE or len(wanted.name) > 20:
        raise BedError(f"{wanted.name!r}: a node's name is at most 20 letters, digits and dashes, and not 'cp'")
    placed = Placed(wanted, number=1 + max((one.number for one in bed.state.nodes.values()), default=0))
    bed.state.nodes[wanted.name] = placed
    folder = bed.work / "nodes" / wanted.name
    folder.mkdir()
    control_plane.write_node_certificate(bed.work, placed)
    if wanted.gpus:
        from tests.e2e.bed.gpus import prepare  # imports the simulated driver, which only beds with GPUs need

        prepare(folder / "gpus", wanted.gpus)
    bed.state.save(bed.work)
    return placed


def _hold(bed: Bed, name: str) -> None:
    """Make a machine's namespaces."""
    holder, launcher = machine.create(bed.state.id, name)
    bed.components.adopt(launcher)
    bed.state.machines[name] = Held(holder, Process.of(launcher.pid))
    bed.state.save(bed.work)


def _boot(bed: Bed, placed: Placed) -> None:
    """Make a node's machine and start its runtime."""
    name = placed.node.name
    folder = bed.work / "nodes" / name
    _hold(bed, name)
    here = bed.components.machine(name)
    disk.mount(here, folder)
    if placed.node.gpus:
        disk.attach_gpus(here, folder / "gpus")
    network.connect(bed.components.machine(CONTROL_PLANE), here, placed)
    cgroups.create(bed.state.id, name)
    node.write_network(folder, placed)
    command = node.containerd(bed.tools, folder, cdi=bed.state.options.cdi)
    bed.components.define(f"containerd:{name}", name, command, {"PATH": bed.tools.path})


def _start_kubelet(bed: Bed, placed: Placed) -> None:
    """Start a node's kubelet. The runtime must already answer, or the kubelet ends at once."""
    name = placed.node.name
    command = node.kubelet(bed.tools, bed.work, bed.state.id, placed, bed.state.options.kubelet)
    bed.components.define(f"kubelet:{name}", name, command, {"PATH": bed.tools.path})


def _wait(bed: Bed, component: str, what: str, condition: Callable[[], bool], timeout: float = 120) -> None:
    """Wait until a condition is true. Fail at once if the component ends."""
    bed.wait(f"{component} {what}", lambda: not bed.components.running(component) or condition(), timeout)
    if not bed.components.running(component):
        raise BedError(f"{component} has ended instead of becoming {what}:\n{bed.components.tail(component)}")


def _wait_ready(bed: Bed, name: str) -> None:
    path = f"/api/v1/nodes/{name}"
    _wait(bed, f"kubelet:{name}", "ready", lambda: waiting.ready(bed.call("GET", path)))


def _wait_runtime(bed: Bed, name: str, timeout: float = 60) -> None:
    """Wait until containerd's CRI service works. If that service fails, containerd runs on without it."""
    until = time.monotonic() + timeout
    component = f"containerd:{name}"
    while True:
        done = _ctr(bed, name, "plugins", "list", check=False)
        states = [words[-1] for line in done.stdout.splitlines() if (words := line.split())[1:2] == ["cri"]]
        if states == ["ok"]:
            return
        if states or not bed.components.running(component) or time.monotonic() > until:
            raise BedError(f"{component}: no CRI service ({states or done.stderr}):\n{bed.components.tail(component)}")
        time.sleep(0.05)


def _load_images(bed: Bed, name: str) -> None:
    _wait_runtime(bed, name)
    for path in bed.state.options.images:
        import_image(bed, name, Path(path))


def import_image(bed: Bed, name: str, path: Path) -> None:
    """Give a node the images of an OCI archive."""
    _ctr(bed, name, "-n", "k8s.io", "images", "import", str(path.absolute()), timeout=300)


def _ctr(bed: Bed, name: str, *words: str, check: bool = True, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    command = (str(bed.tools.containerd_bin / "ctr"), "-a", node.RUNTIME_SOCKET, *words)
    return bed.run(name, *command, check=check, timeout=timeout)


def down(bed: Bed) -> None:
    """End all machines by killing their pid 1, then remove control groups and the content of the work folder.

    Raises:
        BedError: A control group could not be removed.
    """
    # A program that was killed while it started a machine may not have recorded it. Find it by its command line.
    recorded = [held.holder for held in bed.state.machines.values()]
    for holder in {*recorded, *machine.holders(bed.state.id)}:
        holder.signal(signal.SIGKILL)
    for name, held in list(bed.state.machines.items()):
        _wait_gone(bed, name, held)
    processes.wait(machine.holders(bed.state.id))
    bed.components.reap(timeout=10)
    left = cgroups.remove(bed.state.id)
    for path in bed.work.iterdir():
        if path.name not in (KEPT, "state.json"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if left:
        raise BedError(f"control groups can't be removed, something runs in them: {', '.join(map(str, left))}")
    (bed.work / "state.json").unlink(missing_ok=True)
