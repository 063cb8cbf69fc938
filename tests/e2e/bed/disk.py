"""What a node sees as its file system: the host's, with its own folders over those that a node writes to.

All of it is mounted in the node's mount namespace. ``/etc``, ``/opt``, ``/var/lib`` and ``/var/log`` are overlays whose
upper side lies in the bed's work folder, so a mount point made there, or a file written there, is the node's alone;
folders that other mounts come from are bound from the work folder itself. ``/run`` and ``/dev`` are fresh at each boot.
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

# The kubelet sets these to what it wants. It gets ordinary files in their place: the machine's own stay as they are.
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
    """Refuse a work folder that nodes could not see, or that mount options or sockets could not name.

    Raises:
        BedError: Why, and where else to put it.
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
    """Give a machine that has just been made its file system; what an earlier boot wrote to ``disk`` is there."""
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
    """Where the content of one of the bound folders lies on the host."""
    return disk / "bound" / target.strip("/").replace("/", "-")


def _folder(disk: Path, kind: str, target: str) -> Path:
    folder = disk / kind / target.strip("/").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kernel_files(disk: Path) -> list[str]:
    """Ordinary files over those of /proc/sys that a node of its own would have of its own."""
    folder = disk / "sysctl"
    folder.mkdir(exist_ok=True)
    lines = []
    for name, value in {**TUNABLES, "kernel/random/boot_id": str(uuid.uuid4())}.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        lines.append(f"mount --bind {file} /proc/sys/{name}")
    return lines


def attach_gpus(machine: Machine, root: Path) -> None:
    """Show a machine the simulated GPUs prepared in a folder that is laid out as a node's root is.

    ``opt/nvidia-sim`` and ``etc/cdi`` are bound; each character device in ``dev`` gets its like in the node's ``/dev``.
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
