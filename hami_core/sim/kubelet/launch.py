"""The shim between kubelet and process: it runs one container. It uses only the standard library.

``python -I -S launch.py FOLDER`` reads ``spec.json`` in the folder. It writes ``state.json`` once the process runs and
``exit.json`` when it has ended. The shim outlives the kubelet. SIGTERM to the shim ends the container at once.

``python -I -S launch.py --enter FOLDER tty|"" COMMAND…`` runs a further command in the running container of a folder.
It ends with the command's exit code. SIGTERM, or the end of its parent process, ends the command and its children.

The process gets a mount namespace of its own, with these mounts:

- an overlay of the host's root, whose changes stay in memory,
- a new ``/dev`` with the usual devices,
- the host's ``/proc`` and ``/sys``. Process ids are the host's, because simulated devices account by process id.

In mode ``reduced`` there is no namespace. The container gets a folder of links instead, and an environment that leads
there.
"""

# Each container has a shim, and without pathlib it starts faster.
# ruff: noqa: PTH101, PTH102, PTH103, PTH105, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH120, PTH123, PTH211

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import stat
import sys
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would take longer than all other imports
    from typing import Any, NoReturn

    Spec = dict[str, Any]

_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_KERNEL = ("/proc", "/sys", "/dev")
_WRITABLE = ("/tmp", "/var/tmp", "/run", "/home")  # noqa: S108 - the host's own


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    encoded = [s.encode() if s else None for s in (source, target, kind)]
    _check(_LIBC.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None), f"mount {source} on {target}")


def start_time(pid: int) -> int:
    """The process's start in clock ticks since boot; 0 if it does not run. Id and start together identify a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return 0 if fields[0] in {b"Z", b"X"} else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def _write(folder: str, name: str, content: Spec) -> None:
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)


def _read(folder: str, name: str) -> Spec:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        found: Spec = json.load(file)
    return found


def claim(folder: str, pid: int) -> bool:
    """Claims a container's folder for a shim. Returns False if it has been claimed before.

    A kubelet may have been killed before its shim claimed the folder. Its successor claims the folder with process id
    0. Then the late shim starts nothing, and no container runs twice.
    """
    name = os.path.join(folder, "shim.json")
    _write(folder, f"claim-{pid}", {"pid": pid, "start": start_time(pid) if pid else -1})
    try:
        os.link(os.path.join(folder, f"claim-{pid}"), name)
    except FileExistsError:
        return False
    return True


# ---- the root


def inside(root: str, path: str) -> str:
    """The host's path of a path in the container. Symbolic links are followed as inside the container."""
    done, todo, links = root, [p for p in path.split("/") if p], 0
    while todo:
        part = todo.pop(0)
        if part == ".":
            continue
        if part == "..":
            done = root if done == root else os.path.dirname(done)
            continue
        step = f"{done}/{part}"
        if os.path.islink(step) and links < 40:
            links += 1
            target = os.readlink(step)
            done = root if target.startswith("/") else done
            todo = [p for p in target.split("/") if p] + todo
        else:
            done = step
    return done


def _point(source: str, target: str) -> None:
    """Creates the mount point of a bind mount: a folder or a file, like its source."""
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def _bind(source: str, target: str, *, read_only: bool = False) -> None:
    _point(source, target)
    _mount(source, target, flags=_MS_BIND | _MS_REC)
    if read_only:
        kept = os.statvfs(target).f_flag & 0x40E  # nosuid, nodev, noexec, noatime: locked in a user namespace
        _mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _own_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        for name, line in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(line)
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)


def _host_mounts() -> list[str]:
    """Mount points of the host, outermost first, without ``/`` and those that every container gets."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    found: list[str] = []
    for point in points:
        covered = any(point == k or point.startswith(k + "/") for k in (*_KERNEL, *found))
        if point != "/" and not covered:
            found.append(point)
    return found


def _memory(folder: str) -> str:
    """A file system in memory that ends with the container."""
    base = os.path.join(folder, "fs")
    os.makedirs(base, exist_ok=True)
    _mount("tmpfs", base, "tmpfs", data="mode=755,size=1g")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{base}/{name}")
    os.chmod(f"{base}/upper", 0o755)  # noqa: S103 - it becomes /
    return base


def _overlay(base: str, host: list[str]) -> None:
    """Mounts the host's root at ``root``, with changes in ``upper``."""
    root = f"{base}/root"
    _mount("overlay", root, "overlay", data=f"lowerdir=/,upperdir={base}/upper,workdir={base}/work")
    for point in host:
        if os.path.exists(point):
            _bind(point, inside(root, point))


def _tree(base: str, targets: list[str]) -> None:
    """Builds the root from bind mounts, for users who may not mount an overlay of ``/``.

    Parent folders of a target are created, and their entries are bound one by one. All other folders are bound whole.
    Everything is read-only except the folders of `_WRITABLE`.
    """
    os.makedirs(f"{base}/root", exist_ok=True)
    _bind(f"{base}/root", f"{base}/root")  # a container's root must be a mount, to be found in its mount table
    split = {"/"}
    for target in targets:
        folder = os.path.realpath(os.path.dirname(target))
        while folder != "/":
            split.add(folder)
            folder = os.path.dirname(folder)
    for folder in sorted(split):
        made = f"{base}/root{folder.rstrip('/')}"
        os.makedirs(made, exist_ok=True)
        for entry in os.scandir(folder) if os.path.isdir(folder) else ():
            copy = f"{made}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), copy)
            elif entry.path in split or entry.path in _KERNEL:
                os.makedirs(copy, exist_ok=True)
            else:
                try:
                    _bind(entry.path, copy, read_only=entry.path not in _WRITABLE)
                except OSError:
                    continue  # this user may not bind it


def _fill(folder: str, spec: Spec) -> str:
    host, base = _host_mounts(), _memory(folder)
    root = f"{base}/root"
    try:
        _overlay(base, host)
    except OSError:
        entries = [*spec["mounts"], *spec["devices"]]
        _tree(base, [os.path.normpath(e["target"]) for e in entries if not e["target"].startswith(_KERNEL)])
    for point in ("/proc", "/sys"):
        _bind(point, root + point)
    return root


def _device_folder(root: str) -> None:
    dev = f"{root}/dev"
    _mount("tmpfs", dev, "tmpfs", data="mode=755")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            _bind(f"/dev/{name}", f"{dev}/{name}")
    os.mkdir(f"{dev}/shm")
    _mount("tmpfs", f"{dev}/shm", "tmpfs", data="mode=1777")
    if os.path.isdir("/dev/pts"):
        _bind("/dev/pts", f"{dev}/pts")
        os.symlink("pts/ptmx", f"{dev}/ptmx")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{dev}/{name}")


def _make_root(folder: str, spec: Spec) -> str:
    _own_namespace()
    root = _fill(folder, spec)
    _device_folder(root)
    for path in spec["shared"]:
        _bind(path, inside(root, path))
    for mount in spec["mounts"]:
        _bind(mount["source"], inside(root, mount["target"]), read_only=mount["read_only"])
    for device in spec["devices"]:
        _bind(device["source"], inside(root, device["target"]))
    return root


def _link_in_place_of_mount(entry: dict[str, Any], link: str) -> None:
    """Creates a link in place of a mount. A writable file gets a hard link: some programs refuse symbolic links."""
    if not entry.get("read_only", True):
        try:
            os.link(entry["source"], link)
        except OSError:  # a folder, or on another file system
            pass
        else:
            return
    os.symlink(entry["source"], link)


def _make_links(folder: str, spec: Spec) -> str:
    """Mode ``reduced``: creates links in a folder in place of mounts, and an environment that leads there."""
    root = os.path.join(folder, "root")
    os.makedirs(f"{root}/dev", exist_ok=True)
    env = spec["env"]
    for entry in [*spec["mounts"], *spec["devices"]]:
        link = root + os.path.normpath(entry["target"])
        os.makedirs(os.path.dirname(link), exist_ok=True)
        if not os.path.lexists(link):
            _link_in_place_of_mount(entry, link)
    preload = f"{root}/etc/ld.so.preload"
    if os.path.exists(preload):
        with open(preload, encoding="utf-8") as file:
            names = [root + n if os.path.exists(root + n) else n for n in file.read().split()]
        env["LD_PRELOAD"] = ":".join([*names, *filter(None, [env.get("LD_PRELOAD")])])
    paths = env.get("LD_LIBRARY_PATH", "").split(":")
    env["LD_LIBRARY_PATH"] = ":".join(root + p if os.path.exists(root + p) else p for p in paths)
    env["HAMI_VGPU_ROOT"] = f"{root}/usr/local/vgpu"
    if "HAMI_SIM_DEV" in env:
        env["HAMI_SIM_DEV"] = root + env["HAMI_SIM_DEV"]
    return root


# ---- hooks


def _run_hooks(spec: Spec, names: tuple[str, ...], pid: int, folder: str, cwd: str) -> None:
    state = {
        "ociVersion": "1.2.0", "id": spec["id"], "status": "creating", "pid": pid, "bundle": folder,
        "annotations": spec["annotations"],
    }  # fmt: skip
    wanted = [hook for hook in spec["hooks"] if hook["name"] in names]
    if not wanted:
        return
    import subprocess  # noqa: PLC0415 - few containers have hooks, and it is slow to import

    for hook in wanted:
        env = dict(e.split("=", 1) for e in hook["env"])
        try:
            done = subprocess.run(
                hook["args"] or [hook["path"]],
                executable=hook["path"],
                input=json.dumps(state).encode(),
                env=env,
                cwd=cwd,
                capture_output=True,
                timeout=hook["timeout"] or 60,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"error running hook: {error}") from error
        if done.returncode:
            out, err = (t.decode(errors="replace").strip() for t in (done.stdout, done.stderr))
            text = f"error running hook: exit status {done.returncode}, stdout: {out}, stderr: {err}"
            raise RuntimeError(f"failed to create shim task: OCI runtime create failed: {text}")


# ---- the process


def _child(folder: str, spec: Spec, ready: int, go: int) -> NoReturn:
    """Becomes the container's process, or writes to ``ready`` why it cannot. Never returns."""
    try:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        reduced = spec["mode"] == "reduced"
        root = _make_links(folder, spec) if reduced else _make_root(folder, spec)
        process = {"args": spec["args"], "env": [f"{k}={v}" for k, v in spec["env"].items()], "cwd": spec["cwd"]}
        config = {"ociVersion": "1.2.0", "root": {"path": root}, "process": process}
        _write(folder, "config.json", {**config, "annotations": spec["annotations"]})
        os.write(ready, b"+")
        if not os.read(go, 1):
            os._exit(1)
        _run_hooks(spec, ("createContainer",), os.getpid(), folder, root)
        if not reduced:
            os.chroot(root)
        os.chdir(spec["cwd"])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvpe(spec["args"][0], spec["args"], spec["env"])  # noqa: S606 - the container's own command
    except BaseException as error:  # noqa: BLE001 - everything is reported to the parent
        os.write(ready, f"-{error}".encode())
    os._exit(127)


def _descendants() -> list[int]:
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                children = [int(c) for c in file.read().split()]
        except OSError:
            continue
        found += children
        todo += children
    return found


def _end_all(*_: object) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _await_exit(pid: int) -> int:
    """Waits for the container's process, kills its remaining children and returns its exit code in a shell's form."""
    status = 0
    while True:
        done, found = os.wait()
        if done == pid:
            status = found
            break
    while _descendants():
        _end_all()
        try:
            os.wait()
        except ChildProcessError:
            break
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _start(folder: str, spec: Spec) -> int:
    """Starts the container's process.

    Raises:
        RuntimeError: The process could not be started. The text is in the runtime's form.
    """
    ready_read, ready = os.pipe2(os.O_CLOEXEC)
    go_read, go = os.pipe2(os.O_CLOEXEC)
    log = os.open(spec["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    pid = os.fork()
    if pid == 0:
        os.close(go)
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        _child(folder, spec, ready, go_read)
    for number in (ready, go_read, log):
        os.close(number)
    first = os.read(ready_read, 1)
    error = ""
    try:
        if first == b"+":
            _run_hooks(spec, ("prestart", "createRuntime"), pid, folder, folder)
            os.write(go, b"+")
            first = os.read(ready_read, 1)
    except (RuntimeError, OSError) as failure:
        error = str(failure)
    os.close(go)
    if first == b"-":
        error = os.read(ready_read, 4096).decode(errors="replace") or "container died while it was created"
    if error:
        _end_all()
        os.waitpid(pid, 0)
        raise RuntimeError(error)
    return pid


def main(folder: str) -> None:
    """Runs the container of a folder until it ends."""
    spec = _read(folder, "spec.json")
    if not claim(folder, os.getpid()):
        return
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end_all)
    shim = {"shim": os.getpid(), "shim_start": start_time(os.getpid())}
    started = time.time()
    try:
        pid = _start(folder, spec)
    except RuntimeError as error:
        end = {"exit_code": 128, "error": str(error), "started": started, "finished": time.time()}
        _write(folder, "exit.json", end)
        return
    _write(folder, "state.json", {**shim, "pid": pid, "pid_start": start_time(pid), "started": started})
    code = _await_exit(pid)
    _write(folder, "exit.json", {"exit_code": code, "error": "", "started": started, "finished": time.time()})
    _run_hooks(spec, ("poststop",), 0, folder, folder)


# ---- further commands in a running container


def _join(pid: int) -> None:
    """Enters the mount namespace and the root of a container's process."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH)
    for name, kind in (("user", _CLONE_NEWUSER), ("mnt", _CLONE_NEWNS)):
        if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):
            _check(_LIBC.setns(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind), f"setns {name}")
    os.fchdir(root)
    os.chroot(".")


def _command(folder: str, command: list[str], *, tty: bool) -> NoReturn:
    """Becomes the command, with the environment of the container's process. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        process = _read(folder, "config.json")["process"]
        env = dict(e.split("=", 1) for e in process["env"])
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            env.setdefault("TERM", "xterm")
        if _read(folder, "spec.json")["mode"] != "reduced":
            _join(_read(folder, "state.json")["pid"])
        os.chdir(process["cwd"])
        os.execvpe(command[0], command, env)  # noqa: S606 - the user's own command
    except BaseException as error:  # noqa: BLE001 - everything is reported on standard error
        cause = error.strerror if isinstance(error, OSError) else error
        os.write(2, f"exec failed: {command[0]!r}: {cause}\n".encode())
    os._exit(127)


def enter(folder: str, command: list[str], *, tty: bool) -> int:
    """Runs a command in the running container of a folder. Returns its exit code."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _end_all)
    pid = os.fork()
    if pid == 0:
        _command(folder, command, tty=tty)
    for number in (0, 1, 2):
        os.close(number)  # so that readers see the end when the command has ended
    return _await_exit(pid)


if __name__ == "__main__":
    if sys.argv[1] == "--enter":
        os._exit(enter(sys.argv[2], sys.argv[4:], tty=sys.argv[3] == "tty"))
    main(sys.argv[1])
