"""Answers Allocate in `serial` mode, for the container that the kubelet most probably means.

The kubelet does not say which container it asks for. If pods are bound one at a time, it is the next container without
slots of the pod that was bound first. If the checkpoint later shows another container, its pod is evicted
(`hami_core.agent.serial`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from hami_core.agent.identity import Entry
from hami_core.agent.kubelet import Refused
from hami_core.agent.serial import CANDIDATE_WAIT_S, bound_at
from hami_core.errors import HamiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hami_core.agent.authority import Authority
    from hami_core.agent.identity import CheckpointReader
    from hami_core.agent.judge import Claim
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.proto import deviceplugin_pb2 as api
    from hami_core.agent.records import Record
    from hami_core.agent.serial import SerialFolders
    from hami_core.agent.vendor import Vendor
    from hami_core.kube.objects import Pod
    from hami_core.model import ContainerEdits

log = structlog.get_logger(__name__)

_POLL_S = 0.05


class SerialAllocate:
    """Answers Allocate, and remembers for which container until the checkpoint names it.

    Args:
        pods: This node's pods.
        authority: Reads and verifies allocations.
        reader: The kubelet's checkpoint.
        folders: The folders that Allocate mounts.
        vendors: Vendor by resource.
        record: Makes the record of a container, or raises `Refused`.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        pods: PodIndex,
        authority: Authority,
        reader: CheckpointReader,
        folders: SerialFolders,
        vendors: Mapping[str, Vendor],
        record: Callable[[Pod, Claim, Entry, str], Record],
        clock: Callable[[], float],
    ) -> None:
        self._pods = pods
        self._authority = authority
        self._reader = reader
        self._folders = folders
        self._vendors = vendors
        self._record = record
        self._clock = clock
        self._meant_for: dict[str, tuple[str, str, str]] = {}

    async def answer(self, name: str, resource: str, count: int) -> api.ContainerAllocateResponse:
        """The devices of the container that is probably meant, and an empty limits folder. Never fails."""
        vendor = self._vendors[resource]
        edits = None
        try:
            await asyncio.to_thread(self._folders.make, name)
            record = await self._find(name, resource, count)
            if record is not None:
                edits = await vendor.allocate(record.slices, record.ref)
        except (HamiError, OSError) as error:
            log.warning("Allocate can't give devices; the pod will be refused", error=str(error))
        return self._folders.response(name, edits, vendor.default_env)

    def forget(self, name: str) -> None:
        """Forget a name: the checkpoint has it, or never will."""
        self._meant_for.pop(name, None)

    def mismatch(self, record: Record, edits: ContainerEdits) -> str:
        """How the stored answer differs from what its container should have received; empty if it does not."""
        entry = next((e for e in self._reader.last.entries if self._folders.name_of(e) == record.name), None)
        return self._folders.mismatch(entry, record.name, edits) if entry else ""

    async def _find(self, name: str, resource: str, count: int) -> Record | None:
        deadline = self._clock() + CANDIDATE_WAIT_S
        while True:
            for pod in sorted(self._pods.all(), key=bound_at):
                record = None if pod.is_terminal or pod.is_deleting else self._record_for(pod, name, resource, count)
                if record is not None:
                    self._meant_for[name] = (record.pod_uid, record.container, resource)
                    return record
            if self._clock() >= deadline:
                return None
            await asyncio.sleep(_POLL_S)

    def _record_for(self, pod: Pod, name: str, resource: str, count: int) -> Record | None:
        """A record for the pod's first container that holds slices of the resource and has no slots yet."""
        taken = {(e.pod_uid, e.container, e.resource) for e in self._reader.last.entries} | set(
            self._meant_for.values()
        )
        words = self._vendors[resource].families_of(resource)
        try:
            claim = self._authority.claim(pod)
            for container in claim.containers:
                slices = [s for s in container.slices if s.family in words]
                if len(slices) == count and (pod.uid, container.name, resource) not in taken:
                    entry = Entry(pod.uid, container.name, resource, ("",) * count, ())
                    return self._record(pod, claim, entry, name)
        except Refused:
            return None
        return None
