"""Facts about a node, read before the checks begin. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Folder:
    """State of a folder.

    Attributes:
        path: Its path.
        problem: Why it can't be used, such as ``no such file or directory``; empty: it exists and is writable.
        filesystem: Type of its file system; empty: not known.
        free_bytes: Free space.
        files: Names of its entries.
    """

    path: str
    problem: str = ""
    filesystem: str = ""
    free_bytes: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process in a container with our limits.

    Attributes:
        pid: Process id on the node.
        name: Name of its program.
        preloaded: Whether the interposer is mapped in its address space; None: not known.
        musl: Whether its C library is musl.
    """

    pid: int
    name: str
    preloaded: bool | None
    musl: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Everything that the node's checks read.

    Attributes:
        node: The node's name.
        agent_pid: Process id of the agent; 0: none was found.
        plugin_dir: The kubelet's device-plugin folder.
        socket: What is wrong with kubelet.sock; empty: it answers.
        checkpoint: What is wrong with the device checkpoint; empty: it can be read.
        entries: Number of the checkpoint's device entries.
        registered: Resource → number of slots that the kubelet knows.
        cdi_dir: The folder where the agent writes CDI specs.
        runtime_dirs: Folders where the runtime looks for CDI specs, from its configuration; empty: not known.
        cdi_enabled: The runtime's setting ``enable_cdi``; None: not set or not known.
        broken_specs: Files in the CDI folders that are not valid YAML or JSON.
        state_dir: The agent's state folder.
        learnt_serial: Whether the agent has found since boot that CDI does not work.
        library: Names of the interposer's files in the state folder.
        driver: First line of the driver's version file under ``/proc/driver``; empty: there is none.
        devices: Vendor → number of devices that it finds.
        vendor_problems: Vendor → why it could not look for devices.
        lsm: Linux security modules that are on.
        selinux_enforcing: Whether SELinux enforces.
        selinux_type: SELinux type that the running agent gives the files of containers; empty: it labels none.
        cgroup_version: 1 or 2; 0: not known.
        boot_id: Id of this boot; empty: it can't be read.
        processes: Processes in containers with limits; None: the node's processes can't be seen.
    """

    node: str
    agent_pid: int
    plugin_dir: Folder
    socket: str
    checkpoint: str
    cdi_dir: Folder
    state_dir: Folder
    entries: int = 0
    registered: Mapping[str, int] = field(default_factory=dict)
    runtime_dirs: tuple[str, ...] = ()
    cdi_enabled: bool | None = None
    broken_specs: tuple[str, ...] = ()
    learnt_serial: bool = False
    library: tuple[str, ...] = ()
    driver: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    vendor_problems: Mapping[str, str] = field(default_factory=dict)
    lsm: tuple[str, ...] = ()
    selinux_enforcing: bool = False
    selinux_type: str = ""
    cgroup_version: int = 0
    boot_id: str = ""
    processes: tuple[Process, ...] | None = None


def find_key(document: Any, key: str) -> list[Any]:  # noqa: ANN401 - parsed TOML
    """Every value of a key, at any depth of a parsed document."""
    if isinstance(document, dict):
        deeper = [value for child in document.values() for value in find_key(child, key)]
        return ([document[key]] if key in document else []) + deeper
    return []
