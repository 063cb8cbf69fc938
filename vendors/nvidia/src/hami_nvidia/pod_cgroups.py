"""Finds the cgroups of pods. The kubelet makes them before a pod's containers, and names them by the pod's UID."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH: Final = 6
_QOS: Final = frozenset({"burstable", "besteffort"})


def pod_cgroups(root: Path) -> dict[str, Path]:
    """The cgroup of each pod by the pod's UID. Empty if the kubelet's cgroups are not below `root`.

    Folders below a pod's are never searched, because a container may make cgroups of any name in its own.

    Args:
        root: Where cgroup v2 is mounted.
    """
    found: dict[str, Path] = {}
    level = [str(root)]
    for _ in range(_DEPTH):
        below = [entry for folder in level for entry in _folders(folder)]
        for entry in below:
            if uid := _pod_uid(entry.name):
                found.setdefault(uid, Path(entry.path))
        level = [entry.path for entry in below if _leads_to_pods(entry.name)]
    return found


def _pod_uid(name: str) -> str:
    """The UID in the name of a pod's cgroup, of the kubelet's drivers cgroupfs and systemd; empty for other cgroups."""
    if name.startswith("pod"):
        return name.removeprefix("pod")
    if name.endswith(".slice") and "-pod" in name:
        return name.removesuffix(".slice").partition("-pod")[2].replace("_", "-")
    return ""


def _leads_to_pods(name: str) -> bool:
    return ("kube" in name or name in _QOS) and not _pod_uid(name)


def _folders(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
