"""Where the driver and its device nodes lie on the host, and where this process sees them.

The administrator names the driver's root, or writes ``auto``. Then `find` decides each time NVML is opened, since the
GPU Operator may install the driver after the agent has started. `hami_nvidia.node` keeps the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core import DeviceError, DeviceNode
from hami_nvidia.driver import DriverRoot, device_node, find_nvml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_nvidia.settings import NodeSettings

AUTO: Final = Path("auto")
HOST: Final = Path("/")
OPERATOR_ROOT: Final = Path("/run/nvidia/driver")
"""Where the GPU Operator's driver container shows its root (``spec.hostPaths.driverInstallDir``)."""
READY: Final = Path("/run/nvidia/validations/driver-ready")
"""The GPU Operator's validator writes it when the driver works: ``NVIDIA_DRIVER_ROOT=…`` and ``NVIDIA_DEV_ROOT=…``."""
_DEV_FOLDER: Final = Path("/dev")
_READY_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class DevFolder:
    """A folder of device nodes.

    Attributes:
        host: Its path on the host.
        seen: Its paths in this process. A container's own ``/dev`` may lack nodes that were made after its start.
    """

    host: Path = _DEV_FOLDER
    seen: tuple[Path, ...] = (_DEV_FOLDER,)

    def exists(self, name: str) -> bool:
        """Whether the host has a node of this name."""
        return any((folder / name).exists() for folder in self.seen)

    def character_devices(self, pattern: str) -> list[str]:
        """Names of the character devices that match a pattern such as ``nvidia-fs*``, sorted."""
        found = {(folder, path) for folder in self.seen for path in folder.glob(pattern) if path.is_char_device()}
        return sorted({str(path.relative_to(folder)) for folder, path in found})

    def node(self, name: str) -> DeviceNode:
        """A node, at its usual path in the container."""
        return device_node(self.host, name)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the driver is.

    Attributes:
        root: Root of the driver's installation.
        dev: Folder of the driver's device nodes.
        host_dev: The host's own ``/dev``, where other drivers make their nodes.
        host: The host's ``/``; None: this process does not see it.
    """

    root: DriverRoot
    dev: DevFolder = DevFolder()
    host_dev: DevFolder = DevFolder()
    host: DriverRoot | None = None


def find(settings: NodeSettings) -> Places:
    """Where the driver is now.

    Raises:
        DeviceError: The GPU Operator's file is invalid.
    """
    host: DriverRoot | None
    if settings.driver_root == AUTO:
        host = DriverRoot(HOST, settings.agent_driver_root or HOST)
        root, dev_root = _automatic(host)
    else:
        root = DriverRoot(settings.driver_root, settings.agent_driver_root or settings.driver_root)
        host, dev_root = root if root.host == HOST else None, None
    host_dev = _folder(settings.dev_root, host)
    if settings.dev_root != _DEV_FOLDER:
        return Places(root, host_dev, host_dev, host)
    dev_root = settings.nvidia_dev_root or dev_root or _dev_root_of(root)
    if dev_root in {HOST, None}:
        return Places(root, host_dev, host_dev, host)
    seen = root.here if dev_root == root.host else _below(host, dev_root)
    return Places(root, DevFolder(dev_root / "dev", (seen / "dev",)), host_dev, host)


def _folder(dev: Path, host: DriverRoot | None) -> DevFolder:
    if dev != _DEV_FOLDER or host is None or host.here == HOST:
        return DevFolder(dev, (dev,))
    return DevFolder(dev, (dev, host.here / "dev"))


def _below(host: DriverRoot | None, path: Path) -> Path:
    return path if host is None else host.here / path.relative_to("/")


def _dev_root_of(root: DriverRoot) -> Path | None:
    """A driver container's own root, if the driver's device nodes lie below it; None: they lie in the host's /dev."""
    return root.host if root.host != HOST and (root.here / "dev/nvidiactl").exists() else None


def _automatic(host: DriverRoot) -> tuple[DriverRoot, Path | None]:
    """The driver's root and the root of its device nodes (None: not known), as the GPU Operator or the files say."""
    told = _told(_below(host, READY))
    root, dev_root = told.get("NVIDIA_DRIVER_ROOT"), told.get("NVIDIA_DEV_ROOT")
    if root is not None:
        return DriverRoot(root, _below(host, root)), dev_root
    roots = [DriverRoot(path, _below(host, path)) for path in (HOST, OPERATOR_ROOT)]
    return next((each for each in roots if find_nvml(each)), roots[0]), None


def _told(file: Path) -> Mapping[str, Path]:
    """The roots that the GPU Operator's file names. Before it exists, or if it is empty as in old versions: none.

    Raises:
        DeviceError: It can't be read, or a root is not an absolute path.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            lines = opened.read(_READY_LIMIT).splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise DeviceError(f"{file} of the GPU Operator can't be read: {error}") from error
    found: dict[str, Path] = {}
    for line in lines:
        name, _, text = line.strip().partition("=")
        path = Path(text.strip("\"'"))
        if name not in {"NVIDIA_DRIVER_ROOT", "NVIDIA_DEV_ROOT"}:
            continue
        if not path.is_absolute() or ".." in path.parts:
            raise DeviceError(f"{file} of the GPU Operator: {name}={text!r} is not an absolute path")
        found[name] = path
    return found
