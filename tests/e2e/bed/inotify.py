"""The kernel's limit of inotify instances. Every program of a cluster uses some.

Linux counts instances by user, across namespaces. All beds of a machine share root's limit (128 by default). If a
containerd gets none, it starts without its CRI service. The kubelet then reports only that the service is unknown.
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
# For agents, operators and other programs that run in pods as root.
PODS = 8


def check(nodes: int) -> None:
    """Check that enough instances are left for a bed.

    Raises:
        BedError: Fewer instances are left than a bed of so many nodes needs.
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
            f"{len(held)} inotify instances are left, and a bed of {nodes} nodes needs {wanted}. All beds share "
            f"{LIMIT.read_text().strip()}. End another bed, or run: sysctl fs.inotify.max_user_instances=1024"
        )
    if error:
        raise BedError(f"inotify: {os.strerror(error)}")
