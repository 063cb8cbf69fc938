"""Finds the driver's files that a container needs: in NVIDIA's own CDI spec if there is one, otherwise on the node."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from hami_core import DeviceError, DeviceNode, Mount, OciHook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_nvidia.driver_places import DevFolder

KIND: Final = "nvidia.com/gpu"
CONTROL: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that every container with a card gets, if the node has them."""
_SPEC_LIMIT: Final = 8 << 20
_MOST_LINKS: Final = 40
"""The number of links that Linux follows in one path."""
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "lib",
)
_LIBRARIES: Final = (
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-ml.so",
    "libnvidia-cfg.so",
    "libnvidia-ptxjitcompiler.so",
    "libnvidia-nvvm.so",
    "libnvidia-gpucomp.so",
    "libnvidia-opencl.so",
    "libnvidia-allocator.so",
    "libnvidia-encode.so",
    "libnvidia-opticalflow.so",
    "libnvcuvid.so",
)
_PROGRAMS: Final = ("nvidia-smi", "nvidia-debugdump")


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """The driver's files for containers.

    Attributes:
        env: Environment of every container with a card.
        mounts: Mounts of every container with a card.
        device_nodes: Device nodes of every container with a card.
        hooks: Hooks of every container with a card.
        by_card: Device nodes by card (UUID or index), if NVIDIA's spec names them.
        source: Where the files were found, for the log.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[OciHook, ...] = ()
    by_card: Mapping[str, tuple[DeviceNode, ...]] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class DriverRoot:
    """Root of a driver's installation.

    Attributes:
        host: Its path on the host, which is used for mounts.
        here: Its path in this process.
    """

    host: Path
    here: Path

    def follow(self, inside: Path) -> Path:
        """Resolve the links of a path below the root, as if the root were ``/``.

        Debian's alternatives are absolute links. Resolved from our own ``/``, they would lead out of the root.

        Returns:
            The resolved path, relative to the root.

        Raises:
            DeviceError: The links form a circle.
        """
        rest, done, links = list(reversed(inside.parts)), list[str](), 0
        while rest:
            part = rest.pop()
            path = self.here.joinpath(*done, part)
            if part == "..":
                done[-1:] = []
            elif part == "/":
                done.clear()
            elif not path.is_symlink():
                done.append(part)
            elif (links := links + 1) > _MOST_LINKS:
                raise DeviceError(f"{self.here / inside}: its links form a circle")
            else:
                rest.extend(reversed(path.readlink().parts))
        return Path(*done)


def nvml_below(root: DriverRoot) -> str:
    """The path of NVML below a root that is not this process's own; empty if NVML is to be loaded by name.

    LD_LIBRARY_PATH is no alternative, since such a root may have its own libc.
    """
    return "" if root.here == Path("/") else find_nvml(root)


def find_nvml(root: DriverRoot) -> str:
    """The path of NVML below a root; empty if there is none."""
    found = (root.here / root.follow(Path(folder, "libnvidia-ml.so.1")) for folder in _FOLDERS)
    return next((str(path) for path in found if path.is_file()), "")


def from_libraries(libraries: Sequence[Path], container_dir: str) -> DriverFiles:
    """The driver files that an administrator named.

    Raises:
        DeviceError: A file is missing.
    """
    mounts: list[Mount] = []
    for library in libraries:
        if not library.is_file():
            raise DeviceError(f"driver library {library} (HAMI_NVIDIA_DRIVER_LIBRARIES) is not a file")
        mounts.append(Mount(str(library.resolve()), f"{container_dir or library.parent}/{library.name}"))
    return DriverFiles(mounts=tuple(mounts), source="settings")


def discover(root: DriverRoot, version: str, container_dir: str) -> DriverFiles:
    """Find the driver's libraries and programs below a root.

    A library is mounted under its real name and under the name by which programs load it. So ldconfig need not run.

    Raises:
        DeviceError: There is no libcuda.
    """
    mounts: dict[str, Mount] = {}
    for part in map(Path, _FOLDERS):
        folder = root.follow(part)
        for link in _libraries(root.here / folder):
            real = root.follow(folder / link)
            if not (root.here / real).is_file() or (version and not real.name.endswith(("." + version, ".1"))):
                continue
            for target in {f"{container_dir or f'/{part}'}/{name}" for name in (link, real.name)}:
                mounts.setdefault(target, Mount(str(root.host / real), target))
    if not any("/libcuda.so" in target for target in mounts):
        seen = "" if root.host == root.here else f" (seen as {root.here})"
        raise DeviceError(f"no libcuda.so.1 of driver {version} below {root.host}{seen}; set HAMI_NVIDIA_DRIVER_ROOT")
    for program in _PROGRAMS:
        path = root.follow(Path("usr/bin", program))
        if (root.here / path).is_file():
            mounts[f"/usr/bin/{program}"] = Mount(str(root.host / path), f"/usr/bin/{program}")
    return DriverFiles(mounts=tuple(mounts[t] for t in sorted(mounts)), source=str(root.host))


def _libraries(folder: Path) -> list[str]:
    """Names of the driver's libraries in a folder, including links."""
    return [link.name for name in _LIBRARIES for link in sorted(folder.glob(name + ".*"))]


def control_nodes(dev: DevFolder) -> tuple[DeviceNode, ...]:
    """The control device nodes of this node."""
    return tuple(dev.node(name) for name in CONTROL if dev.exists(name))


def device_node(dev_root: Path, name: str) -> DeviceNode:
    """One device node, at its usual path in the container."""
    path = f"/dev/{name}"
    return DeviceNode(path) if dev_root == Path("/dev") else DeviceNode(path, str(dev_root / name))


def driver_major(proc_root: Path, name: str) -> int:
    """The major number of a driver's character devices, from ``/proc/devices``; 0 if it has none now."""
    try:
        lines = (proc_root / "devices").read_text().partition("Block devices:")[0].splitlines()
    except OSError:
        return 0
    fields = (line.split() for line in lines)
    return next((int(major) for major, driver in (f for f in fields if len(f) == 2) if driver == name), 0)


def from_cdi(folders: Iterable[Path]) -> DriverFiles | None:
    """Read NVIDIA's own CDI spec, if nvidia-ctk has written one.

    Raises:
        DeviceError: The file is not a valid CDI spec.
    """
    for folder in folders:
        for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.json"))):
            if path.name.startswith("hami-") or path.stat().st_size > _SPEC_LIMIT:
                continue
            text = path.read_text()
            if KIND not in text:
                continue
            try:
                content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
                if isinstance(content, dict) and content.get("kind") == KIND:
                    return _parsed(content, str(path))
            except (ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
                raise DeviceError(f"{path} is not a CDI spec: {type(error).__name__}: {error}") from error
    return None


def _parsed(content: Mapping[str, Any], source: str) -> DriverFiles:
    edits = content.get("containerEdits") or {}
    env = dict(item.split("=", 1) for item in edits.get("env") or () if not item.startswith("NVIDIA_VISIBLE_DEVICES="))
    mounts = tuple(
        Mount(m["hostPath"], m["containerPath"], "rw" not in (m.get("options") or ()))
        for m in edits.get("mounts") or ()
    )
    hooks = tuple(
        OciHook(h["hookName"], h["path"], tuple(h.get("args") or ()), tuple(h.get("env") or ()))
        for h in edits.get("hooks") or ()
    )
    by_card = {
        str(device["name"]): _nodes((device.get("containerEdits") or {}).get("deviceNodes"))
        for device in content.get("devices") or ()
    }
    return DriverFiles(env, mounts, _nodes(edits.get("deviceNodes")), hooks, by_card, source)


def _nodes(found: Iterable[Mapping[str, Any]] | None) -> tuple[DeviceNode, ...]:
    return tuple(DeviceNode(n["path"], n.get("hostPath") or "", n.get("permissions") or "rw") for n in found or ())
