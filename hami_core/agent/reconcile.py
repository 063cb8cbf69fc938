"""The agent's core: makes records and CDI specs agree with the kubelet's checkpoint and this node's pods.

Level-triggered: a *pass* looks at everything and starts what is missing, and is run again whenever something
changed. There is no journal beside the records, so a crash anywhere is answered by passing again. A name without a
spec starts nothing; a spec is right for its container for ever.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import structlog

from hami_core import clock as wall
from hami_core.agent import cdi
from hami_core.agent.answers import SerialAnswers
from hami_core.agent.judge import Claim, covering, is_whole, misfit
from hami_core.agent.kubelet import Refused, card_of
from hami_core.agent.pods import containers_of
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.records import Record
from hami_core.agent.serial import outranking
from hami_core.errors import HamiError, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hami_core.agent.authority import Authority
    from hami_core.agent.cdi import SpecFolder
    from hami_core.agent.identity import CheckpointReader, Entry
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import RecordStore
    from hami_core.agent.vendor import Vendor
    from hami_core.kube.objects import Pod
    from hami_core.model import ContainerEdits, Device

log = structlog.get_logger(__name__)

PRESTART_WAIT_S: Final = 5.0
NUDGE_AFTER_S: Final = 1.0
"""A name Allocate gave that the checkpoint lacks for so long: the kubelet is made to write it again."""
FORGET_AFTER_S: Final = 120.0
"""The kubelet did not admit the pod this name was for."""
ABSENT_S: Final = 30.0
"""How long a pod deleted by force keeps what it holds while the kubelet still lists it: its containers may run yet."""
LULL_S: Final = 0.02
"""Longest pause after a pass."""
WRITERS: Final = 4
"""Containers whose files are being written at once."""
LOOK_S: Final = 0.25
"""PreStartContainer looks again this often though nothing was heard."""
SCAN_S: Final = 5.0
"""Folders are searched for files that belong to nothing this often at most."""
RETRY_S: Final = 2.0
"""A vendor's failure is tried again this often."""


class Host(Protocol):
    """What a reconciler needs done outside the node's files."""

    def refused(self, pod: Pod, container: str, reason: str) -> None:
        """Tell a pod's owner; must not block."""
        ...

    def resolved(self, pod: Pod) -> None:
        """What a container was refused for is gone: make the kubelet try at once; must not block."""
        ...

    def misfitting(self, pod: Pod) -> None:
        """A pod does not fit on its cards; must not block."""
        ...

    def nudge(self, resource: str) -> None:
        """Make the kubelet write its checkpoint."""
        ...

    def evict(self, pod: Pod, why: str) -> None:
        """Delete a pod, telling why; must not block."""
        ...

    def is_awaited(self, pod: Pod) -> bool:
        """Whether a scheduler waits for a pod before it binds the next one."""
        ...

    def settled(self, pod: Pod, *, well: bool) -> None:
        """Every container of a pod was given its slots, well or not: nobody need wait for it; must not block."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a container may not start yet. ``final``: waiting a little does not help."""

    text: str
    final: bool


@dataclass(slots=True)
class Counters:
    """What the agent counts for its metrics."""

    allocations: int = 0
    prestarts: int = 0
    refusals: int = 0
    nudges: int = 0
    specs_written: int = 0
    slot_card_mismatches: int = 0
    lost_names: int = 0


_Key = tuple[str, str, str]


def _key(entry: Entry) -> _Key:
    return entry.pod_uid, entry.container, entry.resource


class Reconciler:
    """See the module's text.

    Args:
        vendors: Vendors served by this agent.
        reader: The kubelet's checkpoint.
        store: The records.
        specs: The CDI folder.
        pods: This node's pods.
        authority: Whose allocations count.
        host: Events, touches, nudges.
        boot_id: Identity of this boot; specs of another one are written again.
        prestart_wait_s: How long PreStartContainer waits before it refuses.
        serial: Answer without CDI (`hami_core.agent.serial`).
        clock: Monotonic seconds.
        now: Unix seconds.
    """

    def __init__(
        self,
        *,
        vendors: Iterable[Vendor],
        reader: CheckpointReader,
        store: RecordStore,
        specs: SpecFolder,
        pods: PodIndex,
        authority: Authority,
        host: Host,
        boot_id: str,
        prestart_wait_s: float = PRESTART_WAIT_S,
        serial: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = wall.unix,
    ) -> None:
        self.vendors = {vendor.name: vendor for vendor in vendors}
        self.devices: dict[str, Device] = {}
        """Every device of the node by id, as last discovered."""
        self.records: dict[str, Record] = {}
        self.counters = Counters()
        self.serial = serial
        self.checkpoint_problem = ""
        self._of_resource = {r: vendor for vendor in self.vendors.values() for r in vendor.resources}
        self._reader = reader
        self._store = store
        self._specs = specs
        self._pods = pods
        self._authority = authority
        self._host = host
        self._boot_id = boot_id
        self._prestart_wait_s = prestart_wait_s
        self._clock = clock
        self._now = now
        self._ready: set[str] = set()
        self._making: dict[str, asyncio.Task[None]] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._given: dict[str, tuple[str, float, float]] = {}
        self._refusals: dict[_Key, Refusal] = {}
        self._ended: set[str] = set()
        self._absent: dict[str, float] = {}
        self._adopted: dict[str, Claim] = {}
        self._unread: set[str] = set()
        self._told: dict[_Key, str] = {}
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._serial = SerialAnswers(
            pods=pods,
            authority=authority,
            reader=reader,
            folders=store.serial,
            vendors=self._of_resource,
            record=lambda pod, claim, entry, name: self._record(pod, claim, entry, name, self.holders()),
            clock=clock,
        )
        self._writers = asyncio.Semaphore(WRITERS)
        self._looked_at = reader.last
        self._scan_due = float("-inf")
        self._begun = 0
        self._done = 0

    # --- start, run --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the records and write every spec that is missing or of another boot; needs no API server.

        To be called before registering with the kubelet: it starts containers as soon as we are registered.
        """
        self.records = await asyncio.to_thread(self._store.load)
        foreign = [name for name, record in self.records.items() if record.vendor not in self.vendors]
        for name in foreign:
            log.warning("a record of a vendor that is not loaded is left alone", record=self.records.pop(name).id)
        present = await asyncio.to_thread(self._specs.names)
        for name, record in self.records.items():
            if name in present and record.boot_id == self._boot_id and not record.gone and not record.serial:
                self._ready.add(name)
            elif not record.gone:
                self._make(record)
        if self._making:
            await asyncio.wait(self._making.values(), timeout=30)

    def wake(self) -> None:
        """Something changed: pass again."""
        self._wake.set()

    def tick(self) -> None:
        """Pass again if the checkpoint changed or something is not settled; cheap when neither is so."""
        unseen = self._reader.is_stale or self._reader.last is not self._looked_at  # a starting container reads it too
        if self._given or self._refusals or self.checkpoint_problem or unseen:
            self._wake.set()

    async def run(self) -> None:
        """Pass whenever woken, until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                began = self._clock()
                try:
                    await self.pass_once()
                    # The kubelet's calls come first: a pass takes half of the time at most, and many wishes are one.
                    await asyncio.sleep(min(self._clock() - began, LULL_S))
                except Exception:
                    log.exception("a pass failed, it will be repeated")
                    await asyncio.sleep(0.2)
                    self._wake.set()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Let what is being written end, for two seconds at most; what is not written is written next time."""
        tasks = [*self._making.values(), *self._removing.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=2)
        for task in tasks:
            task.cancel()

    # --- what the kubelet asks ---------------------------------------------------------------------------------------

    async def allocate(self, resource: str, slot_ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """A fresh name, from memory; nothing is decided or written (but in `serial` mode)."""
        vendor = self._of_resource[resource]
        name = cdi.fresh_name()
        now = self._clock()
        self._given[name] = (resource, now, now + NUDGE_AFTER_S)
        self.counters.allocations += 1
        log.debug("allocate", resource=resource, slots=list(slot_ids), name=name)
        if self.serial:
            return await self._serial.answer(name, resource, len(slot_ids))
        response = api.ContainerAllocateResponse(envs=dict(vendor.default_env))
        response.cdi_devices.add(name=cdi.qualified(vendor.kind, name))
        return response

    def _name_of(self, entry: Entry) -> str | None:
        """The name a checkpoint entry carries, by CDI or by its limits mount."""
        kind = self._of_resource[entry.resource].kind
        return cdi.own_name(kind, entry.names) or self._store.serial.name_of(entry)

    async def prestart(self, resource: str, slot_ids: Sequence[str]) -> None:
        """Return when every live container with exactly these slots has its spec; raise `Refused` otherwise."""
        self.counters.prestarts += 1
        wanted = tuple(sorted(slot_ids))
        deadline = self._clock() + self._prestart_wait_s
        passes = self._begun
        while True:
            progress = self._progress
            refusal = self._verdict(resource, wanted)
            if refusal is None:
                return
            left = deadline - self._clock()
            # A pass begun before the call may have looked too early.
            if left <= 0 or (refusal.final and self._done > passes):
                break
            if self._done <= passes or self._reader.last is not self._looked_at:
                self._wake.set()  # else what is missing is on its way, and its end is progress too
            try:
                await asyncio.wait_for(progress.wait(), min(left, LOOK_S))
            except TimeoutError:
                self._wake.set()
        self.counters.refusals += 1
        self._tell(resource, wanted)
        raise Refused(refusal.text)

    def _verdict(self, resource: str, wanted: tuple[str, ...]) -> Refusal | None:
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
            refusal = self._unresolved(entry, pod)
            if refusal is not None and pod is not None:
                return refusal
            if refusal is not None:
                unknown = refusal
            elif pod is not None or not self._pods.synced:
                # Without the API server, after a reboot, what is on disk counts.
                ready = True
        if ready or any(self._holds(record, resource, wanted) for record in self.records.values()):
            return None
        return unknown or Refusal(
            f"the kubelet's device checkpoint does not say which container holds {', '.join(wanted)}", final=False
        )

    def _holds(self, record: Record, resource: str, wanted: tuple[str, ...]) -> bool:
        """Whether a container with exactly these slots is ready, though the checkpoint may have lost it again."""
        pod = self._pods.get(record.pod_uid)
        alive = pod is not None and not pod.is_terminal
        return alive and record.name in self._ready and record.resource == resource and record.slot_ids == wanted

    def _unresolved(self, entry: Entry, pod: Pod | None) -> Refusal | None:
        name = self._name_of(entry)
        if name is not None and name in self._ready:
            return None
        if name is None and pod is not None and self._authority.adopted(pod):
            return None
        waiting = Refusal("its devices are still being prepared", final=False)
        refusal = self._refusals.get(_key(entry), waiting)
        label = f"pod {pod.key if pod else 'with UID ' + entry.pod_uid}, container {entry.container}"
        return Refusal(f"{label}: {refusal.text}", refusal.final)

    def _tell(self, resource: str, wanted: tuple[str, ...]) -> None:
        for entry in self._reader.last.entries:
            pod = self._pods.get(entry.pod_uid)
            refusal = self._refusals.get(_key(entry))
            if pod is None or refusal is None or entry.resource != resource or entry.slot_ids != wanted:
                continue
            if self._told.get(_key(entry)) != refusal.text:
                self._told[_key(entry)] = refusal.text
                self._host.refused(pod, entry.container, refusal.text)

    def region_dir(self, record: Record) -> Path:
        """The host folder of a container's region."""
        return self._store.region_dir(record)

    # --- one pass ----------------------------------------------------------------------------------------------------

    async def pass_once(self) -> None:
        """Look at everything once: start what is missing, take away what is over."""
        self._begun += 1
        began = self._begun
        try:
            self._looked_at = self._reader.read()
            entries = self._looked_at.entries
            self.checkpoint_problem = ""
        except WireError as error:
            if str(error) != self.checkpoint_problem:
                log.warning(
                    "the kubelet's device checkpoint can't be used, no container will be started", error=str(error)
                )
            self.checkpoint_problem = str(error)
        else:
            self._see_names(entries)
            self._see_ends()
            self._see_adopted(entries)
            self._resolve(entries)
            await self._clean(entries)
        self._done = began
        self._advance()

    def _advance(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    def _see_names(self, entries: Sequence[Entry]) -> None:
        """Names we gave that the checkpoint lacks: make the kubelet write it again, later give them up.

        The kubelet may land an older copy last, so a name that was there can be missing again.
        """
        named = {self._name_of(e) for e in entries}
        now = self._clock()
        for name in self._given.keys() & named:
            del self._given[str(name)]
            self._serial.forget(str(name))
        for name in self._ready - named - self._given.keys():
            record = self.records.get(name)
            pod = record and self._pods.get(record.pod_uid)
            if record and pod and not pod.is_terminal and not pod.is_deleting:
                self._given[name] = (record.resource, now, now + NUDGE_AFTER_S)
        late = set()
        for name, (resource, given, due) in list(self._given.items()):
            if now - given > FORGET_AFTER_S:
                del self._given[name]
                self._serial.forget(name)
                self.counters.lost_names += name not in self.records
            elif now >= due:
                self._given[name] = (resource, given, now + 2 * (due - given))
                late.add(resource)
        for resource in late:
            self.counters.nudges += 1
            self._host.nudge(resource)

    def _see_ends(self) -> None:
        """Note which pods with records have ended, and since when others are not there any more."""
        uids = {record.pod_uid for record in self.records.values()}
        self._ended = {uid for uid in uids if uid in self._ended or uid in self._pods.ended}
        self._absent = {uid: since for uid, since in self._absent.items() if uid in uids}
        for uid in uids if self._pods.synced else ():
            pod = self._pods.get(uid)
            if pod is None:
                self._absent.setdefault(uid, self._clock())
            else:
                self._absent.pop(uid, None)

    def _see_adopted(self, entries: Sequence[Entry]) -> None:
        """Note what pods hold that another device plugin served before the migration: they have no records."""
        found: dict[str, Claim] = {}
        for entry in entries:
            pod = self._pods.get(entry.pod_uid)
            if pod is None or pod.is_terminal or pod.uid in found or self._name_of(entry) is not None:
                continue
            if not self._authority.adopted(pod):
                continue
            try:
                found[pod.uid] = self._authority.claim(pod)
            except Refused as refusal:
                if pod.uid not in self._unread:
                    log.warning("what a pod of before the migration holds is unknown", pod=pod.key, error=str(refusal))
                self._unread.add(pod.uid)
        self._adopted = found

    def _resolve(self, entries: Sequence[Entry]) -> None:
        current: dict[_Key, Refusal] = {}
        waiting: dict[str, list[tuple[Entry, str]]] = {}
        for entry in entries:
            name = self._name_of(entry)
            pod = self._pods.get(entry.pod_uid)
            if name is None:
                if pod is not None and not self._authority.adopted(pod):
                    current[_key(entry)] = Refusal(
                        "its slots were given by another device plugin; delete the pod to have it placed anew",
                        final=True,
                    )
            elif name in self._ready:
                self._settle(entry, pod)
            elif name in self.records:
                self._make(self.records[name])
                current[_key(entry)] = self._refusals.get(
                    _key(entry), Refusal("its devices are being prepared", final=False)
                )
            elif pod is None:
                current[_key(entry)] = Refusal("the pod is not among this node's pods (yet)", final=False)
            elif not pod.is_terminal:
                waiting.setdefault(pod.uid, []).append((entry, name))
        self._refusals = current
        keys = {_key(entry) for entry in entries}
        self._told = {key: text for key, text in self._told.items() if key in keys}
        for claim in sorted(self._claims(waiting), key=lambda c: c.order):
            self._admit(claim, waiting[claim.uid])
        self._see_complete(entries)

    def _see_complete(self, entries: Sequence[Entry]) -> None:
        """Tell of pods whose containers the kubelet has all asked for, or never will: the next one may be bound."""
        given: dict[str, set[tuple[str, str]]] = {}
        for entry in entries:
            given.setdefault(entry.pod_uid, set()).add((entry.container, entry.resource))
        for pod in self._pods.all():
            if not self._host.is_awaited(pod):
                continue
            wanted, is_known = self._wanted(pod)
            if pod.is_terminal or (wanted and wanted <= given.get(pod.uid, set())):
                found = (self._refusals.get((pod.uid, *place)) for place in wanted)
                refused = any(refusal is not None and refusal.final for refusal in found)
                self._host.settled(pod, well=is_known and not refused)

    def _wanted(self, pod: Pod) -> tuple[set[tuple[str, str]], bool]:
        """Containers of a pod that hold slices, with the resource; those that ask for them where that isn't known."""
        try:
            claim = self._authority.claim(pod)
        except Refused:
            named = [(name, resource) for name, _, spec in containers_of(pod) for resource in spec.resources.limits]
            return {(name, resource) for name, resource in named if resource in self._of_resource}, False
        held = {
            (container.name, resource)
            for container in claim.containers
            for resource, vendor in self._of_resource.items()
            if any(s.family in vendor.families_of(resource) for s in container.slices)
        }
        return held, True

    def _settle(self, entry: Entry, pod: Pod | None) -> None:
        if self._told.pop(_key(entry), None) is not None and pod is not None:
            self._host.resolved(pod)

    def _claims(self, waiting: Mapping[str, Sequence[tuple[Entry, str]]]) -> list[Claim]:
        """The claims of pods that wait; those that have none are refused."""
        found: list[Claim] = []
        for uid, entries in waiting.items():
            pod = self._pods.get(uid)
            if pod is None:
                continue
            try:
                found.append(self._authority.claim(pod))
            except Refused as refusal:
                for entry, _ in entries:
                    self._refusals[_key(entry)] = Refusal(str(refusal), final=True)
        return found

    def holders(self) -> list[Claim]:
        """The claims that hold: of every pod with a record, unless it has ended for good, and of adopted pods.

        The kubelet's checkpoint lists a pod that is gone until some other pod is admitted, so that alone holds nothing.
        """
        found = dict(self._adopted)
        now = self._clock()
        for record in self.records.values():
            if record.pod_uid in self._ended or now - self._absent.get(record.pod_uid, now) > ABSENT_S:
                continue
            label = f"{record.namespace}/{record.pod}"
            found[record.pod_uid] = Claim(record.pod_uid, label, record.pod_slices, record.epoch, record.signature)
        return list(found.values())

    def _admit(self, claim: Claim, entries: Sequence[tuple[Entry, str]]) -> None:
        pod = self._pods.get(claim.uid)
        if pod is None:
            return
        holders = self.holders()
        held = next((h for h in holders if h.uid == claim.uid), None)
        problem = ""
        if held is None:
            problem = misfit(claim, holders, self.devices)
        elif held.containers != claim.containers:
            problem = "its allocation changed after one of its containers was given devices"
        for entry, name in entries:
            if problem:
                self._refusals[_key(entry)] = Refusal(problem, final=True)
                continue
            try:
                record = self._record(pod, claim, entry, name, holders)
            except Refused as refusal:
                self._refusals[_key(entry)] = Refusal(str(refusal), final=True)
                continue
            self.records[name] = record
            self._refusals[_key(entry)] = Refusal("its devices are being prepared", final=False)
            self._make(record)
        if problem:
            self._host.misfitting(pod)

    def _record(self, pod: Pod, claim: Claim, entry: Entry, name: str, holders: Sequence[Claim]) -> Record:
        vendor = self._of_resource[entry.resource]
        words = vendor.families_of(entry.resource)
        found = [
            (kind, spec, own)
            for (cname, kind, spec), own in zip(containers_of(pod), claim.containers, strict=True)
            if cname == entry.container
        ]
        if not found:
            raise Refused(f"the pod has no container {entry.container}")
        kind, spec, own = found[0]
        if spec.is_privileged:
            raise Refused("it is privileged and would see every device: take securityContext.privileged away")
        serial = self.serial if not entry.names and not entry.mounts else self._store.serial.name_of(entry) == name
        if serial and (names := outranking(spec, vendor.default_env)):
            raise Refused(
                f"its variable {names[0]} would win over the agent's, since the runtime has no CDI: take it out of env"
            )
        if path := covering(spec):
            raise Refused(f"it mounts a volume at {path}, over files that limit it: mount the volume elsewhere")
        slices = tuple(s for s in own.slices if s.family in words)
        if len(slices) != len(entry.slot_ids):
            raise Refused(
                f"the kubelet gave it {len(entry.slot_ids)} slots of {entry.resource}, its allocation has {len(slices)}"
            )
        if all(entry.slot_ids) and sorted(card_of(slot) for slot in entry.slot_ids) != sorted(
            s.device_id for s in slices
        ):
            self.counters.slot_card_mismatches += 1
        declared = {key for word in words for key in vendor.families[word].pod_keys}
        return Record(
            name=name,
            vendor=vendor.name,
            resource=entry.resource,
            pod_uid=pod.uid,
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            container=entry.container,
            kind=kind,
            slot_ids=entry.slot_ids,
            slices=slices,
            pod_slices=claim.containers,
            epoch=claim.epoch,
            signature=claim.signature,
            # Without a spec as barrier an empty limits folder must deny, so there is always an interposer.
            whole=not serial and is_whole(slices, claim, holders, self.devices),
            limits={key: str(value) for key, value in {**spec.resources.requests, **spec.resources.limits}.items()},
            annotations={k: v for k, v in pod.metadata.annotations.items() if k in declared},
            created=self._now(),
            serial=serial,
            marked=not serial,
        )

    # --- writing one container's files -------------------------------------------------------------------------------

    def _make(self, record: Record) -> None:
        if record.name in self._making or record.gone:
            return
        task = asyncio.ensure_future(self._write(record))
        self._making[record.name] = task
        task.add_done_callback(lambda _: self._made(record.name))

    def _made(self, name: str) -> None:
        self._making.pop(name, None)
        self._advance()
        self._wake.set()

    async def _write(self, record: Record) -> None:
        """Record, then what the vendor sets up, then limits and region, then the spec that lets it start."""
        key = (record.pod_uid, record.container, record.resource)
        vendor = self.vendors[record.vendor]
        anew = record.boot_id not in ("", self._boot_id)
        # The spec of an older agent has no mark, and stays as it is until the node boots again.
        marked = not record.serial if anew else record.marked
        fresh = msgspec.structs.replace(record, boot_id=self._boot_id, marked=marked)
        try:
            if anew:  # what stands there is of another boot and must start nothing, whatever happens next
                await self._on_disk(self._specs.remove, record.name)
            await self._on_disk(self._store.write, record if record.boot_id else fresh)
            edits = await vendor.allocate(record.slices, record.ref)
            if record.serial and self._mismatched(record, edits):
                return
            await self._on_disk(self._write_files, fresh, edits, vendor.kind, anew)
        except (HamiError, OSError, ValueError) as error:
            text = f"its devices can't be prepared: {error}"
            self._refusals[key] = Refusal(text, final=isinstance(error, HamiError))
            log.warning("a container's devices can't be prepared", record=record.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            return
        self.records[record.name] = fresh
        self._ready.add(record.name)
        self._refusals.pop(key, None)
        self.counters.specs_written += 1
        log.info("a container's devices are ready", pod=f"{record.namespace}/{record.pod}", container=record.container)

    def _mismatched(self, record: Record, edits: ContainerEdits) -> bool:
        """Whether the container was answered for another one at Allocate; then its pod has to go."""
        entry = next((e for e in self._reader.last.entries if self._name_of(e) == record.name), None)
        problem = self._store.serial.mismatch(entry, record.name, edits) if entry else ""
        pod = self._pods.get(record.pod_uid)
        if problem and pod is not None and not pod.is_deleting:
            text = f"container {record.container}: {problem}"
            self._refusals[record.pod_uid, record.container, record.resource] = Refusal(text, final=True)
            self._host.evict(pod, text)
        return bool(problem)

    async def _on_disk(self, work: Callable[..., None], *arguments: object) -> None:
        """Write in a thread, few at a time: the kubelet waits in Allocate for the loop, and threads take it turns."""
        async with self._writers:
            await asyncio.to_thread(work, *arguments)

    def _write_files(self, record: Record, edits: ContainerEdits, kind: str, anew: bool) -> None:
        # In serial mode the limits file is what lets the container take anything, so it comes last.
        if edits.region_path:
            self._store.write_region(record, edits.region, anew=anew)
        if edits.limits_path:
            self._store.write_limits(record, edits.limits)
        if anew:
            self._store.write(record)
        if record.marked:
            self._store.write_mark(record)
        if not record.serial:
            self._specs.write(record.name, cdi.spec(kind, record.name, edits, self._store.mounts(record, edits)))

    # --- taking away -------------------------------------------------------------------------------------------------

    async def _clean(self, entries: Sequence[Entry]) -> None:
        """Remove what belongs to pods that neither the API server nor the kubelet has any more."""
        named = {self._name_of(e) for e in entries}
        uids = {e.pod_uid for e in entries}
        if self._pods.synced:
            for name, record in self.records.items():
                over = name not in named and record.pod_uid not in uids and self._pods.get(record.pod_uid) is None
                if (over or record.gone) and name not in self._removing and name not in self._making:
                    self._removing[name] = asyncio.ensure_future(self._remove(record))
        if self._clock() < self._scan_due:
            return
        self._scan_due = self._clock() + SCAN_S
        await self._remove_strays(named)

    async def _remove_strays(self, named: set[str | None]) -> None:
        """Remove files that belong to no record; folders are read now and then, since a start waits for no one."""
        for name in await asyncio.to_thread(self._store.serial.names):
            if name not in named and name not in self.records and name not in self._given:
                await asyncio.to_thread(self._store.serial.remove, name)
        for kind in {vendor.kind for vendor in self.vendors.values()}:
            present = await asyncio.to_thread(self._specs.names_of, kind, frozenset(self.records))
            for name in present - named - set(self.records):
                log.warning("a CDI spec that belongs to nothing is removed", name=name)
                await asyncio.to_thread(self._specs.remove, name)

    async def _remove(self, record: Record) -> None:
        """Mark it gone, take the spec away, let the vendor take back, delete: each step may be repeated."""
        try:
            if not record.gone:
                record = msgspec.structs.replace(record, gone=True)
                await asyncio.to_thread(self._store.write, record)
                self.records[record.name] = record
            self._ready.discard(record.name)
            await asyncio.to_thread(self._specs.remove, record.name)
            await asyncio.to_thread(self._store.serial.remove, record.name)
            await self.vendors[record.vendor].release(record.ref)
            await asyncio.to_thread(self._store.remove, record.id)
            self.records.pop(record.name, None)
            log.info("a container's files are removed", record=record.id)
            self._wake.set()
        except (HamiError, OSError) as error:
            log.warning("what a container held can't be taken back, tried again", record=record.id, error=str(error))
            await asyncio.sleep(RETRY_S)
            self._wake.set()
        finally:
            self._removing.pop(record.name, None)
