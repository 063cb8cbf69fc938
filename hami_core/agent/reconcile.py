"""The agent's core: makes records and CDI specs agree with the kubelet's checkpoint and this node's pods.

It is level-triggered: a *pass* (`hami_core.agent.passes`) looks at everything and starts what is missing. There is no
journal beside the records: after a crash the next pass repairs what is incomplete. A name without a spec starts no
container, and a spec, once written, stays right for its container.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.agent import cdi
from hami_core.agent.container_files import ContainerFiles
from hami_core.agent.counters import Counters
from hami_core.agent.device_holders import DeviceHolders
from hami_core.agent.given_names import GivenNames
from hami_core.agent.judge import misfit
from hami_core.agent.kubelet import Refused
from hami_core.agent.passes import Passes
from hami_core.agent.prestart import PreStart
from hami_core.agent.promises import Promises
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.refusals import PREPARING, Key, Refusal, Refusals, key_of
from hami_core.agent.serial_allocate import SerialAllocate
from hami_core.errors import WireError
from hami_core.model import ContainerRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hami_core.agent.actions import Actions
    from hami_core.agent.authority import Authority
    from hami_core.agent.cdi import SpecFolder
    from hami_core.agent.identity import CheckpointReader, Entry
    from hami_core.agent.judge import Claim
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import Record, RecordStore
    from hami_core.agent.vendor import Vendor
    from hami_core.model import Device, MigInstance

log = structlog.get_logger(__name__)

_FOREIGN: Final = Refusal("another device plugin gave its slots; delete the pod to have it placed again", final=True)
_UNKNOWN: Final = Refusal("the agent does not see the pod among this node's pods yet", final=False)


class Reconciler:
    """See the module's text.

    Args:
        vendors: Vendors served by this agent.
        reader: The kubelet's checkpoint.
        store: The records.
        specs: The CDI folder.
        pods: This node's pods.
        authority: Reads and verifies allocations.
        actions: Writes events, deletes pods, and makes the kubelet act.
        boot_id: Identity of this boot. Specs of an earlier boot are written again.
        prestart_wait_s: How long PreStartContainer waits before it refuses.
        serial: Answer Allocate without CDI (`hami_core.agent.serial`).
        label: Gives files that containers mount their SELinux labels.
        clock: Monotonic seconds.
        now: Unix seconds.

    Attributes:
        devices: Every device of the node by id, as last discovered.
        counters: Totals for metrics.
        serial: Whether Allocate is now answered without CDI.
        checkpoint_problem: Why the kubelet's checkpoint can't be used; empty if it can.
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
        actions: Actions,
        boot_id: str,
        prestart_wait_s: float,
        serial: bool = False,
        label: Callable[[Iterable[str | Path]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = wall.unix,
    ) -> None:
        by_name = {vendor.name: vendor for vendor in vendors}
        self.devices: dict[str, Device] = {}
        self.counters = Counters()
        self.serial = serial
        self.checkpoint_problem = ""
        self._families_of = {vendor.name: vendor.families.keys() for vendor in by_name.values()}
        self._vendor_of_resource = {r: vendor for vendor in by_name.values() for r in vendor.resources}
        self._reader = reader
        self._store = store
        self._pods = pods
        self._authority = authority
        self._actions = actions
        self._last_checkpoint = reader.last
        self._passes = Passes(self._pass, clock)
        self._refusals = Refusals(actions)
        self._promises = Promises(
            vendors=self._vendor_of_resource,
            authority=authority,
            folders=store.serial,
            devices=self.devices,
            counters=self.counters,
            now=now,
        )
        self._serial_allocate = SerialAllocate(
            pods=pods,
            authority=authority,
            reader=reader,
            folders=store.serial,
            vendors=self._vendor_of_resource,
            record=lambda pod, claim, entry, name: self._promises.record(
                pod, claim, entry, name, self._holders.claims()
            ),
            clock=clock,
        )
        self._names = GivenNames(
            vendors=self._vendor_of_resource,
            folders=store.serial,
            pods=pods,
            nudge=actions.nudge,
            forgotten=self._serial_allocate.forget,
            counters=self.counters,
            clock=clock,
        )
        self._files = ContainerFiles(
            vendors=by_name,
            store=store,
            specs=specs,
            pods=pods,
            refusals=self._refusals,
            mismatch=self._serial_allocate.mismatch,
            beside=lambda record: reader.beside(lambda entry: self._names.of(entry) == record.name),
            actions=actions,
            changed=self._files_changed,
            wake=self.wake,
            boot_id=boot_id,
            counters=self.counters,
            clock=clock,
            label=label,
        )
        self._holders = DeviceHolders(
            records=self._files.records, pods=pods, authority=authority, name_of=self._names.of, clock=clock
        )
        self._prestart = PreStart(
            reader=reader,
            pods=pods,
            authority=authority,
            names=self._names,
            files=self._files,
            refusals=self._refusals,
            passes=self._passes,
            has_unseen_checkpoint=self._has_unseen_checkpoint,
            wait_s=prestart_wait_s,
            clock=clock,
        )

    @property
    def records(self) -> Mapping[str, Record]:
        """Every record by name."""
        return self._files.records

    def live(self, vendor: str) -> list[Record]:
        """Records of a vendor's containers whose pods have not ended.

        A record stays until the kubelet's checkpoint lacks the pod. That may take until the next pod is admitted.
        """
        mine = [record for record in self.records.values() if record.vendor == vendor and not record.gone]
        return [record for record in mine if not self._holders.is_over(record.pod_uid)]

    def adopted(self, vendor: str) -> dict[str, ContainerRef]:
        """Containers that HAMi's device plugin gave a vendor's devices to, by the names of its folders for them."""
        found: dict[str, ContainerRef] = {}
        for claim in self._holders.adopted:
            namespace, _, pod = claim.label.partition("/")
            for container in claim.containers:
                if any(piece.family in self._families_of[vendor] for piece in container.slices):
                    ref = ContainerRef(claim.uid, namespace, pod, container.name, container.kind)
                    found[f"{claim.uid}_{container.name}"] = ref
        return found

    def region_dir(self, record: Record) -> Path:
        """The host folder of a container's region."""
        return self._store.region_dir(record)

    # --- start, run --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the records, and write every spec that is missing or of an earlier boot. Needs no API server.

        Call this before registering with the kubelet, which starts containers as soon as we are registered.
        """
        await self._files.load()

    def wake(self) -> None:
        """Request another pass, because something changed."""
        self._passes.wake()

    def tick(self) -> None:
        """Request a pass if the checkpoint changed or some name or refusal is open. Cheap otherwise."""
        # PreStartContainer reads the checkpoint too. So even a checkpoint that is not stale may be new to the passes.
        unseen = self._reader.is_stale or self._has_unseen_checkpoint()
        if self._names or self._refusals or self.checkpoint_problem or unseen:
            self.wake()

    async def run(self) -> None:
        """Run a pass after each `wake`, until cancelled."""
        try:
            await self._passes.run()
        finally:
            await self._files.stop()

    def _has_unseen_checkpoint(self) -> bool:
        """Whether the checkpoint was read again since the last pass."""
        return self._reader.last is not self._last_checkpoint

    def _files_changed(self) -> None:
        self._passes.advance()
        self.wake()

    # --- the kubelet's calls -----------------------------------------------------------------------------------------

    async def allocate(self, resource: str, slot_ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Answer a fresh name from memory. Only `serial` mode decides and writes something here."""
        vendor = self._vendor_of_resource[resource]
        name = self._names.give(resource)
        self.counters.allocations += 1
        self._passes.delay()
        log.debug("allocate", resource=resource, slots=list(slot_ids), name=name)
        if self.serial:
            return await self._serial_allocate.answer(name, resource, len(slot_ids))
        response = api.ContainerAllocateResponse(envs=dict(vendor.default_env))
        response.cdi_devices.add(name=cdi.qualified(vendor.kind, name))
        return response

    async def prestart(self, resource: str, slot_ids: Sequence[str]) -> None:
        """Return once every live container with exactly these slots has its spec.

        Raises:
            Refused: A container may not start, or its spec is not ready in time.
        """
        self.counters.prestarts += 1
        try:
            await self._prestart.answer(resource, tuple(sorted(slot_ids)))
        except Refused:
            self.counters.refusals += 1
            raise

    # --- one pass ----------------------------------------------------------------------------------------------------

    async def pass_once(self) -> None:
        """Run one pass: start what is missing and remove what is no longer needed."""
        await self._passes.once()

    async def _pass(self) -> None:
        try:
            self._last_checkpoint = self._reader.read()
        except WireError as error:
            if str(error) != self.checkpoint_problem:
                log.warning("the kubelet's device checkpoint can't be used; no container can start", error=str(error))
            self.checkpoint_problem = str(error)
            return
        self.checkpoint_problem = ""
        entries = self._last_checkpoint.entries
        named = {self._names.of(entry) for entry in entries}
        self._names.compare(named, self.records, self._files.ready)
        self._holders.update(entries)
        self._resolve(entries)
        await self._files.clean(named, {entry.pod_uid for entry in entries}, self._names)

    def _resolve(self, entries: Sequence[Entry]) -> None:
        """Begin to write missing files for the containers in the checkpoint, or refuse the containers."""
        current: dict[Key, Refusal] = {}
        waiting: dict[str, list[tuple[Entry, str]]] = {}
        for entry in entries:
            key = key_of(entry)
            name = self._names.of(entry)
            pod = self._pods.get(entry.pod_uid)
            if name is None:
                if pod is not None and not self._authority.adopted(pod):
                    current[key] = _FOREIGN
            elif name in self._files.ready:
                self._refusals.end(entry, pod)
            elif name in self.records and (pod is None or not pod.is_terminal):
                self._files.write(self.records[name])
                current[key] = self._refusals.of(key) or PREPARING
            elif pod is None:
                current[key] = _UNKNOWN
            elif not pod.is_terminal:
                waiting.setdefault(pod.uid, []).append((entry, name))
        self._refusals.replace(current, entries)
        for claim in sorted(self._claims(waiting), key=lambda c: c.order):
            self._admit(claim, waiting[claim.uid])
        self._finish_binds(entries)
        self._tell_instances()

    def _claims(self, waiting: Mapping[str, Sequence[tuple[Entry, str]]]) -> list[Claim]:
        """The claims of waiting pods. Pods without a valid allocation are refused."""
        found: list[Claim] = []
        for uid, entries in waiting.items():
            pod = self._pods.get(uid)
            if pod is None:
                continue
            try:
                found.append(self._authority.claim(pod))
            except Refused as refusal:
                for entry, _ in entries:
                    self._refusals.set(key_of(entry), Refusal(str(refusal), final=True))
        return found

    def _admit(self, claim: Claim, entries: Sequence[tuple[Entry, str]]) -> None:
        """Make records for a pod's containers and begin to write their files, if the pod fits on its cards."""
        pod = self._pods.get(claim.uid)
        if pod is None:
            return
        holders = self._holders.claims()
        held = next((h for h in holders if h.uid == claim.uid), None)
        problem = ""
        if held is None:
            problem = misfit(claim, holders, self.devices)
        elif held.containers != claim.containers:
            problem = "its allocation changed after one of its containers was given devices"
        for entry, name in entries:
            key = key_of(entry)
            if problem:
                self._refusals.set(key, Refusal(problem, final=True))
                continue
            try:
                record = self._promises.record(pod, claim, entry, name, holders)
            except Refused as refusal:
                self._refusals.set(key, Refusal(str(refusal), final=True))
                continue
            self._files.records[name] = record
            self._refusals.set(key, PREPARING)
            self._files.write(record)
        if problem:
            self._actions.report_misfit(pod)

    def _finish_binds(self, entries: Sequence[Entry]) -> None:
        """Finish the Bind of pods for which the kubelet has asked for all containers, or never will."""
        given: dict[str, set[tuple[str, str]]] = {}
        for entry in entries:
            given.setdefault(entry.pod_uid, set()).add((entry.container, entry.resource))
        for pod in self._pods.all():
            if not self._actions.is_awaited(pod):
                continue
            wanted, is_known = self._promises.slot_users(pod)
            if pod.is_terminal or (wanted and wanted <= given.get(pod.uid, set())):
                found = (self._refusals.of((pod.uid, *place)) for place in wanted)
                refused = any(refusal is not None and refusal.final for refusal in found)
                self._actions.finish_bind(pod, well=is_known and not refused)

    def _tell_instances(self) -> None:
        """Have the ids of MIG instances written to the pods that lack them."""
        made: dict[str, dict[str, tuple[MigInstance, ...]]] = {}
        for record in self.records.values():
            if record.mig_instances and not record.gone:
                own = made.setdefault(record.pod_uid, {})
                own[record.container] = own.get(record.container, ()) + record.mig_instances
        for uid, of_containers in made.items():
            pod = self._pods.get(uid)
            if pod is not None and not pod.is_terminal:
                self._actions.tell_instances(pod, of_containers)
