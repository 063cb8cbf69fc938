"""Control groups of a bed: one group ``hami-bed-<id>`` in each hierarchy, with a group for each node in it."""

from __future__ import annotations

import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_CPUSET = ("cpuset.cpus", "cpuset.mems")


def path(bed: str, node: str = "") -> str:
    """Path of a group in its hierarchy."""
    return f"/hami-bed-{bed}/{node}".rstrip("/")


def hierarchies() -> list[Path]:
    """Mount points of hierarchies: one with only cgroup v2, several with v1 or both."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return sorted({entry.resolve() for entry in ROOT.iterdir() if (entry / "cgroup.procs").exists()})


def create(bed: str, node: str) -> None:
    """Make a node's groups, so that the kubelet can make its own in them."""
    for top in hierarchies():
        folder = top
        for word in path(bed, node).strip("/").split("/"):
            _delegate(folder)
            folder /= word
            folder.mkdir(exist_ok=True)
            for name in _CPUSET:
                # In v1 a new group has no processor and no memory node. Until it has them, no process may enter it.
                if (folder / name).exists() and not (ROOT / "cgroup.controllers").exists():
                    (folder / name).write_text((top / name).read_text())
        _delegate(folder)


def _delegate(folder: Path) -> None:
    """In v2, enable all controllers of a group for its subgroups."""
    if (folder / "cgroup.controllers").exists() and (ROOT / "cgroup.controllers").exists():
        wanted = (folder / "cgroup.controllers").read_text().split()
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))


def remove(bed: str, node: str = "") -> list[Path]:
    """Remove the groups of a node, or of the whole bed.

    Returns:
        The groups that could not be removed because processes still run in them.
    """
    left = []
    for top in hierarchies():
        base = top / path(bed, node).lstrip("/")
        below = [folder for folder in base.rglob("*") if folder.is_dir()] if base.exists() else []
        for folder in [*sorted(below, reverse=True), base]:
            if not _rmdir(folder):
                left.append(folder)
    return left


def _rmdir(folder: Path) -> bool:
    """Remove one group. Retry, because a killed process stays in its group for a moment."""
    for _ in range(60):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False
