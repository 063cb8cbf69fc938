"""MetaX's device plugin (``metax-gpu-device``) in its modes ``native`` and ``sgpu``.

Its source is not public. This is its contract as others show it:

- Project-HAMi/HAMi, ``pkg/device/metax/{protocol,sdevice}.go``: the register and the annotations
- koordinator-sh/koordinator, ``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go``: the plugin reads only
  ``gpu-devices-allocated``, and a lock keeps it from mixing up pods
- koordinator-sh/website, ``docs/user-manuals/device-scheduling-metax-gpu.md``: the kubelet is offered ``sgpu``, 16 for
  each card, and no amounts
- gpustack/gpustack-operator, the design of its MetaX allocator: all sGPUs of a card have one policy, ``METAX_SGPUS``

How the plugin finds the container that it is asked for is not known. Here it serves them in the pod's order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

GPU, SGPU = "metax-tech.com/gpu", "metax-tech.com/sgpu"
VMEMORY, VCORE = "metax-tech.com/vmemory", "metax-tech.com/vcore"
REGISTER = "metax-tech.com/node-gpu-devices"
ALLOCATED = "metax-tech.com/gpu-devices-allocated"
QOS, APP_CLASS = "metax-tech.com/sgpu-qos-policy", "metax-tech.com/sgpu-app-class"
SLOTS, CARD_MIB = 16, 65536


@dataclass(frozen=True)
class Part:
    """What a container has of a card: an sGPU, or with 100 % of compute the card itself."""

    pod: str
    card: str
    compute: int
    vram_mib: int
    policy: str


class MetaxPlugin(HamiPlugin):
    """The plugin of one node. Of HAMi's plugins it has the way to find its pod, and to end the lock.

    Args:
        api: The API server.
        node: The node's name.
        cards: How many cards it has.
        mode: ``sgpu`` or ``native``.
    """

    to_allocate = ALLOCATED

    def __init__(self, api: KubeApi, node: str, cards: int = 2, mode: str = "sgpu") -> None:
        super().__init__(api, node)
        self.cards = [f"GPU-{node}-{i}" for i in range(cards)]
        self._mode = mode
        self.parts: list[Part] = []
        self.refused: list[str] = []
        """Texts of failed calls."""
        self._served: dict[str, int] = {}

    @property
    def offer(self) -> Offer:
        """The resource of the mode."""
        if self._mode == "native":
            return Offer(GPU, self.cards, self._whole)
        return Offer(SGPU, [f"{card}-{i}" for card in self.cards for i in range(SLOTS)], self._answer)

    async def register(self, **changes: object) -> None:
        """Write the node's annotation: in mode ``sgpu`` the cards with what is free, else the topology.

        Args:
            changes: Entries to set on every card.
        """
        if self._mode == "native":
            rates = {str(n): 100 * n for n in range(1, len(self.cards) + 1)}
            written = {f"metax-tech.com/gpu.topology.{key}": json.dumps(rates) for key in ("losses", "scores")}
        else:
            written = {REGISTER: json.dumps([self._entry(card) | changes for card in self.cards])}
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    def _entry(self, card: str) -> dict[str, object]:
        there = [part for part in self.parts if part.card == card]
        entry = {
            "uuid": card,
            "model": "C500",
            "totalDevCount": SLOTS,
            "totalCompute": 100,
            "totalVRam": CARD_MIB,
            "availableDevCount": SLOTS - len(there),
            "availableCompute": 100 - sum(part.compute for part in there),
            "availableVRam": CARD_MIB - sum(part.vram_mib for part in there),
            "healthy": True,
            "qosPolicy": there[0].policy if there else "best-effort",
            "linkZone": 1,
        }
        return {key: value for key, value in entry.items() if value}

    async def _whole(self, ids: int) -> dict[str, str]:
        """Whole GPUs: the ids say which; the pod's annotations do not matter."""
        return {"GPUS": str(ids)}

    async def _answer(self, ids: int) -> dict[str, str]:
        try:
            pod = await self._pending_pod()
            made = [self._create(pod, entry) for entry in self._entries(pod, ids)]
        except PluginError as error:
            self.refused.append(str(error))
            raise
        await self.register()
        await self._end(pod)
        return {"METAX_SGPUS": ",".join(f"{part.card};{part.compute};{part.vram_mib}" for part in made)}

    def _entries(self, pod: Pod, ids: int) -> list[dict[str, Any]]:
        """The cards of the pod's next container that has some."""
        try:
            containers = [found for found in json.loads(pod.metadata.annotations[ALLOCATED]) if found]
        except (KeyError, ValueError):
            raise PluginError(f"pod {pod.metadata.name} has no {ALLOCATED}") from None
        position = self._served.get(pod.metadata.name, 0)
        if position >= len(containers) or len(containers[position]) != ids:
            raise PluginError("device number not matched")
        self._served[pod.metadata.name] = position + 1
        found: list[dict[str, Any]] = containers[position]
        return found

    def _create(self, pod: Pod, entry: dict[str, Any]) -> Part:
        """Make an sGPU as the driver allows it."""
        there = [part for part in self.parts if part.card == entry["uuid"]]
        is_online = pod.metadata.annotations.get(APP_CLASS) == "online"
        compute, vram = entry.get("compute", 0), entry.get("vRam", CARD_MIB)
        policy = pod.metadata.annotations.get(QOS, "best-effort")
        if entry["uuid"] not in self.cards or len(there) >= SLOTS:
            raise PluginError(f"no card {entry['uuid']} with a free sGPU")
        if sum(part.vram_mib for part in there) + vram > CARD_MIB or sum(p.compute for p in there) + compute > 100:
            raise PluginError(f"card {entry['uuid']} has not enough left")
        if not is_online and any(part.policy != policy for part in there):
            raise PluginError(f"sched_class of {entry['uuid']} can't change: sGPUs are in use")
        made = Part(pod.metadata.name, entry["uuid"], compute, vram, there[0].policy if there else policy)
        self.parts.append(made)
        return made

    async def _end(self, pod: Pod) -> None:
        """Remove the node's lock once every container with sGPUs has been served."""
        asking = [c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.resources.limits.get(SGPU)]
        if self._served[pod.metadata.name] == len(asking):
            await self._release(pod)

    async def recycle(self) -> None:
        """Remove the sGPUs of pods that are gone. The real plugin does it every 90 s."""
        live = {pod.metadata.name for pod in (await self.api.list(PODS)).items if not pod.is_terminal}
        self.parts = [part for part in self.parts if part.pod in live]
        await self.register()
