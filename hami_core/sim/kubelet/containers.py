"""Containers as local processes. The shim starts them; a restarted kubelet finds them again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hami_core.sim.kubelet import cdi, launch

if TYPE_CHECKING:
    from hami_core.agent.proto import deviceplugin_pb2 as api
    from hami_core.sim.resources import Object

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAUNCH = launch.__file__


class CreateError(Exception):
    """The container could not be created. The kubelet tries again later."""


class ConfigError(Exception):
    """The pod's specification of the container cannot be served, or not yet."""


@dataclass(frozen=True)
class Runtime:
    """Settings of all containers of a node.

    Args:
        pods: Folder of pods' state.
        cdi: Folder of CDI specifications.
        mode: ``namespace`` or ``reduced``.
        image_env: Environment of every image.
        shared: Host paths that every container shares with the host, not through its overlay.
        serves_cdi: False: CDI names are silently dropped, as by containerd 1.7 with ``enable_cdi`` off.
        proc: Folder that shows agents the containers' processes, with control groups as a real runtime names them.
    """

    pods: Path
    cdi: Path
    mode: str
    image_env: dict[str, str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    serves_cdi: bool = True
    proc: Path | None = None


class Container:
    """One attempt at one container, identified by its folder.

    Args:
        folder: ``<pods>/<uid>/<container>/<attempt>``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempt = int(folder.name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads((self.folder / name).read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return content

    @property
    def state(self) -> dict[str, Any] | None:
        """Process ids and start time once the container runs."""
        return self._read("state.json")

    @property
    def exit(self) -> dict[str, Any] | None:
        """How the container ended; None while it has not."""
        found = self._read("exit.json")
        if found is None and not self._shim_alive():
            found = self._read("exit.json")  # the shim may have written it between the two checks
            if found is None:
                state = self.state or {}
                started = state.get("started", 0.0)
                return {"exit_code": 137, "error": "", "started": started, "finished": started, "lost": True}
        return found

    def _shim(self) -> tuple[int, int]:
        shim = self._read("shim.json") or {}
        return shim.get("pid", 0), shim.get("start", -1)

    def _shim_alive(self) -> bool:
        pid, start = self._shim()
        return bool(pid) and launch.start_time(pid) == start

    async def ended(self) -> None:
        """Waits until the shim has ended."""
        pid, _ = self._shim()
        if not self._shim_alive():
            return
        try:
            number = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(number, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(number)
            os.close(number)

    def stop(self, *, at_once: bool) -> None:
        """Sends SIGTERM to the process; with ``at_once``, kills it and all its children."""
        state, (shim, start) = self.state, self._shim()
        with contextlib.suppress(ProcessLookupError):
            if at_once or not state:
                if launch.start_time(shim) == start:
                    os.kill(shim, signal.SIGTERM)
            elif launch.start_time(state["pid"]) == state["pid_start"]:
                os.kill(state["pid"], signal.SIGTERM)

    @property
    def id(self) -> str:
        """Container id for the pod's status."""
        return f"sim://{_runtime_id(self.folder)}"


def _runtime_id(folder: Path) -> str:
    """A container id in a runtime's form: 64 hexadecimal digits."""
    return hashlib.sha256("/".join(folder.parts[-3:]).encode()).hexdigest()


def show_processes(runtime: Runtime, container: Container) -> None:
    """Shows a container's process in the folder that agents use as the node's ``/proc``.

    A reduced container is not shown, because it has no mount namespace.
    """
    pid = (container.state or {}).get("pid", 0)
    if runtime.proc is None or runtime.mode == "reduced" or not pid:
        return
    for known in runtime.proc.iterdir():
        if known.name.isdigit() and not Path(f"/proc/{known.name}").exists():
            shutil.rmtree(known, ignore_errors=True)
    folder = runtime.proc / str(pid)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/kubepods.slice/cri-containerd-{_runtime_id(container.folder)}.scope\n")
    (folder / "mountinfo").symlink_to(f"/proc/{pid}/mountinfo")


def recovered(pods: Path, uid: str, name: str) -> list[Container]:
    """All attempts at a container that an earlier kubelet made. Attempts without a process are blocked for ever."""
    found = attempts(pods, uid, name)
    for container in found:
        launch.claim(str(container.folder), 0)
    return found


def attempts(pods: Path, uid: str, name: str) -> list[Container]:
    """All attempts at a container, oldest first."""
    folder = pods / uid / name
    found = [Container(p) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
    return sorted(found, key=lambda c: c.attempt)


async def end_all(pods: Path, uid: str = "*") -> None:
    """Ends all containers of a node, or of one pod, and waits for them."""
    found = [Container(p.parent) for p in pods.glob(f"{uid}/*/*/shim.json")]  # noqa: ASYNC240 - local and small
    for container in found:
        container.stop(at_once=True)
    for container in found:
        await container.ended()


def _field_ref(pod: Object, path: str) -> str:
    match = re.match(r"^metadata\.(annotations|labels)\['([^']+)'\]$", path)
    if match:
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    value: Any = {**pod, "status": {**(pod.get("status") or {}), "hostIP": "127.0.0.1", "podIP": "127.0.0.1"}}
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def environment(pod: Object, container: Object, answers: list[api.ContainerAllocateResponse]) -> dict[str, str]:
    """The environment from Allocate's answers, then from the pod. `specification` adds the image's and CDI's.

    Raises:
        ConfigError: The kind of a ``valueFrom`` is not supported.
    """
    env = {"HOSTNAME": pod["metadata"]["name"], "HOME": "/root"}
    for answer in answers:
        env.update(answer.envs)
    for entry in container.get("env") or []:
        value, source = entry.get("value") or "", entry.get("valueFrom")
        if source:
            if "fieldRef" not in source:
                raise ConfigError(
                    f"env {entry['name']}: valueFrom {'/'.join(source)} is not served here, use fieldRef or value"
                )
            value = _field_ref(pod, source["fieldRef"]["fieldPath"])
        env[entry["name"]] = expand(value, env)
    return env


def expand(text: str, env: dict[str, str]) -> str:
    """Replaces ``$(NAME)`` of known names; ``$$`` escapes."""
    return re.sub(r"\$(\$|\(([^)]+)\))", lambda m: "$" if m[1] == "$" else env.get(m[2], m[0]), text)


def _volume_mounts(runtime: Runtime, pod: Object, container: Object) -> list[dict[str, Any]]:
    volumes = {v["name"]: v for v in pod["spec"].get("volumes") or []}
    found = []
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        if "hostPath" in volume:
            source = Path(volume["hostPath"]["path"])
            if "OrCreate" in (volume["hostPath"].get("type") or ""):
                source.mkdir(parents=True, exist_ok=True)
        elif "emptyDir" in volume:
            source = runtime.pods / pod["metadata"]["uid"] / ".volumes" / mount["name"]
            source.mkdir(parents=True, exist_ok=True)
        else:
            raise ConfigError(f"volume {mount['name']}: only emptyDir and hostPath are served here")
        source = source / mount.get("subPath", "")
        found.append({"source": str(source), "target": mount["mountPath"], "read_only": bool(mount.get("readOnly"))})
    return found


def specification(
    runtime: Runtime, pod: Object, container: Object, answers: list[api.ContainerAllocateResponse], folder: Path
) -> dict[str, Any]:
    """The description of the container for the shim.

    Raises:
        CreateError: A CDI name is unknown, a source is missing, or there is no command.
        ConfigError: See `environment`.
    """
    meta, env = pod["metadata"], environment(pod, container, answers)
    names = [d.name for a in answers for d in a.cdi_devices] if runtime.serves_cdi else []
    try:
        edits = cdi.resolve(runtime.cdi, names)
    except cdi.UnresolvableError as error:
        raise CreateError(f"failed to create containerd container: {error}") from error
    args = [expand(a, env) for a in [*(container.get("command") or []), *(container.get("args") or [])]]
    if not args:
        raise CreateError(f'container {container["name"]}: no command specified (images are not used: give "command")')
    mounts: list[dict[str, Any]] = [
        {"source": m.host_path, "target": m.container_path, "read_only": m.read_only} for a in answers for m in a.mounts
    ]
    devices = [{"source": d.host_path, "target": d.container_path} for a in answers for d in a.devices]
    mounts = [*_volume_mounts(runtime, pod, container), *mounts, *edits.mounts]
    for entry in [*mounts, *devices, *edits.devices]:
        if not Path(entry["source"]).exists():
            raise CreateError(f"failed to create containerd container: {entry['source']}: no such file or directory")
    identity = {
        "container-name": container["name"], "container-type": "container", "image-name": container.get("image", ""),
        "sandbox-id": meta["uid"], "sandbox-name": meta["name"], "sandbox-namespace": meta["namespace"],
        "sandbox-uid": meta["uid"],
    }  # fmt: skip
    return {
        "id": f"{meta['uid']}-{container['name']}-{folder.name}",
        "mode": runtime.mode,
        "args": args,
        "env": {"PATH": _PATH, **runtime.image_env, **env, **edits.env},
        "cwd": container.get("workingDir") or "/",
        "mounts": mounts,
        "devices": [*devices, *edits.devices],
        "hooks": edits.hooks,
        "shared": list(runtime.shared),
        "annotations": {f"io.kubernetes.cri.{k}": v for k, v in identity.items()},
        "log": str(folder / "log"),
    }


async def start(folder: Path, spec: dict[str, Any]) -> Container:
    """Starts the shim and returns once the process runs or has failed to start."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # noqa: ASYNC240 - local and small
    fresh = folder / "spec.json.new"
    fresh.write_text(json.dumps(spec))
    fresh.replace(folder / "spec.json")  # other processes read it: they see the whole file or none
    if spec["mode"] == "reduced":
        (folder / "log").write_text("[reduced: no mount namespace on this machine]\n")
    with (folder / "shim.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio would end it with this process
            [sys.executable, "-I", "-S", _LAUNCH, str(folder)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip
    container = Container(folder)
    while not (folder / "shim.json").exists() and process.poll() is None:  # noqa: ASYNC110 - it takes milliseconds
        await asyncio.sleep(0.01)
    while container.state is None and container.exit is None:
        await asyncio.sleep(0.01)
        process.poll()  # reaps the shim if it has ended
    return container


async def probe(folder: Path) -> str:
    """Why containers cannot have mount namespaces here; empty if they can."""
    spec: dict[str, Any] = {
        "id": "probe", "mode": "namespace", "args": ["/bin/true"], "env": {"PATH": _PATH}, "cwd": "/", "mounts": [],
        "devices": [], "hooks": [], "shared": [], "annotations": {}, "log": str(folder / "0" / "log"),
    }  # fmt: skip
    container = await start(folder / "0", spec)
    await container.ended()
    end = container.exit or {}
    return "" if end.get("exit_code") == 0 else str(end.get("error") or f"exit code {end.get('exit_code')}")
