"""The device plugins of Kunlunxin (whole cards) and of RiseUnion (vXPU).

The source of neither is public. `XpuPlugin` is what HAMi expects of Kunlunxin's plugin (Project-HAMi/HAMi,
``pkg/device/kunlun/device.go``): it reads one pod annotation with the indexes of the cards, and knows no lock. It
passes the cards on in the variable of Kunlunxin's container toolkit. `VxpuPlugin` follows HAMi's protocol
(`hami_core.tests.scheduler.hami_plugin`). Its sizes and the limit of the driver are those of the same repository's
``docs/kunlunxin-support_cn.md``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from hami_core.wire import keys
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

XPU, VXPU, VMEMORY = "kunlunxin.com/xpu", "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"
INDEXES = "BAIDU_COM_DEVICE_IDX"
VISIBLE = "CXPU_VISIBLE_DEVICES"
QUARTER, HALF, CARD = 24576, 49152, 98304
CARDS = 8
HANDLES = 32


class XpuPlugin:
    """Kunlunxin's plugin on one node.

    Args:
        api: The API server.
        node: The node's name.
    """

    def __init__(self, api: KubeApi, node: str) -> None:
        self._api = api
        self._node = node
        self.given: dict[str, list[int]] = {}
        """Pod → indexes of its cards."""
        self.refused: list[str] = []
        """Texts of failed calls."""

    @property
    def offer(self) -> Offer:
        """The resource. The kubelet's choice among the ids does not matter."""
        return Offer(XPU, [str(index) for index in range(CARDS)], self._allocate)

    async def _allocate(self, ids: int) -> dict[str, str]:
        """Answer the kubelet: the cards that one of the node's pods names."""
        try:
            name, cards = await self._waiting(ids)
        except PluginError as error:
            self.refused.append(str(error))
            raise
        self.given[name] = cards
        return {VISIBLE: ",".join(map(str, cards))}

    async def _waiting(self, ids: int) -> tuple[str, list[int]]:
        """The pod that has waited longest of those that name as many cards as the kubelet asks for, and its cards."""
        pods = [pod for pod in (await self._api.list(PODS)).items if pod.spec.node_name == self._node]
        live = {pod.metadata.name for pod in pods if not pod.is_terminal}
        self.given = {name: cards for name, cards in self.given.items() if name in live}
        waiting = [pod for pod in pods if pod.status.phase == "Pending" and pod.metadata.name not in self.given]
        named = {pod.metadata.name: _indexes(pod) for pod in sorted(waiting, key=_bound_at)}
        name = next((name for name, cards in named.items() if len(cards) == ids), None)
        if name is None:
            raise PluginError(f"no pod waits for {ids} cards: {named}")
        free = set(range(CARDS)) - {card for cards in self.given.values() for card in cards}
        if not set(named[name]) <= free:
            raise PluginError(f"{name}: cards {named[name]} are not free")
        return name, named[name]


def _indexes(pod: Pod) -> list[int]:
    return [int(text) for text in pod.metadata.annotations.get(INDEXES, "").split(",") if text]


def _bound_at(pod: Pod) -> str:
    return pod.metadata.annotations.get(keys.BIND_TIME, "")


class VxpuPlugin(HamiPlugin):
    """RiseUnion's plugin on one node.

    Args:
        api: The API server.
        node: The node's name.
    """

    to_allocate = "hami.io/xpu-devices-to-allocate"
    words = ("XPU",)

    def __init__(self, api: KubeApi, node: str) -> None:
        super().__init__(api, node)
        self._ids = [f"{bus:02x}-00.0" for bus in range(0x50, 0x50 + CARDS)]
        self.parts: dict[str, list[int]] = {device: [] for device in self._ids}
        """Card → MiB of the vXPUs made on it. This plugin never removes one."""

    async def register(self) -> None:
        """Write the node's annotations, as all plugins of HAMi's protocol do every 30 s."""
        devices = [
            {"id": device, "index": i, "count": 4, "devmem": CARD, "devcore": 100, "type": "XPU", "health": True}
            for i, device in enumerate(self._ids)
        ]
        written = {
            "hami.io/node-register-xpu": json.dumps(devices),
            "hami.io/node-handshake-xpu": datetime.now(UTC).strftime("Reported_%Y.%m.%d %H:%M:%S"),
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offer(self) -> Offer:
        """The resource: four ids for each card."""
        return Offer(VXPU, [f"{device}-{i}" for device in self._ids for i in range(4)], self._answer)

    def check(self, pod: Pod, devices: list[str]) -> None:
        """Make the vXPUs: a card has parts of one size, and the driver a handle for each card and each part."""
        for device in devices:
            name, _, memory, _ = device.split(",")
            made = self.parts[name]
            made.append(int(memory))
            parts = sum(size < CARD for sizes in self.parts.values() for size in sizes)
            if set(made) not in ({QUARTER}, {HALF}, {CARD}) or sum(made) > CARD or parts + CARDS > HANDLES:
                raise PluginError(f"{pod.metadata.name}: no vXPU of {memory} MiB on {name}: {self.parts}")

    async def _answer(self, ids: int) -> dict[str, str]:
        devices = [device.split(",") for device in await self.allocate(ids)]
        return {VISIBLE: ",".join(f"{self._ids.index(name)}:{memory}" for name, _, memory, _ in devices)}
