"""Writes and removes the files of containers with devices.

The spec is written last, so that no container starts too early. Every step can be repeated, so after a crash all steps
simply run again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from hami_core.agent import cdi
from hami_core.agent.refusals import Refusal, key_of
from hami_core.errors import DeviceError, HamiError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from hami_core.agent.actions import Actions
    from hami_core.agent.cdi import SpecFolder
    from hami_core.agent.counters import Counters
    from hami_core.agent.identity import Entry
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import Record, RecordStore
    from hami_core.agent.refusals import Refusals
    from hami_core.agent.vendor import Vendor
    from hami_core.model import ContainerEdits

log = structlog.get_logger(__name__)

WRITERS: Final = 4
"""Number of containers whose files are written at the same time."""
SCAN_INTERVAL_S: Final = 5.0
"""Shortest interval between searches for files that belong to no record."""
RETRY_S: Final = 2.0
"""Pause after a failure, before the next attempt."""
LOAD_WAIT_S: Final = 30.0
"""How long the agent's start waits for specs to be written."""
STOP_WAIT_S: Final = 2.0
"""How long the agent's stop waits for files that are being written."""


class ContainerFiles:
    """Owns the records, and the limits, regions and specs that belong to them.

    Args:
        vendors: Vendor by name.
        store: The records' folder.
        specs: The CDI folder.
        pods: This node's pods.
        refusals: Receives a refusal when a container's files can't be written.
        mismatch: Returns how Allocate's answer in serial mode differs from what the container should get; empty if it
            does not differ.
        beside: Reads the checkpoint's entries of the container's other resources. There are none while it lacks the
            container.
        actions: Evicts pods.
        changed: Called after an attempt to write a container's files.
        wake: Requests another pass.
        boot_id: Identity of this boot. Specs of an earlier boot are written again.
        counters: Counts written specs.
        clock: Monotonic seconds.
        label: Gives files their SELinux labels; fails if a container could not read them.

    Attributes:
        records: Every record of a loaded vendor, by name.
        ready: Names whose containers may start.
    """

    def __init__(
        self,
        *,
        vendors: Mapping[str, Vendor],
        store: RecordStore,
        specs: SpecFolder,
        pods: PodIndex,
        refusals: Refusals,
        mismatch: Callable[[Record, ContainerEdits], str],
        beside: Callable[[Record], Sequence[Entry]],
        actions: Actions,
        changed: Callable[[], None],
        wake: Callable[[], None],
        boot_id: str,
        counters: Counters,
        clock: Callable[[], float],
        label: Callable[[Iterable[str | Path]], None],
    ) -> None:
        self.records: dict[str, Record] = {}
        self.ready: set[str] = set()
        self._vendors = vendors
        self._store = store
        self._specs = specs
        self._pods = pods
        self._refusals = refusals
        self._mismatch = mismatch
        self._beside = beside
        self._actions = actions
        self._changed = changed
        self._wake = wake
        self._boot_id = boot_id
        self._counters = counters
        self._clock = clock
        self._label = label
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._releasing: dict[str, asyncio.Task[None]] = {}
        self._released: set[str] = set()
        self._writers = asyncio.Semaphore(WRITERS)
        self._scan_due = float("-inf")

    async def load(self) -> None:
        """Load the records, and write every spec that is missing or of an earlier boot. Needs no API server."""
        self.records.update(await asyncio.to_thread(self._store.load))
        foreign = [name for name, record in self.records.items() if record.vendor not in self._vendors]
        for name in foreign:
            log.warning("ignoring a record whose vendor is not loaded", record=self.records.pop(name).id)
        present = await asyncio.to_thread(self._specs.names)
        try:
            shared = [path for record in self.records.values() for path in self._store.shared(record)]
            await asyncio.to_thread(self._label, shared)
        except DeviceError as error:
            log.warning("can't label the files of running containers", error=str(error))
        for name, record in self.records.items():
            if name in present and record.boot_id == self._boot_id and not record.gone and not record.serial:
                self.ready.add(name)
            elif not record.gone:
                self.write(record)
        if self._writing:
            await asyncio.wait(self._writing.values(), timeout=LOAD_WAIT_S)

    async def stop(self) -> None:
        """Wait for running writes, for two seconds at most. The next start writes what is still missing."""
        tasks = [*self._writing.values(), *self._removing.values(), *self._releasing.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_WAIT_S)
        for task in tasks:
            task.cancel()

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        """Begin to write a container's files, unless that has already begun, or its pod has ended."""
        if record.name in self._writing or record.gone or record.pod_uid in self._pods.ended:
            return
        task = asyncio.ensure_future(self._write(record))
        self._writing[record.name] = task
        task.add_done_callback(lambda _: self._written(record.name))

    def _written(self, name: str) -> None:
        self._writing.pop(name, None)
        self._changed()

    async def _write(self, record: Record) -> None:
        """Write the record, call the vendor, and write the other files. The spec that starts the container is last."""
        vendor = self._vendors[record.vendor]
        after_reboot = record.boot_id not in ("", self._boot_id)
        # A spec that an older agent wrote has no mark. It stays unchanged until the next boot.
        marked = not record.serial if after_reboot else record.marked
        fresh = msgspec.structs.replace(record, boot_id=self._boot_id, marked=marked)
        try:
            if after_reboot:  # a spec of an earlier boot must not start a container, whatever fails below
                await self._on_disk(self._specs.remove, record.name)
            await self._on_disk(self._store.write, record if record.boot_id else fresh)
            edits = await vendor.allocate(record.slices, record.ref)
            if record.serial and (problem := self._mismatch(record, edits)):
                self._refuse_and_evict(record, problem)
                return
            fresh = msgspec.structs.replace(fresh, mig_instances=edits.mig_instances)
            rewrite = after_reboot or fresh.mig_instances != record.mig_instances
            await self._on_disk(self._write_files, fresh, edits, vendor.kind, after_reboot, rewrite)
            # The other vendor's agent also writes first and then looks. So at least one of the two sees the conflict.
            if problem := await asyncio.to_thread(self._conflict, record, edits):
                await self._on_disk(self._specs.remove, record.name)
                raise DeviceError(problem)
        except (HamiError, OSError, ValueError) as error:
            text = f"its devices can't be prepared: {error}"
            self._refusals.set(key_of(record), Refusal(text, final=isinstance(error, HamiError)))
            log.warning("can't prepare a container's devices", record=record.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            return
        self.records[record.name] = fresh
        self.ready.add(record.name)
        self._refusals.clear(key_of(record))
        self._counters.specs_written += 1
        log.info("a container's devices are ready", pod=f"{record.namespace}/{record.pod}", container=record.container)

    def _conflict(self, record: Record, edits: ContainerEdits) -> str:
        """Which file another device plugin mounts at the same path of the container; empty if none does.

        Of two such mounts one is lost, perhaps the one that limits the container.
        """
        mounts = (*self._store.mounts(record, edits), *edits.mounts)
        own = {mount.container_path: mount.host_path for mount in mounts}
        for entry in self._beside(record):
            theirs = dict(entry.mounts)
            for name in cdi.names_in(entry.names):
                theirs |= self._specs.mounts(name)
            for path in sorted(own.keys() & theirs.keys()):
                if own[path] != theirs[path]:
                    return f"{record.resource} and {entry.resource} both mount a file at {path}"
        return ""

    def _refuse_and_evict(self, record: Record, problem: str) -> None:
        """Refuse a container that got an answer meant for another container, and evict its pod."""
        pod = self._pods.get(record.pod_uid)
        if pod is not None and not pod.is_deleting:
            text = f"container {record.container}: {problem}"
            self._refusals.set(key_of(record), Refusal(text, final=True))
            self._actions.evict(pod, text)

    async def _on_disk(self, work: Callable[..., None], *arguments: object) -> None:
        """Run a write in a thread, a few at a time: many threads would delay the event loop, which answers Allocate."""
        async with self._writers:
            await asyncio.to_thread(work, *arguments)

    def _write_files(self, record: Record, edits: ContainerEdits, kind: str, after_reboot: bool, rewrite: bool) -> None:
        # In serial mode the limits file is the barrier, so it is written after the region.
        if edits.region_path:
            self._store.write_region(record, edits.region, after_reboot=after_reboot)
        if edits.limits_path:
            self._store.write_limits(record, edits.limits)
        if rewrite:
            self._store.write(record)
        if record.marked:
            self._store.write_mark(record)
        self._label((*self._store.shared(record), *(mount.host_path for mount in edits.mounts)))
        if not record.serial:
            self._specs.write(record.name, cdi.spec(kind, record.name, edits, self._store.mounts(record, edits)))

    # --- removing ----------------------------------------------------------------------------------------------------

    async def clean(self, named: AbstractSet[str | None], uids: AbstractSet[str], given: Container[str]) -> None:
        """Remove the files of pods that neither the API server nor the kubelet has any more.

        A pod that has ended may stay in the API server for days, as those of Jobs do. Its files stay as long. What its
        vendor made is released at once, since the scheduler gives it to the next pod.

        Args:
            named: Names in the kubelet's checkpoint.
            uids: UIDs of the pods in the checkpoint.
            given: Given names that the checkpoint lacks and may still get.
        """
        self._released &= self.records.keys()
        if self._pods.synced:
            for name, record in self.records.items():
                busy = name in self._releasing or name in self._removing or name in self._writing
                if record.pod_uid in self._pods.ended and name not in self._released and not busy:
                    self._releasing[name] = asyncio.ensure_future(self._release(record))
                over = name not in named and record.pod_uid not in uids and self._pods.get(record.pod_uid) is None
                if (over or record.gone) and not busy and name not in self._releasing:
                    self._removing[name] = asyncio.ensure_future(self._remove(record))
        if self._clock() < self._scan_due:
            return
        self._scan_due = self._clock() + SCAN_INTERVAL_S
        await self._remove_strays(named, given)

    async def _remove_strays(self, named: AbstractSet[str | None], given: Container[str]) -> None:
        """Remove files that belong to no record. No start depends on this, so the folders are searched only rarely."""
        for name in await asyncio.to_thread(self._store.serial.names):
            if name not in named and name not in self.records and name not in given:
                await asyncio.to_thread(self._store.serial.remove, name)
        for kind in {vendor.kind for vendor in self._vendors.values()}:
            present = await asyncio.to_thread(self._specs.names_of, kind, frozenset(self.records))
            for name in present - named - set(self.records):
                log.warning("removing a CDI spec that belongs to no record", name=name)
                await asyncio.to_thread(self._specs.remove, name)

    async def _release(self, record: Record) -> None:
        """Call the vendor's ``release`` for a container whose pod has ended."""
        try:
            await self._vendors[record.vendor].release(record.ref)
            self._released.add(record.name)
        except HamiError as error:
            log.warning("can't release what an ended container had; retrying", record=record.id, error=str(error))
            await asyncio.sleep(RETRY_S)
        finally:
            self._releasing.pop(record.name, None)
        self._wake()

    async def _remove(self, record: Record) -> None:
        """Mark the record as gone, remove the spec, call the vendor's ``release``, then delete the record."""
        try:
            if not record.gone:
                record = msgspec.structs.replace(record, gone=True)
                await asyncio.to_thread(self._store.write, record)
                self.records[record.name] = record
            self.ready.discard(record.name)
            await asyncio.to_thread(self._specs.remove, record.name)
            await asyncio.to_thread(self._store.serial.remove, record.name)
            await self._vendors[record.vendor].release(record.ref)
            await asyncio.to_thread(self._store.remove, record.id)
            self.records.pop(record.name, None)
            log.info("a container's files are removed", record=record.id)
            self._wake()
        except (HamiError, OSError) as error:
            log.warning("can't remove a container's files; retrying", record=record.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            self._wake()
        finally:
            self._removing.pop(record.name, None)
