"""Iluvatar's gpu-manager as HAMi expects it. Its source is not public.

Written from HAMi's side of the contract (``pkg/device/iluvatar/device.go`` and ``docs/iluvatar-gpu-support.md`` in
Project-HAMi/HAMi) and from what its issue 1915 shows of a real node: the register, the lock and the lists of HAMi's
hand-off, and resources for cores and memory beside the count. Iluvatar's public plugin (Deep-Spark/ix-device-plugin)
gives out whole GPUs as ``iluvatar.com/gpu`` and knows nothing of HAMi.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES
from hami_core.tests.scheduler.hami_plugin import HamiPlugin
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.port import KubeApi

GPU_MIB, UNIT_MIB = 32768, 256
SLOTS: Final = 10
WHOLE_GPU: Final = 100


class GpuManager(HamiPlugin):
    """The gpu-manager of one node.

    Args:
        api: The API server.
        node: The node's name.
        chip: HAMi's word for its GPUs.
        gpus: How many it has.
    """

    def __init__(self, api: KubeApi, node: str, chip: str = "BI-V150", gpus: int = 2) -> None:
        super().__init__(api, node)
        self.to_allocate = f"hami.io/{chip}-devices-to-allocate"
        self.words = (chip,)
        self.counted: Counter[str] = Counter()
        """Resource → ids that the kubelet has given out."""
        self._chip = chip
        self._gpus = [f"GPU-{node}-{number}" for number in range(gpus)]
        self.count, self.cores, self.memory = (f"iluvatar.ai/{chip}{end}" for end in ("-vgpu", ".vCore", ".vMem"))

    async def register(self) -> None:
        """Write the node's annotations."""
        entries = [f"{gpu},{SLOTS},{GPU_MIB},{WHOLE_GPU},{self._chip},0,true:" for gpu in self._gpus]
        written = {
            f"hami.io/node-{self._chip}-register": "".join(entries),
            f"hami.io/node-handshake-{self._chip}": datetime.now(UTC).strftime("Reported_%Y-%m-%d %H:%M:%S"),
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offers(self) -> tuple[Offer, Offer, Offer]:
        """The three resources. Only the count's Allocate takes part in the hand-off."""
        return (
            self._offer(self.count, SLOTS),
            self._offer(self.cores, WHOLE_GPU),
            self._offer(self.memory, GPU_MIB // UNIT_MIB),
        )

    def _offer(self, resource: str, per_gpu: int) -> Offer:
        async def allocate(ids: int) -> dict[str, str]:
            self.counted[resource] += ids
            if resource != self.count:
                return {}
            devices = [device.split(",") for device in await self.allocate(ids)]
            return {
                "GPUS": ",".join(device[0] for device in devices),
                "PARTS": ",".join(f"{device[2]}/{device[3]}" for device in devices),
            }

        return Offer(resource, [f"{gpu}-{part}" for gpu in self._gpus for part in range(per_gpu)], allocate)
