"""Moore Threads' device plugin for sGPU slices.

Its source is not public. This is the contract that HAMi v2.10 writes for it (``pkg/device/mthreads/device.go`` in
Project-HAMi/HAMi), with what public texts say of its node side: ``docs/installation/how-to-use-mthreads-s5000.md`` in
Project-HAMi/website names the offered resources and the variables in containers. ``cmd/fake-mthreads-device-plugin``
and ``cmd/device-injector`` in googs1025/fake-gpu-musa stand in for the plugin: three resources, an Allocate that
does not look at the ids, and cards out of the pod's annotation, the same for all of its containers.

How the plugin finds the pod of a call is not known. This one takes the pending pod of its node with the oldest
``predicate-time`` that has a container with this amount which was not served yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.kube.port import PODS
from hami_core.tests.scheduler.hami_plugin import PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

CORE, MEMORY = "mthreads.com/sgpu-core", "mthreads.com/sgpu-memory"
INDEX, TIME, NODE = "mthreads.com/gpu-index", "mthreads.com/predicate-time", "mthreads.com/predicate-node"
CARD_CORES = 16
VARIABLES = {CORE: "MTHREADS_ALLOCATED_SGPU_CORE_DEVICES", MEMORY: "MTHREADS_ALLOCATED_SGPU_MEMORY_DEVICES"}


class MthreadsPlugin:
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        cards: Numbers of the sliced cards.
        card_units: Memory of each in units of 512 MiB.
    """

    def __init__(self, api: KubeApi, node: str, cards: tuple[int, ...] = (0, 1), card_units: int = 96) -> None:
        self._api = api
        self._node = node
        self._cards = cards
        self._sizes = {CORE: CARD_CORES, MEMORY: card_units}
        self.refused: list[str] = []
        """Texts of failed calls."""
        self._served: dict[tuple[str, str, str], tuple[int, list[int]]] = {}
        """Pod, container, resource → amount and cards."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Core groups and memory, as ids without a card. There is no resource for the count."""
        return tuple(self._offer(resource) for resource in (CORE, MEMORY))

    def _offer(self, resource: str) -> Offer:
        async def allocate(ids: int) -> dict[str, str]:
            try:
                return await self._allocate(resource, ids)
            except PluginError as error:
                self.refused.append(str(error))
                raise

        return Offer(resource, [f"{resource}-{i}" for i in range(self._sizes[resource] * len(self._cards))], allocate)

    async def _allocate(self, resource: str, amount: int) -> dict[str, str]:
        pods = (await self._api.list(PODS)).items
        live = {pod.uid for pod in pods if not pod.is_terminal}
        self._served = {key: used for key, used in self._served.items() if key[0] in live}
        pod, container = self._asking(pods, resource, amount)
        cards = [int(text) for text in pod.metadata.annotations[INDEX].split(",")]
        if not set(cards) <= set(self._cards):
            raise PluginError(f"pod {pod.key}: cards {cards} are not all sliced here, which are {self._cards}")
        for card in cards:
            used = [n // len(on) for (_, _, what), (n, on) in self._served.items() if what == resource and card in on]
            if sum(used) + amount // len(cards) > self._sizes[resource]:
                raise PluginError(f"pod {pod.key}: card {card} has not enough {resource}")
        self._served[pod.uid, container, resource] = amount, cards
        return {"MTHREADS_VISIBLE_DEVICES": ",".join(map(str, cards)), VARIABLES[resource]: str(amount)}

    def _asking(self, pods: tuple[Pod, ...] | list[Pod], resource: str, amount: int) -> tuple[Pod, str]:
        """The pod and the name of its container that this call is for."""
        waiting = [
            pod
            for pod in pods
            if pod.spec.node_name == self._node == pod.metadata.annotations.get(NODE)
            and pod.status.phase == "Pending"
            and INDEX in pod.metadata.annotations
        ]
        for pod in sorted(waiting, key=lambda pod: int(pod.metadata.annotations[TIME])):
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                asks = int(str(container.resources.limits.get(resource, 0))) == amount
                if asks and (pod.uid, container.name, resource) not in self._served:
                    return pod, container.name
        raise PluginError(f"no pod waits for {amount} of {resource}")
