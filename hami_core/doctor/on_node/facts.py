"""What is known of a node when the checks begin. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder as it was found.

    Attributes:
        path: Where it is.
        problem: Why it can't be used, such as ``does not exist``; empty: it is there and writable.
        filesystem: Type of what it lies on; empty: not known.
        free_bytes: Room left.
        files: Names in it.
    """

    path: str
    problem: str = ""
    filesystem: str = ""
    free_bytes: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs in a container with limits of ours.

    Attributes:
        pid: On the node.
        name: Of its program.
        preloaded: Whether it has the interposer in its address space; None: that can't be seen.
        musl: Whether its C library is musl.
    """

    pid: int
    name: str
    preloaded: bool | None
    musl: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Everything the node's checks look at.

    Attributes:
        node: Its name, as far as it is known.
        agent_pid: Process id of the agent; 0: none is seen.
        plugin_dir: The kubelet's device-plugin folder.
        socket: What is wrong with kubelet.sock; empty: it answers.
        checkpoint: What is wrong with the device checkpoint; empty: it is read.
        entries: Containers with devices in the checkpoint.
        registered: Resource → slots the kubelet knows.
        cdi_dir: Where the agent writes CDI specs.
        runtime_dirs: Where the container runtime looks for them by its configuration; empty: that is not seen.
        cdi_enabled: What the runtime's configuration says; None: nothing, or it is not seen.
        broken_specs: CDI specs of others that are no YAML or JSON.
        state_dir: The agent's records.
        learnt_serial: Whether the agent has seen in this boot that CDI does not work.
        library: The interposer's files in the state folder.
        driver: First line of the driver's own version file; empty: there is none.
        devices: Vendor → number of devices it finds.
        vendor_problems: Vendor → what went wrong.
        lsm: Linux security modules that are on.
        selinux_enforcing: Whether SELinux enforces.
        cgroup_version: 1 or 2; 0: not seen.
        boot_id: Identity of this boot; empty: it can't be read.
        processes: Those in containers with limits; None: the node's processes can't be seen.
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
    cgroup_version: int = 0
    boot_id: str = ""
    processes: tuple[Process, ...] | None = None


def find_key(document: Any, key: str) -> list[Any]:  # noqa: ANN401 - parsed TOML
    """Every value of a key, at any depth of a parsed document."""
    if isinstance(document, dict):
        deeper = [value for child in document.values() for value in find_key(child, key)]
        return ([document[key]] if key in document else []) + deeper
    return []
