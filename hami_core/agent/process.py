"""The agent process: wiring and lifecycle.

At start it listens first, so that probes answer. Then it discovers devices and writes missing specs from its records.
It registers last, since the kubelet starts containers as soon as we are registered. On SIGTERM it publishes that it
stops, waits for pods bound here, stops serving the kubelet, and finishes its writes. Running containers go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from hami_core._version import __version__
from hami_core.agent.authority import Authority
from hami_core.agent.availability import Availability
from hami_core.agent.bind_finisher import BindFinisher
from hami_core.agent.cdi import SpecFolder
from hami_core.agent.cdi_check import CdiCheck
from hami_core.agent.devices import NodeDevices
from hami_core.agent.identity import CheckpointReader
from hami_core.agent.instruments import Instruments
from hami_core.agent.kubelet import KubeletLink
from hami_core.agent.metrics import AgentMetrics
from hami_core.agent.options import NodeLabels, from_settings, node_context
from hami_core.agent.pod_actions import PodActions
from hami_core.agent.pods import PodIndex
from hami_core.agent.reconcile import Reconciler
from hami_core.agent.records import RecordStore
from hami_core.agent.registration import NodeWriter
from hami_core.agent.selinux import FileLabels
from hami_core.agent.serial import NoCdiMarker
from hami_core.agent.unlimited_containers import UnlimitedContainers
from hami_core.agent.vendor import Vendor
from hami_core.agent.watch import watch_folder
from hami_core.errors import ConfigError, DeviceError
from hami_core.http.health import Health
from hami_core.http.serve import Listener, Server
from hami_core.kube.events import EventRecorder
from hami_core.kube.informer import Informer
from hami_core.kube.lease import LeaseElector
from hami_core.kube.port import PODS
from hami_core.observe.metrics import build_info
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TextIO

    from hami_core.agent.kubelet import Endpoint
    from hami_core.agent.options import Options
    from hami_core.kube.objects import Node
    from hami_core.kube.port import KubeApi
    from hami_core.model import ContainerRef
    from hami_core.plugins import Loaded, LoadedVendor
    from hami_core.settings import AgentSettings

log = structlog.get_logger(__name__)

M_MMAP_THRESHOLD: Final = -3
LARGE_BUFFER: Final = 1 << 20
LEASE_S: Final = 40
"""Duration of the node's liveness Lease; it is renewed every quarter of this."""
DISAGREEMENT_S: Final = 30.0
"""If the kubelet's allocatable differs from our offer for this long, the agent registers again."""
LABELS_WAIT_S: Final = 5.0
"""How long the first discovery waits for the node's object."""
WORKERS_END_S: Final = 2.0
"""How long running hooks may still take after everything else has ended."""


class Agent:
    """Creates the agent's parts, connects them and runs them.

    Args:
        api: The Kubernetes API.
        sides: Node sides of the vendors to serve.
        options: Settings, and what was read from the files that they name.
        failures: Returns the number of failed hook calls by plugin and hook.
        labels: Gives the vendors the labels of the node's object; None: no vendor reads them.
    """

    def __init__(
        self,
        api: KubeApi,
        sides: Sequence[LoadedVendor],
        options: Options,
        failures: Callable[[], Mapping[tuple[str, str], int]] = dict,
        labels: NodeLabels | None = None,
    ) -> None:
        self.options = options
        self.settings = settings = options.settings
        self.vendors = tuple(Vendor(side) for side in sides)
        self.endpoints: dict[str, Endpoint] = {}
        self.recorder = EventRecorder(api, "hami-agent", instance=settings.node_name)
        self.node = NodeWriter(api, settings.node_name)
        if labels is not None:
            labels.read = lambda: self.node.node.metadata.labels if self.node.node else None
        families = {word: family for vendor in self.vendors for word, family in vendor.families.items()}
        finisher = BindFinisher(api, lambda: self.node.node, families.values())
        self.actions = PodActions(api, self.recorder, self.endpoints, finisher)
        self.health = Health()
        self._api = api
        self._informer = Informer(api, PODS, field_selector=f"spec.nodeName={settings.node_name}")
        store, specs = RecordStore(settings.state_dir), SpecFolder(settings.cdi_dir)
        cdi_check = CdiCheck(settings.proc_dir, store.expected_mount)
        no_cdi = NoCdiMarker(settings.state_dir, options.boot_id)
        may_switch = settings.serial == "auto"
        serial = settings.serial == "always" or (may_switch and no_cdi.is_set)
        pods = PodIndex(self._informer, lambda: self.core.wake())  # noqa: PLW0108 - it is made below
        resources = frozenset(r for vendor in self.vendors for r in vendor.resources)
        self._authority = Authority(settings.node_name, families, options.signing_keys.keys, options.policy)
        self._file_labels = FileLabels(settings.state_dir, options.selinux_type, settings.selinux_level)
        self.core = Reconciler(
            vendors=self.vendors,
            reader=CheckpointReader(settings.kubelet_plugin_dir, resources),
            store=store,
            specs=specs,
            pods=pods,
            authority=self._authority,
            actions=self.actions,
            boot_id=options.boot_id,
            prestart_wait_s=settings.prestart_timeout,
            serial=serial,
            label=self._file_labels.each,
        )
        self.node.informer.on_change(self._node_changed)
        self.link = KubeletLink(settings.kubelet_plugin_dir, ())
        mode = keys.MODE_SERIAL if serial else keys.MODE_CDI
        self.node.want({keys.agent_mode(vendor.name): mode for vendor in self.vendors}, {})
        own_reader = CheckpointReader(settings.kubelet_plugin_dir, resources)
        self._availability = Availability(self.vendors, self.endpoints, self.node, pods, own_reader)
        self._devices = NodeDevices(
            vendors=self.vendors,
            node=self.node,
            recorder=self.recorder,
            core=self.core,
            link=self.link,
            endpoints=self.endpoints,
            specs=specs,
            plugin_dir=settings.kubelet_plugin_dir,
            health_s=settings.health_interval,
        )
        self._unlimited = UnlimitedContainers(
            cdi_check=cdi_check,
            vendors=[vendor.name for vendor in self.vendors],
            core=self.core,
            pods=pods,
            actions=self.actions,
            node=self.node,
            no_cdi=no_cdi if may_switch else None,
            evict=settings.evict_unlimited,
        )
        self._instruments = Instruments(
            node=self.node,
            core=self.core,
            actions=self.actions,
            cdi_check=cdi_check,
            discovered=self._devices.discovered,
            trackers=self._devices.trackers,
            failures=failures,
        )
        self._registering: asyncio.Task[Any] | None = None
        self._build_health()

    def _build_health(self) -> None:
        self.health.ready("devices", lambda: "" if self._devices.discovered else "no device was discovered yet")
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
            ConfigError: An administrator has to correct something.
        """
        server = Server(self._listeners())
        await server.start()
        if server.addresses:
            log.info("serving metrics and health", address=server.addresses[0])
        tasks: set[asyncio.Task[Any]] = set()
        try:
            # Discovery may be retried for a long time. Until it succeeds nothing is offered.
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
                if self.settings.handover_time:
                    leaving = asyncio.ensure_future(self._availability.drain(self.settings.handover_time))
                    tasks.add(leaving)
                    await self._until(leaving, tasks)
            starting.cancel()
        finally:
            await self._end(server, tasks)

    @staticmethod
    async def _until(end: asyncio.Task[Any], tasks: set[asyncio.Task[Any]]) -> None:
        """Wait for the task `end`. If another task fails first, its exception ends the process."""
        going = {task for task in tasks if not task.done()}
        done, _ = await asyncio.wait({end, *going}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {end}:
            task.result()

    async def _start(self) -> None:
        try:
            await asyncio.to_thread(self._file_labels.whole_folder)
        except DeviceError as error:
            raise ConfigError(f"--selinux-type {self.settings.selinux_type}", str(error)) from error
        # Vendors may read the node's labels. Without an API server the agent goes on: most vendors need none.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.node.informer.synced.wait(), LABELS_WAIT_S)
        await asyncio.gather(*(self._devices.discover_first(vendor) for vendor in self.vendors))
        await self.core.start()
        # Objects made during the start live as long as the process. Freezing them spares the garbage collector from
        # scanning them again, which would delay an Allocate.
        gc.collect()
        gc.freeze()

    def _loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield self.core.run()
        yield watch_folder(self.settings.kubelet_plugin_dir, self._changed)
        yield self._compare_loop()
        if self.options.signing_keys.may_change:
            yield self.options.signing_keys.watch(self._keys_changed)
        for vendor in self.vendors:
            yield self._devices.watch(vendor)
            yield self._devices.tend(vendor)
            if self.options.lease_namespace:
                yield self._lease(vendor).run()

    def _lease(self, vendor: Vendor) -> LeaseElector:
        # One agent of a vendor runs on a node, since it locks its state folder. So the node's name is an identity.
        node = self.settings.node_name
        place = self.options.lease_namespace, keys.agent_lease(vendor.name, node)
        return LeaseElector(self._api, *place, node, duration_s=LEASE_S, retry_s=LEASE_S / 4)

    async def _end(self, server: Server, tasks: set[asyncio.Task[Any]]) -> None:
        self._availability.stop_publishing()
        await self.link.stop()
        for task in tasks:
            task.cancel()
        if self._registering:
            self._registering.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for vendor in self.vendors:
            vendor.close()
        await server.stop(min(self.settings.drain_time, 2.0))
        log.info("stopped")

    # --- metrics ---------------------------------------------------------------------------------------------------

    def _listeners(self) -> list[Listener]:
        if not self.settings.metrics_bind_address:
            return []
        metrics = AgentMetrics(
            self.vendors,
            self._containers,
            self._instruments.rows,
            extra=[build_info(__version__)],
            token=self.options.token,
        )
        routes = [metrics.route(), *self.health.routes()]
        address = self.settings.metrics_bind_address
        return [Listener(address, routes, body_limit=1 << 16, setting="--metrics-bind-address")]

    def _containers(self, vendor: str) -> tuple[Mapping[str, ContainerRef], Mapping[str, str]]:
        live, adopted = self.core.live(vendor), self.core.adopted(vendor)
        refs = adopted | {r.id: r.ref for r in live}
        folders = {name: str(self.settings.adopted_dir / name) for name in adopted}
        return refs, folders | {r.id: str(self.core.region_dir(r)) for r in live}

    # --- changes ---------------------------------------------------------------------------------------------------

    def _keys_changed(self) -> None:
        self._authority.keys = self.options.signing_keys.keys
        self.core.wake()  # pods that were refused for a missing key are checked again

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        locks = [node.metadata.annotations.get(keys.NODE_LOCK) if node is not None else None for node in (old, new)]
        if locks[0] != locks[1]:
            self.core.wake()  # the lock may belong to a pod that already has its devices
        self._devices.report_cordon()

    def _changed(self) -> None:
        self.core.tick()
        if self._registering is None or self._registering.done():
            self._registering = asyncio.ensure_future(self.link.check())
        self._availability.publish()

    async def _compare_loop(self) -> None:
        """Request passes at an interval, and register again if the kubelet's allocatable keeps differing."""
        differs = 0.0
        while True:
            await asyncio.sleep(min(self.settings.reconcile_interval, DISAGREEMENT_S / 3))
            self.core.wake()
            await self._unlimited.check()
            differs = differs + DISAGREEMENT_S / 3 if self._disagrees() else 0.0
            if differs >= DISAGREEMENT_S:
                log.warning("the kubelet's allocatable differs from the offer; registering again")
                await self.link.check(force=True)
                differs = 0.0

    def _disagrees(self) -> bool:
        node = self.node.node
        if node is None:
            return False
        return any(node.status.allocatable.get(r, "0") != str(e.offer.healthy) for r, e in self.endpoints.items())


# --- the program ---------------------------------------------------------------------------------------------------


def run(settings: AgentSettings) -> int:
    """Run the agent until SIGTERM or SIGINT. Returns the exit code.

    Raises:
        ConfigError: A setting is invalid, or another agent runs on this state folder.
    """
    from hami_core.observe.log import configure  # noqa: PLC0415 - only the process configures logs

    configure(settings.log_level, settings.log_format, component="agent", node=settings.node_name)
    _give_back_large_buffers()
    code = asyncio.run(_main(settings))
    _end_without_hanging_hooks(code)
    return code


def _end_without_hanging_hooks(code: int) -> None:
    """End the process even if a worker thread hangs. Python itself would wait for the thread without a limit."""
    workers = [t for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
    deadline = time.monotonic() + WORKERS_END_S
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
    left = [worker.name for worker in workers if worker.is_alive()]
    if left:
        log.warning("a hook does not return; ending the process without it", threads=left)
        os._exit(code)


def _give_back_large_buffers() -> None:
    """Make glibc return freed large buffers to the system, such as the 7 MiB of a new region.

    By default glibc raises its threshold after the first such free, and then keeps the memory in each thread's heap.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER)


async def _main(settings: AgentSettings) -> int:
    from hami_core.kube.official import connect  # noqa: PLC0415 - a second of import

    labels = NodeLabels()
    loaded = _load(settings, labels)
    options = from_settings(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with _lock_file(settings.state_dir) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            where = f"--state-dir {settings.state_dir}"
            fix = "stop it, or give each vendor's agent its own folder"
            raise ConfigError(where, "another agent runs on this folder", fix) from error
        api = await connect(settings.kubeconfig, user_agent=f"hami-agent/{__version__}")
        try:
            await Agent(api, loaded.vendors, options, lambda: loaded.reporter.failures, labels).run(stop)
        finally:
            await api.close()
    return 0


def _lock_file(folder: Path) -> TextIO:
    """Make the state folder if it is missing, and open its lock file.

    Raises:
        ConfigError: The folder can't be made or written.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return (folder / "agent.lock").open("w")
    except OSError as error:
        fix = "name a folder on the node's disk that this process may write; in a pod, mount it writable"
        raise ConfigError(f"--state-dir {folder}", f"can't be written: {error.strerror}", fix) from error


def _load(settings: AgentSettings, labels: NodeLabels) -> Loaded:
    from hami_core.plugins import load  # noqa: PLC0415 - loads vendors' libraries
    from hami_core.settings import DeviceConfig, load_device_config  # noqa: PLC0415 - pydantic, slow to import

    path = settings.device_config_file
    config: DeviceConfig | dict[str, Any] = load_device_config(path) if path else {}
    only = [settings.vendor] if settings.vendor else None
    loaded = load(config, side="node", node=node_context(settings, labels), only=only, named_by="--vendor")
    loaded.require()
    if settings.vendor:
        loaded.vendor(settings.vendor)
    return loaded
