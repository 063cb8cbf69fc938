"""Devices of other drivers that containers with a card may need: GPUDirect Storage, MOFED, GDRCopy, IMEX channels.

Paths are those of NVIDIA's container toolkit (``internal/discover``) and of its device plugin (``internal/imex``).
They are looked up for each container, since their drivers may be loaded late. As with NVIDIA's plugin, a kind of which
the node has no device is left out; the log says so once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import DeviceError, Mount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core import ContainerEdits, DeviceNode
    from hami_nvidia.driver_places import Places
    from hami_nvidia.settings import NodeSettings

log = structlog.get_logger(__name__)

_IMEX: Final = "nvidia-caps-imex-channels/channel{}"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of devices.

    Attributes:
        name: Its name, for the log.
        devices: Patterns below ``/dev``.
        files: Files and folders that containers also get if there is such a device.
    """

    name: str
    devices: tuple[str, ...]
    files: tuple[str, ...] = ()


_GDS: Final = _Kind("GPUDirect Storage (GDS)", ("nvidia-fs*",), ("/run/udev", "/etc/cufile.json"))
_MOFED: Final = _Kind("MOFED", ("infiniband/uverbs*", "infiniband/rdma_cm"))
_GDRCOPY: Final = _Kind("GDRCopy", ("gdrdrv",))


class ExtraDevices:
    """Adds the devices that the node's settings ask for to the edits of containers.

    Args:
        settings: The node's settings.
    """

    def __init__(self, settings: NodeSettings) -> None:
        wanted = ((_GDS, settings.gds), (_MOFED, settings.mofed), (_GDRCOPY, settings.gdrcopy))
        self._kinds = [kind for kind, enabled in wanted if enabled]
        self._channels = settings.imex_channel_ids
        self._required = settings.imex_required
        self._missing: frozenset[str] = frozenset()
        if self._required and not self._channels:
            log.warning("IMEX_REQUIRED has no effect without IMEX_CHANNEL_IDS=[0]")

    def not_offered(self, places: Places) -> str:
        """Why no card of this node is offered: an IMEX channel is required and missing. Empty: they may be."""
        missing = [number for number in self._channels if self._channel(number, places) is None]
        if not self._required or not missing:
            return ""
        return f"IMEX_REQUIRED is set and {_missing_channel(missing[0])}"

    def add(self, edits: ContainerEdits, places: Places) -> ContainerEdits:
        """The edits of a container with these devices.

        Raises:
            DeviceError: A required IMEX channel is missing.
        """
        problem = self.not_offered(places)
        if problem:
            raise DeviceError(problem)
        nodes: list[DeviceNode] = []
        mounts: list[Mount] = []
        missing: set[str] = set()
        for kind in self._kinds:
            found = [places.host_dev.node(n) for p in kind.devices for n in places.host_dev.character_devices(p)]
            nodes += found
            if not found:
                missing.add(f"{kind.name}: no device {' or '.join(f'/dev/{pattern}' for pattern in kind.devices)}")
                continue
            for path in kind.files:
                mounts += list(_mount(path, places))
                if not any(mount.container_path == path for mount in mounts):
                    missing.add(f"{kind.name}: no {path} below the driver's root or the host's /")
        for number in self._channels:
            channel = self._channel(number, places)
            if channel is None:
                missing.add(_missing_channel(number))
            else:
                nodes.append(channel)
        self._report(frozenset(missing))
        given = {node.path for node in edits.device_nodes}, {mount.container_path for mount in edits.mounts}
        return replace(
            edits,
            device_nodes=(*edits.device_nodes, *(node for node in nodes if node.path not in given[0])),
            mounts=(*edits.mounts, *(mount for mount in mounts if mount.container_path not in given[1])),
        )

    def _channel(self, number: int, places: Places) -> DeviceNode | None:
        name = _IMEX.format(number)
        folders = (folder for folder in (places.dev, places.host_dev) if folder.character_devices(name))
        return next((folder.node(name) for folder in folders), None)

    def _report(self, missing: frozenset[str]) -> None:
        for each in sorted(missing - self._missing):
            log.warning("containers get no such device until the node has it", missing=each)
        self._missing = missing


def _missing_channel(number: int) -> str:
    return f"IMEX channel {number} is missing: no device /dev/{_IMEX.format(number)}"


def _mount(path: str, places: Places) -> Iterator[Mount]:
    """The mount of a file that lies below the driver's root or, if this process sees it, below the host's."""
    for root in (places.root, places.host):
        if root is None:
            continue
        real = root.follow(Path(path).relative_to("/"))
        if (root.here / real).exists():
            yield Mount(str(root.host / real), path)
            return
