"""HAMi's Ascend device plugin for one chip.

Written after Project-HAMi/ascend-device-plugin, ``internal/server/{server,register}.go`` and
``internal/manager/manager.go``: its annotations on the node, and Allocate. The search for the pod and the node lock are
those of all of HAMi's plugins (`hami_core.tests.scheduler.hami_plugin`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    import asyncio

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

WORD = "Ascend910B3"
RESOURCE, MEMORY, CORES = f"huawei.com/{WORD}", f"huawei.com/{WORD}-memory", f"huawei.com/{WORD}-core"
TO_ALLOCATE = f"hami.io/{WORD}-devices-to-allocate"
MEMORY_MIB, AI_CORES, SMALLEST_MIB = 65536, 20, 16384


class AscendPlugin(HamiPlugin):
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        cards: How many NPUs it has.
        soft: Whether it shares NPUs in software (``hamiVnpuCore``).
    """

    to_allocate = TO_ALLOCATE
    words = ()  # the real plugin never fills HAMi's list: it finishes a pod at its first Allocate

    def __init__(self, api: KubeApi, node: str, cards: int = 2, *, soft: bool = False) -> None:
        super().__init__(api, node)
        self._uuids = [f"DIE-{node}-{i}" for i in range(cards)]
        self._soft = soft
        self._runtime: dict[str, dict[str, str | int]] = {}
        self.gates: dict[int, asyncio.Event] = {}
        """Number of a call of Allocate, from 0 → what it waits for."""
        self._calls = count()

    async def register(self) -> None:
        """Write the node's annotations, as the real plugin does every 30 s."""
        devices = [
            {
                "id": uuid,
                **({"index": i} if i else {}),
                "count": MEMORY_MIB // SMALLEST_MIB,
                "devmem": MEMORY_MIB,
                "devcore": 100 if self._soft else AI_CORES,
                "type": WORD,
                "health": True,
                "custominfo": {"NetworkID": 1 if i > 3 else 0},
            }
            for i, uuid in enumerate(self._uuids)
        ]
        written = {
            f"hami.io/node-register-{WORD}": json.dumps(devices),
            f"hami.io/node-handshake-{WORD}": datetime.now(UTC).strftime("Reported_%Y.%m.%d %H:%M:%S"),
            "hami-vnpu-core": "true" if self._soft else "false",
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offer(self) -> Offer:
        """The resource: as many ids for each NPU as its smallest vNPUs."""
        ids = [f"{uuid}-{i}" for uuid in self._uuids for i in range(MEMORY_MIB // SMALLEST_MIB)]
        return Offer(RESOURCE, ids, self._answer)

    def check(self, pod: Pod, devices: list[str]) -> None:
        """Find the container's devices in the list for the runtime. Of two entries for one NPU, the last one wins."""
        try:
            entries = json.loads(pod.metadata.annotations[RESOURCE])
        except (KeyError, ValueError):
            raise PluginError("annotation for the runtime is missing or invalid") from None
        self._runtime = {entry["UUID"]: entry for entry in entries}
        for device in devices:
            if device.split(",")[0] not in self._uuids:
                raise PluginError(f"unknown device {device}")

    async def _answer(self, ids: int) -> dict[str, str]:
        if gate := self.gates.get(next(self._calls)):
            await gate.wait()
        pod = await self._pending_pod()
        devices = [device.split(",") for device in await self.allocate(ids)]
        env = {"ASCEND_VISIBLE_DEVICES": ",".join(str(self._uuids.index(device[0])) for device in devices)}
        if pod.metadata.annotations.get("huawei.com/vnpu-mode") == "hami-core":
            return env | {"NPU_MEM_QUOTA": devices[0][2], "NPU_PRIORITY": devices[0][3]}
        sizes = [str(self._runtime[device[0]].get("temp", "")) for device in devices]
        return env | {"ASCEND_VNPU_SPECS": next(filter(None, sizes), "")}
