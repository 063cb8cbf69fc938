"""Finds the cgroup of a container. Its pod's folder has the pod's UID in its name, and one child for each container.

Which child belongs to which container is told by the mounts of its processes: the container's region is mounted there.
A container can't mount another's region without rights over the whole node.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core.vendorkit.node import REGION_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH: Final = 6
_MOUNTS_BYTES: Final = 1 << 20
_PROCESSES: Final = 8
"""Processes of a child whose mounts are read at most. All of a container have the same, unless it changes them."""


def pod_folder(root: Path, uid: str) -> Path | None:
    """The folder of a pod; None if there is none.

    Args:
        root: Where cgroup v2 is mounted.
        uid: The pod's UID.
    """
    wanted = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
    level = [root]
    for _ in range(_DEPTH):
        below = [child for folder in level for child in _children(folder)]
        for child in below:
            if child.name.endswith(wanted):
                return child
        level = [child for child in below if _leads_to_pods(child.name)]
    return None


def _leads_to_pods(name: str) -> bool:
    return "kube" in name or name in {"burstable", "besteffort"}


def containers(pod: Path) -> list[Path]:
    """The folders of a pod's containers."""
    return sorted(_children(pod))


def region_of(child: Path, proc: Path) -> str:
    """End of the host path of the region that a container has mounted: its folder's last two names; empty if none.

    Args:
        child: The container's cgroup.
        proc: The host's /proc.
    """
    for pid in _processes(child):
        try:
            with (proc / pid / "mountinfo").open("rb") as file:
                lines = file.read(_MOUNTS_BYTES).splitlines()
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 4 and fields[4] == REGION_DIR.encode():
                return "/".join(Path(fields[3].decode(errors="replace")).parts[-2:])
    return ""


def _processes(child: Path) -> list[str]:
    try:
        return (child / "cgroup.procs").read_text().split()[:_PROCESSES]
    except OSError:
        return []


def _children(folder: Path) -> Iterator[Path]:
    try:
        yield from (entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return
