"""Publishes the availability label on the node, and drains the agent before it exits.

If the kubelet admits a pod while the device plugin is away, it rejects the pod for good. It shows the plugin's absence
on the node only seconds after the socket closed. So the agent publishes a label itself, which the scheduler obeys:

- ``ready``: every resource of the vendor is registered with the kubelet.
- ``unregistered``: some resource is not.
- ``stopping``: the agent is about to exit. It exits when all pods bound so far have their devices
  (`Availability.drain`).

A killed agent can't change its label. The next agent publishes ``unregistered`` until the kubelet knows it.
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
"""How long to wait for the kubelet to write its checkpoint, which shows that it has our list.

After this time we assume that it has the list.
"""
NODE_WRITE_WAIT_S: Final = 3.0
"""How long a stopping agent waits for its label to be written. After that it exits without draining."""
NO_POD_WAITING_S: Final = 3.0
"""How long no pod may have been waiting for devices before the agent exits.

By then every Bind that began before the scheduler saw the label has been written.
"""
POLL_S: Final = 0.05


class Availability:
    """Publishes the availability label of each vendor; see the module's description.

    Args:
        vendors: The vendors that this agent serves.
        endpoints: Endpoints by resource. The caller adds to this mapping later.
        node: Writes the node object.
        pods: This node's pods.
        reader: The kubelet's checkpoint. The reader must not be shared, since it remembers what it has read.
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

    # --- the label ---------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish the current state. Call this often; an unchanged state is not written again."""
        for vendor in () if self._publishing_stopped else self._vendors:
            word = keys.AGENT_STOPPING if self._stopping else self._state(vendor)
            if self._published.get(vendor.name) != word:
                log.info("availability changed", vendor=vendor.name, word=word)
                self._published[vendor.name] = word
                self._node.want({}, {keys.agent_label(vendor.name): word})

    def stop_publishing(self) -> None:
        """Keep the label as it is from now on, so that closing the sockets does not change it."""
        self._publishing_stopped = True

    def _state(self, vendor: Vendor) -> str:
        mine = [endpoint for resource, endpoint in self._endpoints.items() if resource in vendor.resources]
        known = bool(mine) and all(self._is_known(endpoint) for endpoint in mine)
        return keys.AGENT_READY if known else keys.AGENT_UNREGISTERED

    def _is_known(self, endpoint: Endpoint) -> bool:
        """Whether the kubelet has our list: it wrote its checkpoint after we sent it, or had enough time to."""
        listed = endpoint.listed_at
        if listed is None:
            self._stamp_before_list = self._reader.stamp()
            return False
        return self._reader.stamp() != self._stamp_before_list or self._clock() - listed >= CHECKPOINT_WAIT_S

    # --- draining ----------------------------------------------------------------------------------------------------

    async def drain(self, limit_s: float) -> None:
        """Publish ``stopping``, then wait until all pods bound so far have their devices.

        Args:
            limit_s: Longest time to wait.
        """
        self._stopping = True
        self.publish()
        began = self._clock()
        while not self._node.is_current:
            if self._clock() - began >= min(limit_s, NODE_WRITE_WAIT_S):
                log.warning("the agent stops without its label: the node object was not written in time")
                return
            await asyncio.sleep(POLL_S)
        none_waiting_since = self._clock()
        waiting: Sequence[Pod] = ()
        while self._clock() - began < limit_s:
            waiting = self._pods_without_devices()
            if waiting:
                none_waiting_since = self._clock()
            elif self._clock() - none_waiting_since >= NO_POD_WAITING_S or not self._has_kubelet():
                log.info("all pods bound here have their devices; stopping", waited_s=self._clock() - began)
                return
            await asyncio.sleep(POLL_S)
        if waiting:
            log.warning("stopping although pods bound here have no devices yet", pods=[p.key for p in waiting])

    def _has_kubelet(self) -> bool:
        """Whether a kubelet is connected that could still ask for devices."""
        return any(endpoint.watching for endpoint in self._endpoints.values())

    def _pods_without_devices(self) -> Sequence[Pod]:
        """Pods bound here that request our resources, and of which some container has no slots yet."""
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
