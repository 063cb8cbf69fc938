"""HAMi's Vastai device plugin, in full-card mode or with ``--device-strategy=die``.

Its source (Project-HAMi/vastai-device-plugin) is not among the public copies at hand. This is the contract that HAMi
writes for it and tests: ``pkg/device/vastai/device.go`` and ``device_test.go`` in Project-HAMi/HAMi have the register's
form, the annotations and the lock; ``docs/vastai-support.md`` has the options. The search for the pod is that of all of
HAMi's plugins (`hami_core.tests.scheduler.hami_plugin`). ``VASTAI_VISIBLE_DEVICES`` is the variable of Vastai's
container runtime, as Vastai/VastModelZOO uses it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

RESOURCE = "vastaitech.com/va"
REGISTER, HANDSHAKE = "hami.io/node-va-register", "hami.io/node-handshake-va"
TO_ALLOCATE, ALLOCATED = "hami.io/Vastai-devices-to-allocate", "hami.io/Vastai-devices-allocated"


class VastaiPlugin(HamiPlugin):
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        cards: Number of dies on each card.
        die: Whether each die is a device of its own.
        early: Whether a pod is finished at its first Allocate, as by HAMi's Ascend plugin. Which of both this plugin
            does is not known.
    """

    to_allocate = TO_ALLOCATE

    def __init__(
        self, api: KubeApi, node: str, cards: tuple[int, ...] = (1, 1), *, die: bool = False, early: bool = False
    ) -> None:
        super().__init__(api, node)
        self.words = () if early else ("Vastai",)
        places = [(card, number) for card, size in enumerate(cards) for number in range(size if die else 1)]
        self._cards = {f"{card}-{number}": card for card, number in places}
        self._die = die

    async def register(self) -> None:
        """Write the node's annotations."""
        devices: list[dict[str, Any]] = [
            {
                "id": name,
                **({"index": i} if i else {}),
                "count": 1,
                "devmem": 16384,
                "type": "Vastai",
                "health": True,
                **({"custominfo": {"AIC": str(card), "DeviceStrategy": "die"}} if self._die else {}),
                "devicepairscore": {},
            }
            for i, (name, card) in enumerate(self._cards.items())
        ]
        written = {
            REGISTER: json.dumps(devices),
            HANDSHAKE: datetime.now(UTC).strftime("Reported_%Y.%m.%d %H:%M:%S"),
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offer(self) -> Offer:
        """The resource, with one id for each device."""
        return Offer(RESOURCE, list(self._cards), self._answer)

    def check(self, pod: Pod, devices: list[str]) -> None:
        """Refuse devices that the node does not have."""
        for device in devices:
            if device.split(",")[0] not in self._cards:
                raise PluginError(f"pod {pod.key}: unknown device {device}")

    async def _answer(self, ids: int) -> dict[str, str]:
        devices = await self.allocate(ids)
        return {"VASTAI_VISIBLE_DEVICES": ",".join(device.split(",")[0] for device in devices)}
