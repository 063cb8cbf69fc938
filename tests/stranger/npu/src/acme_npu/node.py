"""The node side: cards are folders below ``HAMI_ACME_SYSFS``, device nodes are in ``HAMI_ACME_DEV``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from acme_npu import FAMILY, REGISTER_KEY, Acme
from hami_core import Advertisement, ContainerEdits, Device, DeviceError, DeviceNode, HealthChange, hookimpl


class AcmeNode:
    """Gives a container ``/dev/acmeN``, and the memory of each card in a variable."""

    api_version = (1, 0)

    def __init__(self):
        self._sysfs = Path(os.environ.get("HAMI_ACME_SYSFS", "/sys/class/acme"))
        self._dev = os.environ.get("HAMI_ACME_DEV", "/dev")

    @hookimpl
    def families(self, config):
        return Acme().families(config)

    @hookimpl
    def discover(self):
        if not self._sysfs.is_dir():
            raise DeviceError(f"{self._sysfs} does not exist: is the acme driver loaded?")
        return [
            Device(
                id=(card / "uuid").read_text().strip(),
                index=int(card.name.removeprefix("acme")),
                slots=4,
                memory_mib=int((card / "memory_mib").read_text()),
                cores=100,
                type=(card / "model").read_text().strip(),
                family=FAMILY.word,
            )
            for card in sorted(self._sysfs.glob("acme[0-9]*"))
        ]

    @hookimpl
    def advertise(self, devices):
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
        slots = {f"{device.id}-{k}": (device.healthy, device.numa) for device in devices for k in range(device.slots)}
        return Advertisement(annotations={REGISTER_KEY: json.dumps(register)}, slots={FAMILY.resources.count: slots})

    @hookimpl
    def health(self, devices):
        return [HealthChange(device.id, (self._sysfs / f"acme{device.index}").is_dir()) for device in devices]

    @hookimpl
    def allocate(self, slices, container):
        index = {device.id: device.index for device in self.discover()}
        return ContainerEdits(
            env={"ACME_SLICES": ",".join(f"{index[piece.device_id]}:{piece.memory_mib}" for piece in slices)},
            device_nodes=tuple(self._node(index[piece.device_id]) for piece in slices),
        )

    def _node(self, index):
        return DeviceNode(f"/dev/acme{index}", host_path=f"{self._dev}/acme{index}")
