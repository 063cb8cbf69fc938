"""Reads the node's files, sockets and processes into `NodeFacts`."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from hami_core.agent.identity import CHECKPOINT, decode
from hami_core.agent.serial import NoCdiMarker
from hami_core.doctor.install import setting
from hami_core.doctor.objects import Container
from hami_core.doctor.on_node.facts import Folder, NodeFacts, Process, find_key
from hami_core.errors import WireError
from hami_core.model import NodeContext
from hami_core.wire.env import VGPU_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMITS_MOUNT: Final = f"{VGPU_ROOT}/limits"
"""Mount point of a container's limits files (docs/reference/wire-format.md)."""
INTERPOSER: Final = "libvgpu"
CONTAINERD_CONFIG: Final = "etc/containerd/config.toml"
NODE_PROGRAMS: Final = frozenset({"kubelet", "containerd", "crio", "k3s-server", "k3s-agent"})
"""Programs of every node. If none of them is visible, this is a container's own process namespace."""
_TIMEOUT_S: Final = 2.0
_SPEC: Final = frozenset({".json", ".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Places:
    """Paths to examine. None stands for the path of the running agent, or the agent's default if none runs.

    Attributes:
        plugin_dir: The kubelet's device-plugin folder.
        cdi_dir: The folder for CDI specs.
        state_dir: The agent's state folder.
        proc: The node's ``/proc``.
        root: Parent of ``/etc`` and ``/sys``.
    """

    plugin_dir: Path | None = None
    cdi_dir: Path | None = None
    state_dir: Path | None = None
    proc: Path = Path("/proc")
    root: Path = Path("/")


def gather(places: Places, discover: Callable[[NodeContext], tuple[Mapping[str, int], Mapping[str, str]]]) -> NodeFacts:
    """Read everything that the node's checks need.

    Args:
        places: Paths to examine.
        discover: Asks the installed vendors for this node's devices; returns (vendor → number of devices, vendor →
            problem).
    """
    pid, words = _agent(places.proc)
    told = Container(args=words)
    plugin_dir = places.plugin_dir or Path(setting(told, "kubelet_plugin_dir", "/var/lib/kubelet/device-plugins"))
    cdi_dir = places.cdi_dir or Path(setting(told, "cdi_dir", "/var/run/cdi"))
    state_dir = places.state_dir or Path(setting(told, "state_dir", "/var/lib/hami"))
    boot_id = _text(places.proc / "sys/kernel/random/boot_id")
    checkpoint, entries, registered = _checkpoint(plugin_dir / CHECKPOINT)
    enabled, runtime_dirs = _containerd(places.root / CONTAINERD_CONFIG)
    node = NodeContext(
        name=setting(told, "node_name", os.environ.get("NODE_NAME", socket.gethostname())),
        state_dir=state_dir,
        cdi_dirs=tuple(Path(word) for word in setting(told, "cdi_search_dirs", "/etc/cdi,/var/run/cdi").split(",")),
        config_file=Path(setting(told, "node_config_file", "/config/config.json")),
        labels=dict,  # only the running agent knows them; entries by label are not needed to count devices
    )
    devices, problems = discover(node)
    library = state_dir / "lib"
    return NodeFacts(
        node=node.name,
        agent_pid=pid,
        plugin_dir=_folder(plugin_dir, places.proc),
        socket=_socket(plugin_dir / "kubelet.sock"),
        checkpoint=checkpoint,
        entries=entries,
        registered=registered,
        cdi_dir=_folder(cdi_dir, places.proc),
        runtime_dirs=runtime_dirs,
        cdi_enabled=enabled,
        broken_specs=tuple(_broken({cdi_dir, *(places.root / d.lstrip("/") for d in runtime_dirs or ("/etc/cdi",))})),
        state_dir=_folder(state_dir, places.proc),
        learnt_serial=NoCdiMarker(state_dir, boot_id).is_set,
        library=tuple(sorted(p.name for p in library.glob(f"{INTERPOSER}*"))) if library.is_dir() else (),
        driver=next((_text(path).partition("\n")[0] for path in sorted(places.proc.glob("driver/*/version"))), ""),
        devices=devices,
        vendor_problems=problems,
        lsm=tuple(filter(None, _text(places.root / "sys/kernel/security/lsm").split(","))),
        selinux_type=setting(told, "selinux_type", ""),
        selinux_enforcing=_text(places.root / "sys/fs/selinux/enforce") == "1",
        cgroup_version=_cgroups(places.root / "sys/fs/cgroup"),
        boot_id=boot_id,
        processes=_processes(places.proc),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0 \n")
    except OSError:
        return ""


def _agent(proc: Path) -> tuple[int, tuple[str, ...]]:
    """Process id and arguments of the agent that runs here; (0, ()) if none is found."""
    for pid in _pids(proc):
        words = tuple(_text(proc / str(pid) / "cmdline").split("\0"))
        if "agent" in words and any(Path(word).name in {"hami", "hami_core"} for word in words[: words.index("agent")]):
            return pid, words[words.index("agent") + 1 :]
    return 0, ()


def _pids(proc: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    return []


def _folder(path: Path, proc: Path) -> Folder:
    try:
        files = tuple(sorted(entry.name for entry in path.iterdir()))
        room = os.statvfs(path)
    except OSError as error:
        return Folder(str(path), problem=(error.strerror or str(error)).lower())
    free = room.f_bavail * room.f_frsize
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".hami-doctor-"):
            problem = ""
    except OSError as error:
        problem = f"not writable: {(error.strerror or str(error)).lower()}"
    return Folder(str(path), problem, _filesystem(path, proc), free, files)


def _filesystem(path: Path, proc: Path) -> str:
    """Type of the file system that holds a path, from the mount table."""
    best, kind = "", ""
    for line in _text(proc / "self/mountinfo").splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        point = fields[4] if dash and len(fields) > 4 else ""
        if point and len(point) >= len(best) and path.resolve().is_relative_to(point):
            best, kind = point, after.split(" ")[0]
    return kind


def _socket(path: Path) -> str:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return "is no socket"
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(_TIMEOUT_S)
            tried.connect(str(path))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _checkpoint(path: Path) -> tuple[str, int, dict[str, int]]:
    """(problem, number of device entries, resource → number of slots)."""
    try:
        found = decode(path.read_bytes())
    except FileNotFoundError:
        return "does not exist", 0, {}
    except OSError as error:
        return f"can't be read: {error.strerror}", 0, {}
    except WireError as error:
        return error.problem, 0, {}
    return "", len(found.entries), {resource: len(ids) for resource, ids in found.registered}


def _containerd(path: Path) -> tuple[bool | None, tuple[str, ...]]:
    """Containerd's ``enable_cdi`` (None: not set or not readable) and its ``cdi_spec_dirs``."""
    try:
        document: Any = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None, ()
    switches = [value for value in find_key(document, "enable_cdi") if isinstance(value, bool)]
    folders = [str(d) for value in find_key(document, "cdi_spec_dirs") if isinstance(value, list) for d in value]
    return (all(switches) if switches else None), tuple(folders)


def _broken(folders: set[Path]) -> Iterator[str]:
    for folder in sorted(folders):
        with contextlib.suppress(OSError):
            for path in sorted(p for p in folder.iterdir() if p.suffix in _SPEC):
                try:
                    if not isinstance(yaml.safe_load(path.read_text()), dict):
                        yield str(path)
                except (OSError, yaml.YAMLError, UnicodeDecodeError):
                    yield str(path)


def _cgroups(path: Path) -> int:
    if (path / "cgroup.controllers").exists():
        return 2
    return 1 if (path / "memory").is_dir() or (path / "devices").is_dir() else 0


def _processes(proc: Path) -> tuple[Process, ...] | None:
    """Processes in containers with limits; None if only the own container's processes are visible."""
    pids = _pids(proc)
    if not any(_text(proc / str(pid) / "comm") in NODE_PROGRAMS for pid in pids):
        return None
    return tuple(found for pid in pids if (found := _process(proc / str(pid))) is not None)


def _process(folder: Path) -> Process | None:
    if f" {LIMITS_MOUNT} " not in _text(folder / "mountinfo"):
        return None
    maps = _text(folder / "maps")
    if not maps:
        return Process(int(folder.name), _text(folder / "comm"), None)
    return Process(int(folder.name), _text(folder / "comm"), INTERPOSER in maps, "ld-musl" in maps)
