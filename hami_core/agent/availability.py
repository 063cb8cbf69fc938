"""How this agent stands with the kubelet, said on the node object, and the way it leaves.

The kubelet rejects for good a pod that it admits while the device plugin is away, and publishes that it is away only
seconds after the plugin's socket has closed. So the agent says so itself, in a label of the node by which the scheduler
goes: ``ready`` while every resource of a vendor is registered, ``unregistered`` while one is not, ``stopping`` before
the agent goes, which it does when the pods bound until then have been given their devices (`Availability.drain`). A
killed agent says nothing; the next one says ``unregistered`` until it is known to the kubelet.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.errors import WireError
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.agent.identity import CheckpointReader
    from hami_core.agent.kubelet import Endpoint
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.registration import NodeWriter
    from hami_core.agent.vendor import Vendor
    from hami_core.kube.objects import Pod

log = structlog.get_logger(__name__)

CHECKPOINT_WAIT_S: Final = 2.0
"""The kubelet writes its checkpoint when it has taken our list; one that does not is believed after so long."""
NODE_WRITE_WAIT_S: Final = 3.0
"""How long the node object may take to be written before the agent leaves without having told anybody."""
NO_POD_WAITING_S: Final = 3.0
"""For so long nobody may have waited: the writes of Binds begun before the scheduler saw the mark have arrived then."""
POLL_S: Final = 0.05


class Availability:
    """See the module's text.

    Args:
        vendors: Vendors served.
        endpoints: What is offered, by resource; looked at again each time.
        node: Writes the node object.
        pods: This node's pods.
        reader: The kubelet's checkpoint; nobody else's reader, since it remembers what it has read.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        vendors: Sequence[Vendor],
        endpoints: Mapping[str, Endpoint],
        node: NodeWriter,
        pods: PodIndex,
        reader: CheckpointReader,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vendors = vendors
        self._endpoints = endpoints
        self._node = node
        self._pods = pods
        self._reader = reader
        self._clock = clock
        self._resources = frozenset(r for vendor in vendors for r in vendor.resources)
        self._published: dict[str, str] = {}
        self._stamp_before_list = reader.stamp()
        self._stopping = self._publishing_stopped = False
        self.publish()

    # --- what is said ------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Say what is so now; to be called often, nothing is written twice."""
        for vendor in () if self._publishing_stopped else self._vendors:
            word = keys.AGENT_STOPPING if self._stopping else self._state(vendor)
            if self._published.get(vendor.name) != word:
                log.info("how the agent stands with the kubelet", vendor=vendor.name, word=word)
                self._published[vendor.name] = word
                self._node.want({}, {keys.agent_label(vendor.name): word})

    def stop_publishing(self) -> None:
        """Say nothing more: that the sockets close is no news."""
        self._publishing_stopped = True

    def _state(self, vendor: Vendor) -> str:
        mine = [endpoint for resource, endpoint in self._endpoints.items() if resource in vendor.resources]
        known = bool(mine) and all(self._is_known(endpoint) for endpoint in mine)
        return keys.AGENT_READY if known else keys.AGENT_UNREGISTERED

    def _is_known(self, endpoint: Endpoint) -> bool:
        """Whether the kubelet has taken our list: it has written its checkpoint since, or had time enough to."""
        listed = endpoint.listed_at
        if listed is None:
            self._stamp_before_list = self._reader.stamp()
            return False
        return self._reader.stamp() != self._stamp_before_list or self._clock() - listed >= CHECKPOINT_WAIT_S

    # --- leaving -----------------------------------------------------------------------------------------------------

    async def drain(self, limit_s: float) -> None:
        """Say that the agent goes, then wait until the pods bound until then have their devices.

        Args:
            limit_s: How long at most.
        """
        self._stopping = True
        self.publish()
        began = self._clock()
        while not self._node.is_current:
            if self._clock() - began >= min(limit_s, NODE_WRITE_WAIT_S):
                log.warning("nobody was told that the agent goes: the node object was not written in time")
                return
            await asyncio.sleep(POLL_S)
        none_waiting_since = self._clock()
        waiting: Sequence[Pod] = ()
        while self._clock() - began < limit_s:
            waiting = self._pods_without_devices()
            if waiting:
                none_waiting_since = self._clock()
            elif self._clock() - none_waiting_since >= NO_POD_WAITING_S or not self._has_kubelet():
                log.info("the pods bound here have their devices, the agent goes", waited_s=self._clock() - began)
                return
            await asyncio.sleep(POLL_S)
        if waiting:
            log.warning(
                "pods bound here have no devices yet, the agent goes all the same", pods=[p.key for p in waiting]
            )

    def _has_kubelet(self) -> bool:
        """Whether there is a kubelet that could still ask for devices."""
        return any(endpoint.watching for endpoint in self._endpoints.values())

    def _pods_without_devices(self) -> Sequence[Pod]:
        """Pods bound here that ask for our resources and whose containers have not all been given them."""
        try:
            entries = self._reader.read().entries
        except WireError:
            entries = self._reader.last.entries
        given = {(entry.pod_uid, entry.container, entry.resource) for entry in entries}
        return [pod for pod in self._pods.all() if self._may_need_devices(pod) and not self._wanted_slots(pod) <= given]

    def _may_need_devices(self, pod: Pod) -> bool:
        return pod.status.phase in {"", "Pending"} and not pod.is_deleting

    def _wanted_slots(self, pod: Pod) -> set[tuple[str, str, str]]:
        return {
            (pod.uid, container.name, resource)
            for _, container in pod.containers()
            for resource, amount in container.resources.limits.items()
            if resource in self._resources and str(amount) != "0"
        }
