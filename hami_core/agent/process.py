"""The agent process: wiring and lifecycle.

Listens first, so that probes answer; then devices are discovered, records of containers that live are made good, and
only then the kubelet is told, since it starts containers as soon as we are registered. On SIGTERM it says on the node
that it goes, waits for pods on their way to it, stops serving the kubelet, ends what is being written and goes; running
containers do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from hami_core._version import __version__
from hami_core.agent.authority import Authority, Mode, Policy
from hami_core.agent.cdi import SpecFolder
from hami_core.agent.handoff import Handoff
from hami_core.agent.health import HealthBook
from hami_core.agent.identity import CheckpointReader
from hami_core.agent.instruments import Instruments
from hami_core.agent.keyfiles import KeyFiles
from hami_core.agent.kubelet import Endpoint, KubeletLink
from hami_core.agent.metrics import AgentMetrics
from hami_core.agent.notes import PodNotes
from hami_core.agent.pods import PodIndex
from hami_core.agent.proof import Prover, container_id
from hami_core.agent.reconcile import Reconciler
from hami_core.agent.records import RecordStore
from hami_core.agent.registration import NodeWriter
from hami_core.agent.serial import LearntMode
from hami_core.agent.standing import Standing
from hami_core.agent.vendor import Vendor
from hami_core.agent.watch import watch_folder
from hami_core.errors import ConfigError, HamiError
from hami_core.http.health import Health
from hami_core.http.metrics import no_token
from hami_core.http.serve import Listener, Server
from hami_core.http.token import TokenFile
from hami_core.kube.events import EventRecorder
from hami_core.kube.informer import Backoff, Informer
from hami_core.kube.lease import LeaseElector
from hami_core.kube.objects import ObjectReference
from hami_core.kube.port import PODS
from hami_core.model import HealthChange
from hami_core.observe.metrics import build_info
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from typing import Any

    from hami_core.agent.records import Record
    from hami_core.agent.vendor import NodeVendor
    from hami_core.kube.objects import Node
    from hami_core.kube.port import KubeApi
    from hami_core.model import ContainerRef, Device
    from hami_core.plugins import Loaded
    from hami_core.settings import AgentSettings

log = structlog.get_logger(__name__)

M_MMAP_THRESHOLD: Final = -3
LARGE_BUFFER: Final = 1 << 20
LEASE_S: Final = 40
"""How long the node's liveness Lease lasts; renewed four times within that."""
DISAGREEMENT_S: Final = 30.0
"""The kubelet's allocatable differs from what we offer for so long: register anew."""
REDISCOVER_S: Final = 60.0
"""Devices are discovered anew this often without cause."""
SUSPECT_S: Final = 1.0
"""A device whose health is unsettled is looked at this often."""
WORKERS_END_S: Final = 2.0
"""How long hooks under way may take when everything else has ended."""
TEND_S: Final = 5.0
"""Vendors look after running containers this often (the period of HAMi v2.10's monitor)."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the process is told, settings resolved.

    Attributes:
        node: This node's name.
        plugin_dir: The kubelet's device-plugin folder.
        cdi_dir: Where CDI specs go.
        state_dir: Where records go; must outlive a reboot.
        policy: Which allocations count.
        signing_keys: Keys they are verified with.
        boot_id: Identity of this boot.
        listen: Address of metrics and health; empty: nowhere.
        token: Says which bearer token a scrape of the metrics needs; empty: none.
        prestart_wait_s: How long PreStartContainer waits.
        reconcile_s: How often everything is compared without cause.
        health_s: How often devices' health is asked for.
        drain_s: How long calls under way may take at the end.
        handover_s: How long the agent waits, before it goes, for pods bound here to be given their devices; 0: not.
        lease_namespace: Namespace of the liveness Lease; empty: none is kept.
        serial: Serve a runtime without CDI.
        serial_when_needed: Switch to that where CDI is seen not to work.
        evict_unlimited: Delete pods that run without the limits they were given.
        proc_dir: The node's ``/proc`` as seen from here.
    """

    node: str
    plugin_dir: Path
    cdi_dir: Path
    state_dir: Path
    policy: Policy = field(default_factory=Policy)
    signing_keys: KeyFiles = field(default_factory=lambda: KeyFiles(None))
    boot_id: str = ""
    listen: str = ""
    token: Callable[[], str] = no_token
    prestart_wait_s: float = 5.0
    reconcile_s: float = 30.0
    health_s: float = 5.0
    drain_s: float = 10.0
    handover_s: float = 10.0
    lease_namespace: str = "kube-system"
    serial: bool = False
    serial_when_needed: bool = False
    evict_unlimited: bool = False
    proc_dir: Path = Path("/proc")


class Agent:
    """All parts, wired.

    Args:
        api: The Kubernetes API.
        sides: Node sides of the vendors served.
        options: Settings.
        failures: Calls of hooks that failed, by plugin and hook.
    """

    def __init__(
        self,
        api: KubeApi,
        sides: Sequence[NodeVendor],
        options: Options,
        failures: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self.options = options
        self.vendors = tuple(Vendor(side) for side in sides)
        self.endpoints: dict[str, Endpoint] = {}
        self.recorder = EventRecorder(api, "hami-agent", instance=options.node)
        self.node = NodeWriter(api, options.node)
        families = {word: family for vendor in self.vendors for word, family in vendor.families.items()}
        handoff = Handoff(api, lambda: self.node.node, families.values())
        self.notes = PodNotes(api, self.recorder, self.endpoints, handoff)
        self.health = Health()
        self._informer = Informer(api, PODS, field_selector=f"spec.nodeName={options.node}")
        store = RecordStore(options.state_dir)
        self._prover = Prover(options.proc_dir, store.proof_of)
        self._learnt = LearntMode(options.state_dir, options.boot_id)
        serial = options.serial or (options.serial_when_needed and self._learnt.is_serial)
        self._pods = pods = PodIndex(self._informer, lambda: self.core.wake())  # noqa: PLW0108 - it is made below
        resources = frozenset(r for vendor in self.vendors for r in vendor.resources)
        self._authority = Authority(options.node, families, options.signing_keys.keys, options.policy)
        self.core = Reconciler(
            vendors=self.vendors,
            reader=CheckpointReader(options.plugin_dir, resources),
            store=store,
            specs=SpecFolder(options.cdi_dir),
            pods=pods,
            authority=self._authority,
            host=self.notes,
            boot_id=options.boot_id,
            prestart_wait_s=options.prestart_wait_s,
            serial=serial,
        )
        self.node.informer.on_change(self._node_changed)
        self.link = KubeletLink(options.plugin_dir, ())
        self.node.want({keys.AGENT_MODE: keys.MODE_SERIAL if serial else keys.MODE_CDI}, {})
        self._standing = Standing(
            self.vendors, self.endpoints, self.node, pods, CheckpointReader(options.plugin_dir, resources)
        )
        self._api = api
        self._books = {vendor.name: HealthBook() for vendor in self.vendors}
        self._discovered: dict[str, tuple[Device, ...]] = {}
        self._not_offered: dict[str, str] = {}
        self._instruments = Instruments(
            node=self.node,
            core=self.core,
            notes=self.notes,
            prover=self._prover,
            discovered=self._discovered,
            books=self._books,
            failures=failures,
        )
        self._registering: asyncio.Task[Any] | None = None
        self._serving = False
        self._build_health()

    def _build_health(self) -> None:
        self.health.ready("devices", lambda: "" if self._discovered else "no device was discovered yet")
        self.health.ready(
            "pods", lambda: "" if self._informer.synced.is_set() else "this node's pods are not known yet"
        )
        self.health.ready("kubelet", lambda: "" if self.link.is_connected else "not registered with the kubelet")
        self.health.ready("node", lambda: "" if self.node.is_current else "the node object is not written yet")
        self.health.ready("signing-keys", self.options.signing_keys.problem)
        self.health.ready("checkpoint", lambda: self.core.checkpoint_problem)

    # --- life ------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set.

        Raises:
            ConfigError: Something an administrator has to mend.
        """
        server = Server(self._listeners())
        await server.start()
        if server.addresses:
            log.info("serving metrics and health", address=server.addresses[0])
        tasks: set[asyncio.Task[Any]] = set()
        try:
            # Discovery may have to be tried again for long; until then nothing is offered.
            for work in (self._informer.run(), self.recorder.run(), self.node.informer.run(), self.node.run()):
                tasks.add(asyncio.ensure_future(work))
            starting = asyncio.ensure_future(self._start())
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                tasks |= {asyncio.ensure_future(work) for work in self._loops()}
                tasks.add(stopping)
                await self._until(stopping, tasks)
                if self.options.handover_s:
                    leaving = asyncio.ensure_future(self._standing.hand_over(self.options.handover_s))
                    tasks.add(leaving)
                    await self._until(leaving, tasks)
            starting.cancel()
        finally:
            await self._end(server, tasks)

    @staticmethod
    async def _until(end: asyncio.Task[Any], tasks: set[asyncio.Task[Any]]) -> None:
        """Wait for one of the tasks; another one that ends before it ends the process with what broke it."""
        going = {task for task in tasks if not task.done()}
        done, _ = await asyncio.wait({end, *going}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {end}:
            task.result()

    async def _start(self) -> None:
        await asyncio.gather(*(self._discover_first(vendor) for vendor in self.vendors))
        await self.core.start()
        # What a start leaves behind lives as long as the process; looking through it again would hold up an Allocate.
        gc.collect()
        gc.freeze()
        self._serving = True

    def _loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield self.core.run()
        yield watch_folder(self.options.plugin_dir, self._changed)
        yield self._reconcile_loop()
        if self.options.signing_keys.may_change:
            yield self.options.signing_keys.watch(self._keys_changed)
        for vendor in self.vendors:
            yield self._health_loop(vendor)
            yield self._tend_loop(vendor)
        if self.options.lease_namespace:
            name = f"hami-agent-{self.options.node}"
            namespace = self.options.lease_namespace
            # One agent runs on a node (it holds the state folder's lock), so the node is identity enough.
            node = self.options.node
            elector = LeaseElector(self._api, namespace, name, node, duration_s=LEASE_S, retry_s=LEASE_S / 4)
            yield elector.run()

    async def _end(self, server: Server, tasks: set[asyncio.Task[Any]]) -> None:
        self._standing.hush()
        await self.link.stop()
        for task in tasks:
            task.cancel()
        if self._registering:
            self._registering.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for vendor in self.vendors:
            vendor.close()
        await server.stop(min(self.options.drain_s, 2.0))
        log.info("stopped")

    def _listeners(self) -> list[Listener]:
        if not self.options.listen:
            return []
        metrics = AgentMetrics(
            self.vendors,
            self._containers,
            self._instruments.rows,
            extra=[build_info(__version__)],
            token=self.options.token,
        )
        routes = [metrics.route(), *self.health.routes()]
        return [Listener(self.options.listen, routes, body_limit=1 << 16, setting="--metrics-bind-address")]

    def _keys_changed(self) -> None:
        self._authority.keys = self.options.signing_keys.keys
        self.core.wake()  # who was refused for want of a key is looked at again

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        locks = [node.metadata.annotations.get(keys.NODE_LOCK) if node is not None else None for node in (old, new)]
        if locks[0] != locks[1]:
            self.core.wake()  # the lock may be that of a pod that has its devices

    # --- kubelet ---------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.core.tick()
        if self._registering is None or self._registering.done():
            self._registering = asyncio.ensure_future(self.link.check())
        self._standing.say()

    async def _reconcile_loop(self) -> None:
        differs = 0.0
        while True:
            await asyncio.sleep(min(self.options.reconcile_s, DISAGREEMENT_S / 3))
            self.core.wake()
            await self._prove()
            differs = differs + DISAGREEMENT_S / 3 if self._disagrees() else 0.0
            if differs >= DISAGREEMENT_S:
                log.warning("the kubelet's allocatable is not what is offered, registering anew")
                await self.link.check(force=True)
                differs = 0.0

    async def _prove(self) -> None:
        """Look for containers that run without what their CDI specs give them."""
        running = []
        for record in self.core.records.values():
            pod = self._pods.get(record.pod_uid)
            if pod is not None:
                running.append((record, container_id(pod, record.container)))
        for record in await asyncio.to_thread(self._prover.look, running):
            pod = self._pods.get(record.pod_uid)
            if pod is None:
                continue
            what = f"container {record.container} runs without its devices and limits"
            text = f"{what}: the runtime ignored its CDI name; is CDI on?"
            if self.options.evict_unlimited:
                self.notes.evict(pod, text)
            else:
                self.notes.warn(pod, "DevicesUnlimited", text)
            if self.options.serial_when_needed and not self.core.serial:
                log.warning("the runtime does not serve CDI, going on in serial mode")
                await asyncio.to_thread(self._learnt.learn)
                self.core.serial = True
                self.node.want({keys.AGENT_MODE: keys.MODE_SERIAL}, {})

    def _disagrees(self) -> bool:
        node = self.node.node
        if node is None:
            return False
        return any(node.status.allocatable.get(r, "0") != str(e.offer.healthy) for r, e in self.endpoints.items())

    # --- devices ---------------------------------------------------------------------------------------------------

    async def _discover_first(self, vendor: Vendor) -> None:
        backoff = Backoff(1.0, 30.0)
        while True:
            try:
                await self._discover(vendor)
            except HamiError as error:
                wait = backoff.next()
                log.warning("devices can't be discovered", vendor=vendor.name, error=str(error), retry_s=round(wait, 1))
                await asyncio.sleep(wait)
            else:
                return

    async def _discover(self, vendor: Vendor) -> None:
        self._discovered[vendor.name] = await vendor.discover()
        self._tell_not_offered(self._discovered[vendor.name])
        await self._advertise(vendor)

    def _tell_not_offered(self, devices: Iterable[Device]) -> None:
        """Log and record on the node, once for each change, which devices are kept from pods and why."""
        # The kubelet's own events name the node as UID, and `kubectl describe node` looks for both.
        node = ObjectReference(kind="Node", name=self.options.node, uid=self.options.node, api_version="v1")
        for device in devices:
            before, reason = self._not_offered.get(device.id, ""), device.not_offered
            if reason == before:
                continue
            self._not_offered[device.id] = reason
            if reason:
                log.warning("a device is not offered", device=device.id, reason=reason)
                self.recorder.record(node, "Warning", "DeviceNotOffered", f"{device.id}: {reason}")
            else:
                log.info("a device is offered again", device=device.id)
                self.recorder.record(node, "Normal", "DeviceOffered", f"{device.id} is offered again")

    async def _advertise(self, vendor: Vendor) -> None:
        devices = self._books[vendor.name].apply(self._discovered[vendor.name])
        said = await vendor.advertise(devices)
        self.core.devices.update({device.id: device for device in devices})
        for resource, slots in said.slots.items():
            endpoint = self.endpoints.get(resource)
            if endpoint is None:
                endpoint = self.endpoints[resource] = Endpoint(self.options.plugin_dir, resource, self.core)
                self.link.endpoints = (*self.link.endpoints, endpoint)
            if endpoint.offer.set(slots):
                log.info("slots offered", resource=resource, slots=len(slots), healthy=endpoint.offer.healthy)
        self.node.want(said.annotations, said.labels)
        self.core.wake()

    async def _health_loop(self, vendor: Vendor) -> None:
        """Ask for health; discover anew when it changed, and now and then for cards that came or a driver reloaded."""
        book, due = self._books[vendor.name], REDISCOVER_S
        while True:
            pause = SUSPECT_S if book.unsettled else self.options.health_s
            await asyncio.sleep(pause)
            due -= pause
            readings = await self._health(vendor)
            changed = self._take(book, readings)
            if changed or due <= 0 or any(reading.rediscover for reading in readings):
                due = REDISCOVER_S
                try:
                    await self._discover(vendor)
                except HamiError as error:
                    log.warning("devices can't be discovered, tried again", vendor=vendor.name, error=str(error))
                    lost = [HealthChange(d.id, healthy=False, reason=str(error)) for d in self._discovered[vendor.name]]
                    if self._take(book, lost):
                        await self._advertise_safely(vendor)

    async def _tend_loop(self, vendor: Vendor) -> None:
        while True:
            live = self._live(vendor.name)
            refs = {r.id: r.ref for r in live}
            slices = {r.id: r.slices for r in live}
            regions = {r.id: str(self.core.region_dir(r)) for r in live}
            try:
                await vendor.tend(refs, slices, regions)
            except HamiError as error:
                log.warning("running containers can't be looked after", vendor=vendor.name, error=str(error))
            await asyncio.sleep(TEND_S)

    async def _health(self, vendor: Vendor) -> Sequence[HealthChange]:
        try:
            return await vendor.health(self._discovered[vendor.name])
        except HamiError as error:
            log.warning("devices' health can't be told", vendor=vendor.name, error=str(error))
            return ()

    def _take(self, book: HealthBook, readings: Sequence[HealthChange]) -> bool:
        """Take readings in. Returns whether a device is to be offered, or not, that was not, or was."""
        changed = book.take(readings)
        for device, before, after in changed:
            log.warning("device health", device=device, was=before.state, now=after.state, reason=after.reason)
        return any(before.offered != after.offered for _, before, after in changed)

    async def _advertise_safely(self, vendor: Vendor) -> None:
        try:
            await self._advertise(vendor)
        except HamiError as error:
            log.warning("devices can't be advertised", vendor=vendor.name, error=str(error))

    # --- what is told ----------------------------------------------------------------------------------------------

    def _live(self, vendor: str) -> list[Record]:
        return [r for r in self.core.records.values() if r.vendor == vendor and not r.gone]

    def _containers(self, vendor: str) -> tuple[Mapping[str, ContainerRef], Mapping[str, str]]:
        live = self._live(vendor)
        return {r.id: r.ref for r in live}, {r.id: str(self.core.region_dir(r)) for r in live}


# --- from settings -------------------------------------------------------------------------------------------------


def run(settings: AgentSettings) -> int:
    """Run the agent until SIGTERM or SIGINT. Returns the exit code.

    Raises:
        ConfigError: A setting or the machine is not as needed.
    """
    from hami_core.observe.log import configure  # noqa: PLC0415 - a process's own

    configure(settings.log_level, settings.log_format, component="agent", node=settings.node_name)
    _give_back_large_buffers()
    _export(settings)
    code = asyncio.run(_main(settings))
    _end_without_hanging_hooks(code)
    return code


def _end_without_hanging_hooks(code: int) -> None:
    """End the process at once if a worker thread does not: Python would wait for it without a limit."""
    workers = [t for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
    deadline = time.monotonic() + WORKERS_END_S
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
    left = [worker.name for worker in workers if worker.is_alive()]
    if left:
        log.warning("a hook does not return, the process ends without it", threads=left)
        os._exit(code)


def _give_back_large_buffers() -> None:
    """Have the system get large buffers back when they are freed: what a region starts with has 7 MiB.

    Glibc takes the first one that is freed for a habit, and keeps room for the next in the heap of each thread.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER)


async def _main(settings: AgentSettings) -> int:
    from hami_core.kube.official import connect  # noqa: PLC0415 - a second of import

    loaded = _load(settings)
    options = options_of(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    options.state_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (options.state_dir / "agent.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError("state_dir", f"another agent runs on {options.state_dir}", "stop it first") from error
        api = await connect(settings.kubeconfig, user_agent=f"hami-agent/{__version__}")
        try:
            await Agent(api, loaded.vendors, options, lambda: loaded.reporter.failures).run(stop)
        finally:
            await api.close()
    return 0


def _load(settings: AgentSettings) -> Loaded:
    from hami_core.plugins import load  # noqa: PLC0415 - loads vendors' libraries
    from hami_core.settings import DeviceConfig, load_device_config  # noqa: PLC0415 - pydantic, slow to import

    path = settings.device_config_file
    config: DeviceConfig | dict[str, Any] = load_device_config(path) if path else {}
    loaded = load(config, side="node", only=[settings.vendor] if settings.vendor else None, named_by="--vendor")
    loaded.require()
    if settings.vendor:
        loaded.vendor(settings.vendor)
    return loaded


def _export(settings: AgentSettings) -> None:
    """Tell vendors, by the environment, what the agent was told: their own settings start from it."""
    os.environ["NODE_NAME"] = settings.node_name
    for name in ("node_name", "state_dir", "node_config_file", "enforcement", "legacy_metrics"):
        os.environ["HAMI_" + name.upper()] = str(getattr(settings, name))
    os.environ["HAMI_CDI_SEARCH_DIRS"] = ",".join(settings.cdi_search_dirs)


def options_of(settings: AgentSettings) -> Options:
    """Resolve settings: read keys, boot id and token.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    before = settings.adopt_before
    if before is not None and before.tzinfo is None:
        before = before.replace(tzinfo=UTC)
    return Options(
        node=settings.node_name,
        plugin_dir=settings.kubelet_plugin_dir.absolute(),
        cdi_dir=settings.cdi_dir.absolute(),
        state_dir=settings.state_dir.absolute(),
        policy=Policy(Mode(settings.mode), before, frozenset(settings.trust_schedulers)),
        signing_keys=KeyFiles(settings.signing_keys),
        boot_id=_boot_id(settings.proc_dir),
        listen=settings.metrics_bind_address,
        token=TokenFile(token, "metrics_token_file") if (token := settings.metrics_token_file) else no_token,
        prestart_wait_s=settings.prestart_timeout,
        reconcile_s=settings.reconcile_interval,
        health_s=settings.health_interval,
        drain_s=settings.drain_time,
        handover_s=settings.handover_time,
        lease_namespace=os.environ.get("POD_NAMESPACE", "kube-system"),
        serial=settings.serial == "always",
        serial_when_needed=settings.serial == "auto",
        evict_unlimited=settings.evict_unlimited,
        proc_dir=settings.proc_dir,
    )


def _boot_id(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        log.warning("this boot can't be told from the last, specs are written anew", error=str(error))
        return f"{socket.gethostname()}-{os.getpid()}"
