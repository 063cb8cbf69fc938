"""The file system of a node: the host's, with the node's own folders in place of those that nodes write to.

All mounts are in the node's mount namespace. ``/etc``, ``/opt``, ``/var/lib`` and ``/var/log`` are overlays. Their
changes are stored in the bed's work folder, so no other node sees them. Folders that are sources of other mounts are
bind mounts of folders in the work folder. ``/run`` and ``/dev`` are new at each boot.
"""

from __future__ import annotations

import os
import shlex
import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bed.errors import BedError

if TYPE_CHECKING:
    from tests.e2e.bed.machine import Machine

OVERLAYS = ("/etc", "/opt", "/var/lib", "/var/log")
BOUND = ("/var/lib/kubelet", "/var/lib/hami", "/var/log/pods", "/var/log/containers", "/etc/cdi", "/etc/cni/net.d")
HIDDEN = (*OVERLAYS, "/run", "/var/run", "/dev", "/proc", "/sys")

# The kubelet sets these kernel parameters. It gets ordinary files in their place, so that the host's do not change.
TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

_DEVICES = """
mount -t tmpfs -o mode=755,size=64m dev /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/full c 1 7
mknod -m 666 /dev/random c 1 8
mknod -m 666 /dev/urandom c 1 9
mknod -m 600 /dev/kmsg c 1 11
mknod -m 666 /dev/tty c 5 0
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
ln -s pts/ptmx /dev/ptmx
mkdir /dev/pts /dev/shm /dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t mqueue mqueue /dev/mqueue
"""


def check(work: Path) -> None:
    """Refuse a work folder that nodes could not see, or whose path mount options or sockets could not contain.

    Raises:
        BedError: The folder cannot be used. The text says why and suggests another place.
    """
    advice = "; choose another, such as one below /tmp"
    for hidden in HIDDEN:
        if work.is_relative_to(hidden):
            raise BedError(f"{work}: a bed can't live below {hidden}, which each node has of its own{advice}")
    if set(str(work)) & set(",:\\'\" "):
        raise BedError(f"{work}: blanks, quotes, commas, colons can't be in the name of a work folder{advice}")
    if len(str(work)) > 60:
        raise BedError(f"{work}: longer than 60 characters, so names of sockets below it would be too long{advice}")


def mount(machine: Machine, disk: Path) -> None:
    """Mount the file system of a new machine. It contains the files that an earlier boot wrote to ``disk``."""
    lines = ["mount -t tmpfs -o mode=755 run /run", "mkdir /run/containerd /run/netns /run/lock /run/cdi"]
    for target in OVERLAYS:
        upper, work = _folder(disk, "upper", target), _folder(disk, "work", target)
        options = shlex.quote(f"lowerdir={target},upperdir={upper},workdir={work}")
        lines += [f"mount -t overlay -o {options} overlay {target}"]
    for target in BOUND:
        lines += [f"mkdir -p {target}", f"mount --bind {_folder(disk, 'bound', target)} {target}"]
    lines += [f"hostname {machine.name}", f"echo {machine.name} > /etc/hostname"]
    lines += [_DEVICES, *_kernel_files(disk), "mount --make-rshared /"]
    machine_id = disk / "upper/etc/machine-id"
    if not machine_id.exists():
        machine_id.write_text(f"{uuid.uuid4().hex}\n")
    machine.script("\n".join(lines))


def bound(disk: Path, target: str) -> Path:
    """Folder on the host with the content of one of the folders in `BOUND`."""
    return disk / "bound" / target.strip("/").replace("/", "-")


def _folder(disk: Path, kind: str, target: str) -> Path:
    folder = disk / kind / target.strip("/").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kernel_files(disk: Path) -> list[str]:
    """Commands that mount ordinary files over those of /proc/sys that differ between real nodes."""
    folder = disk / "sysctl"
    folder.mkdir(exist_ok=True)
    lines = []
    for name, value in {**TUNABLES, "kernel/random/boot_id": str(uuid.uuid4())}.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        lines.append(f"mount --bind {file} /proc/sys/{name}")
    return lines


def attach_gpus(machine: Machine, root: Path) -> None:
    """Give a machine the simulated GPUs of a folder that is laid out like a node's root.

    ``opt/nvidia-sim`` and ``etc/cdi`` are bind-mounted. Each character device in ``dev`` is created in the node's
    ``/dev``.
    """
    lines = []
    for target in ("/opt/nvidia-sim", "/etc/cdi"):
        source = root / target.lstrip("/")
        if source.is_dir():
            lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
    for node in sorted((root / "dev").rglob("*")):
        found = node.lstat()
        if stat.S_ISCHR(found.st_mode):
            place = Path("/dev") / node.relative_to(root / "dev")
            major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
            lines += [f"mkdir -p {place.parent}", f"rm -f {place}", f"mknod -m 666 {place} c {major} {minor}"]
    machine.script("\n".join(lines))
