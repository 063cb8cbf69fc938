"""The scheduler process: wiring and lifecycle.

The process listens first, so that probes answer. It then reads the cluster's state, and is ready once that is complete.
On SIGTERM it turns unready, finishes running requests, writes waiting events, releases its lease and ends.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvloop

from hami_core._version import __version__
from hami_core.errors import HamiError, KubeError
from hami_core.http import tls
from hami_core.http.health import Health
from hami_core.http.metrics import metrics_route
from hami_core.http.serve import Listener, Route, Server
from hami_core.kube.events import EventRecorder
from hami_core.kube.informer import Backoff
from hami_core.kube.official import connect
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import PODS, ApiError
from hami_core.observe.log import configure
from hami_core.plugins import load
from hami_core.plugins.closed import ClosedVendors
from hami_core.plugins.watchdog import Watchdog
from hami_core.scheduler.bind import Bind
from hami_core.scheduler.cluster import Cluster
from hami_core.scheduler.credentials.reconciler import Credentials
from hami_core.scheduler.explain import Explain
from hami_core.scheduler.filter import Filter
from hami_core.scheduler.instruments import Instruments, stacks
from hami_core.scheduler.keyring import Keyring
from hami_core.scheduler.leadership import Always, BindGate
from hami_core.scheduler.lock import NodeLocks
from hami_core.scheduler.options import LeadershipFactory, Options, from_settings, leadership
from hami_core.scheduler.pod_events import PodEvents
from hami_core.scheduler.prioritize import Prioritize
from hami_core.scheduler.retry import NODE_EVENTS_RETRY_SINCE, RefusedPodRetry
from hami_core.scheduler.serial import SerialNodes
from hami_core.scheduler.usage import usage_route
from hami_core.scheduler.webhook import Webhook
from hami_core.settings import load_device_config
from hami_core.wire import keys

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Mapping

    from hami_core.kube.port import KubeApi
    from hami_core.plugins import Loaded
    from hami_core.settings import SchedulerSettings

log = structlog.get_logger(__name__)

QUICK_SYNC_S: Final = 60.0
"""A first sync that takes longer leaves garbage: while the API server is away, retries make 5 MiB an hour."""
LABELS_COPIED_SINCE: Final = (1, 35)
"""Kubernetes version from which a Binding's labels reach the pod."""


class Scheduler:
    """All parts of the process, wired.

    Args:
        api: The Kubernetes API.
        loaded: The vendors.
        options: Settings.
        lead: Makes the leadership, given a callback for changes; None: this replica always leads.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        loaded: Loaded,
        options: Options,
        *,
        lead: LeadershipFactory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.health = Health()
        self.keyring = Keyring(options.signing_key, options.public_keys, awaited=options.signing_names is not None)
        self.cluster = Cluster(
            api,
            loaded,
            options.defaults,
            keyring=self.keyring,
            managed=options.managed,
            node_labels=options.node_labels,
            sync_wait_s=options.sync_wait_s,
            clock=clock,
        )
        self.leadership = lead(self._leadership_changed) if lead else Always()
        self.gate = BindGate(
            self.leadership, self.cluster.catch_up if lead else self.cluster.epoch_of_first_list, clock=clock
        )
        self.recorder = EventRecorder(api, options.scheduler_name, instance=options.instance)
        events = PodEvents(self.recorder, self.cluster)
        self.cluster.on_invalid_signature = events.invalid_signature
        self.cluster.on_quota_finding = events.quota_finding
        self.cluster.on_unreadable_pod = events.unreadable_pod
        self.pod_retry = RefusedPodRetry(
            api,
            self.cluster.pods,
            self.cluster.asks,
            request=self.cluster.request_of,
            fits=self.cluster.inventory.fits,
            clock=clock,
        )
        self.cluster.listener = self.pod_retry
        self.filter = Filter(
            self.cluster,
            events,
            self.pod_retry,
            limit=options.filter_return,
            hold_s=(options.hold_s, options.long_hold_s),
        )
        self.prioritize = Prioritize(self.cluster, self.filter)
        locks = NodeLocks(api, self.cluster, wait_s=options.lock_wait_s, expiry_s=options.lock_expiry_s)
        self.bind = Bind(
            api,
            self.cluster,
            self.gate,
            events,
            locks,
            serial=SerialNodes(self.cluster, wait_s=options.turn_wait_s, expiry_s=options.lock_expiry_s),
            keyring=self.keyring,
            copies_labels=False,
        )
        self.webhook = Webhook(
            self.cluster, scheduler_name=options.scheduler_name, overwrite_default=options.overwrite_default
        )
        self.explain = Explain(self.cluster, options.scheduler_name)
        self.instruments = Instruments(self.cluster, self.gate, legacy=options.legacy_metrics)
        self._admission = Route("POST", "/webhook", self.instruments.timed("webhook", self.webhook))
        self._api = api
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tls: list[tuple[ssl.SSLContext, tls.TlsFiles]] = []
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._server: Server | None = None
        self._webhook_server: Server | None = None
        self.credentials = Credentials(
            api,
            options.namespace,
            options.webhook_names,
            options.signing_names,
            keyring=self.keyring,
            in_use=self.cluster.signed_with,
            serve=self._serve_webhook,
            clock=clock,
        )
        self.instruments.watch_credentials(self.credentials, self.keyring)
        for reconciler in self.credentials.reconcilers:
            self.health.ready(reconciler.name, reconciler.check)
        self.health.ready("cluster", lambda: "" if self.cluster.is_synced else "not read yet")
        self.health.ready("process", lambda: "shutting down" if self._stopping.is_set() else "")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the listeners: extender, webhook (if separate), metrics (if on).

        If this process issues the webhook's certificate, the webhook comes last, and only once it has a certificate.
        """
        servers = (self._server, self._webhook_server)
        return tuple(address for server in servers if server for address in server.addresses)

    async def start(self) -> None:
        """Open the listeners and begin to read the cluster.

        Raises:
            ConfigError: An address or a TLS file is invalid.
        """
        self._server = Server(self._listeners())
        await self._server.start()
        for informer in self.cluster.informers:
            self._spawn(f"informer-{informer.resource.plural}", informer.run())
        self._spawn("leadership", self.leadership.run())
        self._spawn("events", self.recorder.run())
        self._spawn("drift", self.cluster.watch_drift(self.options.drift_s))
        self._spawn("holds", self.cluster.watch_holds())
        self._spawn("first-sync", self._after_sync())
        self._spawn("server-version", self._learn_version())
        for number, (context, files) in enumerate(self._tls):
            self._spawn(f"tls-{number}", tls.reload_on_change(context, files))
        for reconciler in self.credentials.reconcilers:
            self._spawn(reconciler.name, reconciler.run())
        log.info("listening", addresses=self.addresses, scheduler_name=self.options.scheduler_name)

    async def stop(self) -> None:
        """End gracefully."""
        self._stopping.set()
        servers = [server for server in (self._server, self._webhook_server) if server is not None]
        await asyncio.gather(*(server.stop(self.options.drain_s) for server in servers))
        await self.bind.close()
        await self.recorder.flush()
        await self.gate.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def run_until(self, stop: asyncio.Event) -> int:
        """Start, wait until ``stop`` is set or a task fails, then end. Returns the exit status."""
        await self.start()
        waiting = asyncio.ensure_future(stop.wait())
        broken = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({waiting, broken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            broken.cancel()
            log.info("stopping")
            await self.stop()
        return 1 if self._failure else 0

    # --- parts

    def _listeners(self) -> list[Listener]:
        options = self.options
        verbs = [
            Route("POST", "/filter", self.instruments.timed("filter", self.filter)),
            Route("POST", "/prioritize", self.instruments.timed("prioritize", self.prioritize)),
            Route("POST", "/bind", self.instruments.timed("bind", self.bind)),
        ]
        admission, probes = self._admission, self.health.routes()
        metrics = metrics_route(
            self.instruments.registry, token=options.metrics_token, more=self.instruments.state.scrape
        )
        separate = bool(options.webhook)
        routes = [*verbs, *probes, *([] if separate else [admission])]
        context = self._context(options.extender_tls)
        listeners = [Listener(options.extender, routes, context, options.body_limit, "--http-bind")]
        if separate and options.webhook_names is None:
            context = self._context(options.webhook_tls)
            routes = [admission, *probes]
            listeners.append(Listener(options.webhook, routes, context, options.body_limit, "--webhook-bind"))
        if options.metrics:
            debug = [Route("GET", "/debug/stacks", stacks)] if options.profiling else []
            usage = usage_route(self.cluster.inventory, lambda: self.cluster.is_synced, options.metrics_token)
            routes = [metrics, usage, *self.explain.routes(options.metrics_token), *probes, *debug]
            listeners.append(Listener(options.metrics, routes, setting="--metrics-bind-address"))
        return listeners

    async def _serve_webhook(self, context: ssl.SSLContext) -> None:
        """Open the webhook's listener, now that it has a certificate."""
        routes = [self._admission, *self.health.routes()]
        server = Server([Listener(self.options.webhook, routes, context, self.options.body_limit, "--webhook-bind")])
        await server.start()
        self._webhook_server = server
        log.info("webhook listening", addresses=server.addresses)

    def _context(self, files: tls.TlsFiles | None) -> Any:  # noqa: ANN401 - ssl.SSLContext or None
        if files is None:
            return None
        context = tls.context(files)
        self._tls.append((context, files))
        return context

    # --- tasks

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        foreseen = isinstance(error, HamiError)  # its text says everything
        log.error(
            "a task failed, the process ends",
            task=task.get_name(),
            error=str(error),
            exc_info=None if foreseen else error,
        )
        self._failure = error
        self._stopping.set()

    async def _after_sync(self) -> None:
        started = time.monotonic()
        await self.cluster.synced()
        self._spawn("verification", self.cluster.verification.run())  # not before, as it would delay the sync
        self._spawn("pod-retry", self.pod_retry.run())  # not before: half a list shows room that running pods have
        self.cluster.review_quotas()
        log.info(
            "the cluster is read",
            nodes=len(self.cluster.nodes.store),
            pods=len(self.cluster.pods.store),
            seconds=round(time.monotonic() - started, 3),
        )
        if self.leadership.is_leader:
            self.pod_retry.retry_refused()  # the holds of an earlier scheduler process are gone

    async def _learn_version(self) -> None:
        """Learn what this version of Kubernetes does. Until then, a Bind writes its labels by a separate patch."""
        backoff = Backoff()
        while True:
            try:
                version = await self._api.server_version()
            except ApiError:
                await asyncio.sleep(backoff.next())
                continue
            self.bind.copies_labels = _version(version) >= LABELS_COPIED_SINCE
            self.pod_retry.node_events_retry = _version(version) >= NODE_EVENTS_RETRY_SINCE
            return

    def _leadership_changed(self, leads: bool) -> None:
        self.gate.changed(leads)
        if leads:
            self.pod_retry.retry_refused()
        namespace, name = self.options.own_pod
        if name:
            self._spawn("role-label", self._label(namespace, name, keys.ROLE_LEADER if leads else keys.ROLE_FOLLOWER))

    async def _label(self, namespace: str, name: str, role: str) -> None:
        """Write our role into a label of our own pod. A Service may select the leader by it."""
        try:
            await self._api.patch(PODS, name, metadata_patch(labels={keys.SCHEDULER_ROLE_LABEL: role}), namespace)
        except KubeError as error:
            log.warning("our pod's role label was not written", role=role, error=str(error))


def _version(version: Mapping[str, str]) -> tuple[int, int]:
    def number(part: str) -> int:
        digits = "".join(character for character in part if character.isdigit())
        return int(digits) if digits else 0

    return number(version.get("major", "")), number(version.get("minor", ""))


def run(settings: SchedulerSettings) -> int:
    """Run the scheduler until SIGTERM or SIGINT.

    Returns:
        0 after a graceful end, 1 after a failed task.

    Raises:
        ConfigError: A setting is invalid; nothing was started.
    """
    configure("debug" if settings.debug else settings.log_level, settings.log_format, component="scheduler")
    closed = ClosedVendors(settings.closed_vendors_file)
    watchdog = Watchdog(closed, limit_s=settings.hook_time_limit, drain_s=settings.drain_time)
    watchdog.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(settings, closed, watchdog))
    finally:
        watchdog.close()


async def _run(settings: SchedulerSettings, closed: ClosedVendors, watchdog: Watchdog) -> int:
    options = from_settings(settings)
    config = load_device_config(settings.device_config_file)
    loaded = load(config, side="scheduler", only=settings.vendors or None, named_by="--vendors", closed=closed.of)
    watchdog.guard(loaded)
    loaded.require()
    log.info("vendors are loaded", vendors={vendor.name: vendor.source.label for vendor in loaded.vendors})
    if options.signing_key is None and options.signing_names is None:
        log.warning(
            "allocations are not signed: no signing_key or signing_secret is set; agents in mode required refuse them"
        )
    api = await connect(
        settings.kubeconfig,
        user_agent=f"hami-scheduler/{__version__}",
        timeout_s=settings.kube_timeout or None,
        qps=settings.kube_qps,
        burst=settings.kube_burst,
    )
    try:
        scheduler = Scheduler(api, loaded, options, lead=leadership(settings, api))
        stop = asyncio.Event()
        watchdog.attach(stop.set)
        loading = asyncio.create_task(load_without_gc(scheduler.cluster))
        try:
            return await scheduler.run_until(stop)
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
    finally:
        await api.close()


async def load_without_gc(cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
    """Switch the garbage collector off until the first sync: objects read until then live as long as the process.

    Args:
        cluster: The cluster that is being read.
        clock: Monotonic seconds.
    """
    started = clock()
    gc.disable()
    try:
        await cluster.synced()
        if clock() - started > QUICK_SYNC_S:
            gc.collect()  # not after a quick sync: with 5,000 nodes it takes 0.4 s and finds nothing
        gc.freeze()
    finally:
        gc.enable()
