"""The kernel's limit of inotify instances, which every program of a cluster takes some of.

Linux counts them for each user, namespaces or not: all beds of a machine share root's (128 by default). A containerd
that gets none starts without its CRI service, and the kubelet then says only that the service is unknown.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from tests.e2e.bed.errors import BedError

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
CONTROL_PLANE = 11
NODE = 8
# Agents, operators and whatever else runs in pods as root.
PODS = 8


def check(nodes: int) -> None:
    """Refuse to begin what would fail for want of them.

    Raises:
        BedError: Fewer are left than a bed of so many nodes takes.
    """
    wanted = CONTROL_PLANE + NODE * nodes + PODS
    libc = ctypes.CDLL(None, use_errno=True)
    held: list[int] = []
    try:
        while len(held) < wanted:
            number = libc.inotify_init1(os.O_CLOEXEC)
            if number < 0:
                break
            held.append(number)
        error = ctypes.get_errno() if len(held) < wanted else 0
    finally:
        for number in held:
            os.close(number)
    if error == errno.EMFILE:
        raise BedError(
            f"{len(held)} inotify instances are left and {nodes} nodes take {wanted}: all beds of the machine share "
            f"{LIMIT.read_text().strip()}. End another bed, or raise it: sysctl fs.inotify.max_user_instances=1024"
        )
    if error:
        raise BedError(f"inotify: {os.strerror(error)}")
