"""Cambricon's device plugin in mode ``dynamic-smlu`` with ``--min-dsmlu-unit=256``.

Written after Cambricon/cambricon-k8s-device-plugin, ``device-plugin/pkg/mlu/{server,podutils,cambricon}.go`` and
``pkg/dsmlu/dsmlu.go``: the resources, the search for the pod, both calls of Allocate, the lock and the recycling.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

LOCK = "cambricon.com/dsmlu.lock"
ASSIGNED = "CAMBRICON_DSMLU_ASSIGHED"
"""Cambricon's spelling."""
PROFILE = "CAMBRICON_DSMLU_PROFILE"
INSTANCE = "CAMBRICON_DSMLU_PROFILE_INSTANCE"
VCORE, VMEMORY = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"


@dataclass(frozen=True)
class Instance:
    """An sMLU instance.

    Attributes:
        slot: Number of the card.
        cores: Percent of its cores.
        memory_mib: Its memory.
        number: Number of the instance on the card.
    """

    slot: int
    cores: int
    memory_mib: int
    number: int


class CambriconPlugin:
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        cards: How many cards it has.
        card_mib: Memory of each.
        unit_mib: MiB of one unit of memory.
    """

    def __init__(self, api: KubeApi, node: str, cards: int = 2, card_mib: int = 24576, unit_mib: int = 256) -> None:
        self._api = api
        self._node = node
        self._cards = cards
        self._card_mib = card_mib
        self._unit_mib = unit_mib
        self.instances: dict[str, Instance] = {}
        """Pod → its instance."""
        self.refused: list[str] = []
        """Texts of failed calls."""
        self.gate = asyncio.Event()
        """Calls of Allocate wait for it."""
        self.gate.set()
        self._prepared: dict[str, dict[str, str]] = {}
        self._turn = asyncio.Lock()

    @property
    def offers(self) -> tuple[Offer, Offer]:
        """Both resources: each card has 100 ids of cores, and one id for each unit of memory."""
        per_card = self._card_mib // self._unit_mib
        cores = [f"{slot}-vcore-{i}" for slot in range(self._cards) for i in range(100)]
        memory = [f"{slot}-vmemory-{i}" for slot in range(self._cards) for i in range(per_card)]
        return Offer(VCORE, cores, self._allocate), Offer(VMEMORY, memory, self._allocate)

    async def _allocate(self, ids: int) -> dict[str, str]:
        """Answer the kubelet. The ids and their number do not matter; the pod's annotations say what it gets."""
        del ids
        await self.gate.wait()
        async with self._turn:
            try:
                pod = await self._candidate()
                name = pod.metadata.name
                if name in self._prepared:
                    return await self._finish(pod)
                self._prepared = {name: self._create(pod)}
            except PluginError as error:
                self._prepared = {}
                self.refused.append(str(error))
                raise
            return self._prepared[name]

    async def _candidate(self) -> Pod:
        """The one pending pod of the node that waits for an sMLU."""
        found = [
            pod
            for pod in (await self._api.list(PODS)).items
            if pod.spec.node_name == self._node
            and pod.status.phase == "Pending"
            and pod.metadata.annotations.get(ASSIGNED) == "false"
            and _asking(pod)
        ]
        if len(found) > 1:
            raise PluginError("number of dynamic smlu candidate pods large than one")
        if not found:
            raise PluginError("no dynamic smlu candidate pod found")
        if _asking(found[0]) > 1:
            raise PluginError("number of containers of dynamic smlu candidate pod large than one")
        return found[0]

    def _create(self, pod: Pod) -> dict[str, str]:
        """Create the instance that the pod's profile describes: ``slot_vcore_vmemory``."""
        text = pod.metadata.annotations.get(PROFILE, "")
        try:
            slot, cores, units = (int(part) for part in text.split("_"))
        except ValueError:
            raise PluginError(f"invalid pod annotation {text}") from None
        others = [one for one in self.instances.values() if one.slot == slot]
        memory = units * self._unit_mib
        free = self._card_mib - sum(one.memory_mib for one in others), 100 - sum(one.cores for one in others)
        if not 0 <= slot < self._cards or not 0 < memory <= free[0] or not 0 < cores <= free[1]:
            raise PluginError(f"failed to create smlu profile {text}: free are {free}")
        number = next(i for i in range(1, 100) if i not in {one.number for one in others})
        self.instances[pod.metadata.name] = Instance(slot, cores, memory, number)
        return {"VIRTUAL_DEVICES": f"/dev/cambricon_dev{slot},/dev/cambricon_ipcm{slot},cap_dev{slot}_mi{number}"}

    async def _finish(self, pod: Pod) -> dict[str, str]:
        """Answer the second call of a pod, mark it and remove the node's lock, whoever holds it."""
        name, made = pod.metadata.name, self.instances[pod.metadata.name]
        instance = f"{made.number}_{made.number << 8 | made.slot}_{made.slot}_{made.number}"
        patch = metadata_patch(annotations={ASSIGNED: "true", INSTANCE: instance})
        await self._api.patch(PODS, name, patch, pod.metadata.namespace)
        await self._api.patch(NODES, self._node, metadata_patch(annotations={LOCK: None}))
        return self._prepared.pop(name)

    async def recycle(self) -> None:
        """Destroy the instances of pods that are gone. The real plugin does it on each deletion and every minute."""
        live = {pod.metadata.name for pod in (await self._api.list(PODS)).items if not pod.is_terminal}
        self.instances = {name: one for name, one in self.instances.items() if name in live}


def _asking(pod: Pod) -> int:
    """How many containers have amounts of cores or memory. Init containers do not count."""
    amounts = [[int(str(c.resources.limits.get(name, 0))) for name in (VCORE, VMEMORY)] for c in pod.spec.containers]
    return sum(any(one) for one in amounts)
