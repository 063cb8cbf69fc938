"""AWS's Neuron device plugin, as far as it is known.

Its source is not public. aws-neuron/aws-neuron-sdk, page ``k8s-neuron-scheduler-flow.rst``, says in steps 9 to 11: the
kubelet calls Allocate, the plugin asks the pod's annotation for the ids, and exports the devices and visible cores.
HAMi's ``pkg/device/awsneuron/device.go`` names the annotations. Assumed here: the plugin serves the pod that was
scheduled first, gives each container the next ids of the list, and marks the pod when the list is used up.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS
from hami_core.tests.scheduler.hami_plugin import PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

NEURON, CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
IDS, TIME, ALLOCATED, KIND = "AWS_NEURON_IDS", "NEURON_ALLOC_TIME", "NEURON_ALLOCATED", "NEURON_RESOURCE_TYPE"


class NeuronPlugin:
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        devices: Number of devices.
        cores: Cores of each.
    """

    def __init__(self, api: KubeApi, node: str, devices: int, cores: int = 2) -> None:
        self._api = api
        self._node = node
        self._devices = devices
        self._cores = cores
        self.given: dict[str, list[int]] = {}
        """Pod → the ids that its containers have got."""
        self.refused: list[str] = []
        """Texts of failed calls."""
        self._turn = asyncio.Lock()

    @property
    def offers(self) -> tuple[Offer, Offer]:
        """Both resources, with an id for each device and for each core."""
        devices = [f"neuron{i}" for i in range(self._devices)]
        cores = [f"neuroncore{i}" for i in range(self._devices * self._cores)]
        return Offer(NEURON, devices, partial(self._allocate, NEURON)), Offer(
            CORE, cores, partial(self._allocate, CORE)
        )

    async def _allocate(self, resource: str, count: int) -> dict[str, str]:
        """Answer the kubelet. Of its ids only the number matters."""
        async with self._turn:
            try:
                pod = await self._candidate(resource)
                return await self._give(pod, resource, count)
            except PluginError as error:
                self.refused.append(str(error))
                raise

    async def _candidate(self, resource: str) -> Pod:
        """The waiting pod with ids of this kind that was scheduled first."""
        found = [
            pod
            for pod in (await self._api.list(PODS)).items
            if pod.spec.node_name == self._node
            and pod.status.phase == "Pending"
            and pod.metadata.annotations.get(ALLOCATED) == "false"
            and pod.metadata.annotations.get(KIND, NEURON) == resource
        ]
        if not found:
            raise PluginError(f"no pod waits for {resource}")
        return min(found, key=lambda pod: int(pod.metadata.annotations[TIME]))

    async def _give(self, pod: Pod, resource: str, count: int) -> dict[str, str]:
        ids = [int(text) for text in pod.metadata.annotations.get(IDS, "").split(",")]
        given = self.given.setdefault(pod.metadata.name, [])
        own = ids[len(given) : len(given) + count]
        most = self._devices * (self._cores if resource == CORE else 1)
        if len(own) < count or not all(0 <= one < most for one in own):
            raise PluginError(f"pod {pod.metadata.name}: {count} of {resource} asked for, and the ids are {ids}")
        given += own
        if len(given) == len(ids):
            patch = metadata_patch(annotations={ALLOCATED: "true"})
            await self._api.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)
        name = "NEURON_RT_VISIBLE_CORES" if resource == CORE else "AWS_NEURON_VISIBLE_DEVICES"
        return {name: ",".join(map(str, own))}
