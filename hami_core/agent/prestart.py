"""Answers the kubelet's PreStartContainer: it succeeds once the container's spec exists, else it gives the reason."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hami_core.agent.kubelet import Refused
from hami_core.agent.refusals import Refusal, key_of
from hami_core.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.agent.authority import Authority
    from hami_core.agent.container_files import ContainerFiles
    from hami_core.agent.given_names import GivenNames
    from hami_core.agent.identity import CheckpointReader, Entry
    from hami_core.agent.passes import Passes
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import Record
    from hami_core.agent.refusals import Refusals
    from hami_core.kube.objects import Pod

POLL_S: Final = 0.25
"""Interval at which a waiting call checks again without being woken."""


class PreStart:
    """Waits for all containers that a call may mean, since the kubelet names slots and not the container.

    Args:
        reader: The kubelet's checkpoint.
        pods: This node's pods.
        authority: Knows which pods were adopted.
        names: Finds the fresh name in a checkpoint entry.
        files: Has the records, and knows which of them are ready.
        refusals: Knows why containers may not start.
        passes: Provides the progress that a call waits for.
        has_unseen_checkpoint: Whether the checkpoint was read again since the last pass.
        wait_s: How long a call waits before it refuses.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        reader: CheckpointReader,
        pods: PodIndex,
        authority: Authority,
        names: GivenNames,
        files: ContainerFiles,
        refusals: Refusals,
        passes: Passes,
        has_unseen_checkpoint: Callable[[], bool],
        wait_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._pods = pods
        self._authority = authority
        self._names = names
        self._files = files
        self._refusals = refusals
        self._passes = passes
        self._has_unseen_checkpoint = has_unseen_checkpoint
        self._wait_s = wait_s
        self._clock = clock

    async def answer(self, resource: str, wanted: tuple[str, ...]) -> None:
        """Return once every live container with exactly these slots has its spec.

        Args:
            resource: Extended resource.
            wanted: Slot ids, sorted.

        Raises:
            Refused: A container has no spec, and waiting did not help.
        """
        deadline = self._clock() + self._wait_s
        begun = self._passes.begun
        while True:
            progress = self._passes.progress
            refusal = self._refusal(resource, wanted)
            if refusal is None:
                return
            left = deadline - self._clock()
            # A pass that began before the call may have seen an older state.
            if left <= 0 or (refusal.final and self._passes.done > begun):
                break
            if self._passes.done <= begun or self._has_unseen_checkpoint():
                self._passes.wake(urgent=True)  # otherwise the missing files are being written, which ends in progress
            try:
                await asyncio.wait_for(progress.wait(), min(left, POLL_S))
            except TimeoutError:
                self._passes.wake(urgent=True)
        self._report(resource, wanted)
        raise Refused(refusal.text)

    def _refusal(self, resource: str, wanted: tuple[str, ...]) -> Refusal | None:
        """Why a container that holds exactly these slots may not start, or None."""
        try:
            checkpoint = self._reader.read()
        except WireError as error:
            return Refusal(f"the kubelet's device checkpoint can't be used: {error}", final=False)
        entries = [e for e in checkpoint.entries if e.resource == resource and e.slot_ids == wanted]
        ready = False
        unknown: Refusal | None = None
        for entry in entries:
            pod = self._pods.get(entry.pod_uid)
            if pod is not None and pod.is_terminal:
                continue
            refusal = self._refusal_of(entry, pod)
            if refusal is not None and pod is not None:
                return refusal
            if refusal is not None:
                unknown = refusal
            elif pod is not None or not self._pods.synced:
                # After a reboot without the API server, the files on disk decide.
                ready = True
        if ready or any(self._is_ready(record, resource, wanted) for record in self._files.records.values()):
            return None
        return unknown or Refusal(
            f"the kubelet's device checkpoint does not say which container holds {', '.join(wanted)}", final=False
        )

    def _is_ready(self, record: Record, resource: str, wanted: tuple[str, ...]) -> bool:
        """Whether the record's container has these slots and is ready, even if the checkpoint lost it again."""
        pod = self._pods.get(record.pod_uid)
        alive = pod is not None and not pod.is_terminal
        return alive and record.name in self._files.ready and record.resource == resource and record.slot_ids == wanted

    def _refusal_of(self, entry: Entry, pod: Pod | None) -> Refusal | None:
        name = self._names.of(entry)
        if name is not None and name in self._files.ready:
            return None
        if name is None and pod is not None and self._authority.adopted(pod):
            return None
        refusal = self._refusals.of(key_of(entry)) or Refusal("its devices are still being prepared", final=False)
        label = f"pod {pod.key if pod else 'with UID ' + entry.pod_uid}, container {entry.container}"
        return Refusal(f"{label}: {refusal.text}", refusal.final)

    def _report(self, resource: str, wanted: tuple[str, ...]) -> None:
        for entry in self._reader.last.entries:
            pod = self._pods.get(entry.pod_uid)
            if pod is not None and entry.resource == resource and entry.slot_ids == wanted:
                self._refusals.report(entry, pod)
