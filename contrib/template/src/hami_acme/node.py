"""The node side for Acme accelerators: finds devices, advertises them, gives out slices. Only the agent imports it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hami_core import Advertisement, ContainerEdits, Device, DeviceError, DeviceNode, HealthChange, hookimpl

from . import REGISTER_KEY, Acme, AcmeConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core import ContainerRef, Family, Slice

log = logging.getLogger(__name__)

SLOTS = 10
"""How many containers may share a device."""


class AcmeNode:
    """The node side. Hooks may block. Each may be called again at any time and must then give the same answer."""

    api_version = (1, 0)

    def __init__(self) -> None:
        self._sysfs = Path(os.environ.get("HAMI_ACME_SYSFS", "/sys/class/acme"))
        self._dev = Path(os.environ.get("HAMI_ACME_DEV", "/dev"))
        self._count = AcmeConfig().count

    @hookimpl
    def config_model(self) -> type[AcmeConfig]:
        """Name the same model as the scheduler side."""
        return AcmeConfig

    @hookimpl
    def families(self, config: AcmeConfig) -> list[Family]:
        """Serve what the scheduler side serves, and keep the resource name for `advertise`."""
        self._count = config.count
        return Acme().families(config)

    @hookimpl
    def discover(self) -> list[Device]:
        """Find one device for each of the driver's folders ``acme<index>``. A folder that can't be read is left out."""
        if not self._sysfs.is_dir():
            raise DeviceError(f"{self._sysfs} does not exist: is the acme driver loaded?")
        found = []
        for folder in sorted(self._sysfs.glob("acme[0-9]*")):
            try:
                found.append(_device(folder))
            except (OSError, ValueError) as error:
                log.warning("device %s is left out: %s", folder, error)
        return found

    @hookimpl
    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """Write HAMi's register annotation for the scheduler, and offer slots ``<uuid>-<k>`` to the kubelet."""
        register = [
            {
                "id": device.id,
                "index": device.index,
                "count": device.slots,
                "devmem": device.memory_mib,
                "devcore": device.cores,
                "type": device.type,
                "numa": device.numa,
                "health": device.healthy,
            }
            for device in devices
        ]
        slots = {f"{d.id}-{k}": (d.healthy, d.numa) for d in devices for k in range(d.slots)}
        return Advertisement(annotations={REGISTER_KEY: json.dumps(register)}, slots={self._count: slots})

    @hookimpl
    def health(self, devices: Sequence[Device]) -> list[HealthChange]:
        """Call a device unhealthy if its folder is gone."""
        there = {path.name for path in self._sysfs.glob("acme*")}
        return [HealthChange(device.id, f"acme{device.index}" in there) for device in devices]

    @hookimpl
    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """Give the slices' device nodes, and memory limits in the variable that Acme's runtime library reads."""
        index = {device.id: device.index for device in self.discover()}
        missing = [piece.device_id for piece in slices if piece.device_id not in index]
        if missing:
            raise DeviceError(f"container {container.container}: device {missing[0]} is not on this node")
        return ContainerEdits(
            env={"ACME_MEMORY_LIMITS_MIB": ",".join(str(piece.memory_mib) for piece in slices)},
            device_nodes=tuple(self._node(index[piece.device_id]) for piece in slices),
        )

    def _node(self, index: int) -> DeviceNode:
        """Return a device node: below /dev in the container, below HAMI_ACME_DEV on the node."""
        return DeviceNode(f"/dev/acme{index}", host_path=str(self._dev / f"acme{index}"))


def _device(folder: Path) -> Device:
    def read(name: str) -> str:
        return (folder / name).read_text("utf-8").strip()

    return Device(
        id=read("uuid"),
        index=int(folder.name.removeprefix("acme")),
        slots=SLOTS,
        memory_mib=int(read("memory_mib")),
        cores=100,
        type=read("model"),
        family="ACME",
        numa=int(read("numa_node")),
    )
