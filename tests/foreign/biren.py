"""HAMi's device plugin for Biren cards.

Written after Project-HAMi/biren-device-plugin, ``pkg/brgpu/{plugin,register,runc}.go`` and ``pkg/utils/util.go``: the
register, the search for the pod, the list of a pod's cards, and the end of the hand-off. Its published versions consume
different lists, so the list is an argument.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from hami_core.wire import keys
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

COUNT = "birentech.com/gpu"
ALLOCATED, TO_ALLOCATE = "hami.io/Biren-devices-allocated", "hami.io/Biren-devices-to-allocate"
MEMORY_MIB = 32256


class BirenPlugin(HamiPlugin):
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        consumes: The pod annotation from which it takes the cards, container by container.
        cards: How many cards it has.
    """

    def __init__(self, api: KubeApi, node: str, consumes: str, cards: int = 4) -> None:
        super().__init__(api, node)
        self._list = consumes
        self._cards = [f"card_{i}" for i in range(cards)]
        self.lost: set[str] = set()
        """Registered cards that the driver no longer shows."""
        self.refused: list[str] = []
        """Texts of failed calls."""

    async def register(self) -> None:
        """Write the node's annotations, as the real plugin does when it starts. Its time has a wrong layout."""
        devices = [
            {
                "id": card,
                **({"index": i} if i else {}),
                "count": 1,
                "devmem": MEMORY_MIB,
                "type": "Biren104P",
                "health": True,
            }
            for i, card in enumerate(self._cards)
        ]
        written = {
            "hami.io/node-biren-register": json.dumps(devices),
            "hami.io/node-handshake-biren": "Reported_27226.11.27 09:00:00",
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offer(self) -> Offer:
        """The resource: the cards themselves."""
        return Offer(COUNT, self._cards, self._answer)

    async def _answer(self, ids: int) -> dict[str, str]:
        pod = await self._pending_pod()
        try:
            cards, rest = self._next(pod, ids)
        except PluginError as error:
            self.refused.append(str(error))
            raise  # the real plugin leaves the lock, because the list still names cards
        await self._annotate(pod, {self._list: rest, keys.BIND_PHASE: keys.PHASE_SUCCESS})
        if "," not in rest:
            await self._release(pod)
        return {"BR_PHY_CARDS": ",".join(cards)}

    def _next(self, pod: Pod, ids: int) -> tuple[list[str], str]:
        """The next container's cards and the list without them. The plugin drops empty containers as it reads."""
        lists = [piece for piece in pod.metadata.annotations.get(self._list, "").split(";") if "," in piece]
        if not lists:
            raise PluginError("device request not found")
        cards = [device.split(",")[0] for device in lists[0].split(":") if device]
        if len(cards) != ids:
            raise PluginError("device number not matched")
        if unknown := [card for card in cards if card not in self._cards or card in self.lost]:
            raise PluginError(f"invalid allocation request: unknown device {unknown[0]}")
        return cards, ";" + "".join(f"{piece};" for piece in lists[1:])
