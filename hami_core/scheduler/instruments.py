"""The scheduler process's own metrics, and the stacks of its tasks."""

from __future__ import annotations

import asyncio
import io
import time
from functools import partial
from typing import TYPE_CHECKING

from hami_core._version import __version__
from hami_core.http.serve import Request, Response, text
from hami_core.observe import metrics as tables
from hami_core.observe.trace import span
from hami_core.placement.quota_spec import Fault
from hami_core.scheduler import state
from hami_core.scheduler.scrape import StateText
from hami_core.scheduler.verification import SignatureProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.http.serve import Handler
    from hami_core.placement.quota_spec import Finding
    from hami_core.scheduler.cluster import Cluster
    from hami_core.scheduler.credentials.reconciler import CredentialReconciler, Credentials
    from hami_core.scheduler.keyring import Keyring
    from hami_core.scheduler.leadership import BindGate


class Instruments:
    """The process's metrics.

    Args:
        cluster: The local copy of the cluster.
        gate: Knows whether this replica leads.
        legacy: Also serve HAMi's old metric names.
    """

    def __init__(self, cluster: Cluster, gate: BindGate, *, legacy: bool = False) -> None:
        self._metrics = tables.Metrics(tables.SCHEDULER)
        self.registry = self._metrics.registry
        self.state = StateText(cluster.inventory, cluster.pods, legacy=legacy)
        self.registry.register(tables.StateCollector(tables.PLUGINS, lambda: state.plugin_rows(cluster.loaded)))
        self.registry.register(tables.build_info(__version__))
        self._gauges(cluster, gate)

    def timed(self, verb: str, handler: Handler) -> Handler:
        """Wrap a handler: measure its time and result, and open a trace span if OpenTelemetry is installed."""
        histogram = self._metrics.histogram("hami_scheduler_request_duration_seconds")
        series = {result: histogram.labels(verb=verb, result=result) for result in ("ok", "refused", "error")}

        async def timed(request: Request) -> Response:
            started = time.perf_counter()
            with span(verb):
                response = await handler(request)
            series[result_of(verb, response)].observe(time.perf_counter() - started)
            return response

        return timed

    def watch_credentials(self, credentials: Credentials, keyring: Keyring) -> None:
        """Add metrics about the credentials that this process issues."""
        gauge = self._metrics.gauge
        gauge("hami_scheduler_certificate_expiry_timestamp_seconds").set_function(lambda: credentials.expires_at)
        gauge("hami_scheduler_signing_keys").set_function(lambda: float(len(keyring.public)))
        for reconciler in credentials.reconcilers:
            error = partial(_is_failing, reconciler)
            gauge("hami_scheduler_credential_error").labels(credential=reconciler.name).set_function(error)

    def _gauges(self, cluster: Cluster, gate: BindGate) -> None:
        gauge, inventory = self._metrics.gauge, cluster.inventory
        gauge("hami_scheduler_leader").set_function(lambda: float(gate.is_leader))
        gauge("hami_scheduler_epoch").set_function(lambda: float(gate.epoch))
        gauge("hami_scheduler_holds").set_function(lambda: float(inventory.hold_count))
        gauge("hami_scheduler_bookings").set_function(lambda: float(inventory.booking_count))
        gauge("hami_scheduler_closed_nodes").set_function(lambda: float(len(cluster.closed)))
        problems = cluster.verification.problems
        allocations_in_doubt = gauge("hami_scheduler_allocations_in_doubt")
        allocations_in_doubt.labels(reason="unreadable").set_function(lambda: float(len(cluster.unreadable)))
        for problem in SignatureProblem:
            count = partial(_count, problems, problem)
            allocations_in_doubt.labels(reason=problem.value).set_function(count)
        for fault in Fault:
            entries = partial(_count_entries, cluster.quota_findings, fault)
            gauge("hami_scheduler_quota_entries_at_fault").labels(reason=fault.value).set_function(entries)
        gauge("hami_cache_drift").set_function(lambda: float(cluster.drift))
        for informer in cluster.informers:
            name, store, synced = informer.resource.plural, informer.store, informer.synced
            gauge("hami_informer_objects").labels(resource=name).set_function(partial(_size, store))
            gauge("hami_informer_synced").labels(resource=name).set_function(partial(_is_set, synced))


def _is_failing(reconciler: CredentialReconciler) -> float:
    return float(bool(reconciler.error))


def _size(store: Mapping[str, object]) -> float:
    return float(len(store))


def _count(problems: Mapping[str, SignatureProblem], kind: SignatureProblem) -> float:
    return float(sum(1 for problem in problems.values() if problem is kind))


def _count_entries(found: Mapping[str, tuple[Finding, ...]], fault: Fault) -> float:
    return float(sum(1 for entries in found.values() for entry in entries if entry.fault is fault))


def _is_set(event: asyncio.Event) -> float:
    return float(event.is_set())


def result_of(verb: str, response: Response) -> str:
    """``ok``, ``refused`` or ``error``, read from the answer."""
    if response.status != 200:
        return "error"
    if verb in {"filter", "bind"} and not response.body.endswith(b'"Error":""}'):
        return "error"
    if verb == "filter" and b'"NodeNames":null' in response.body[:4096] and b'"Nodes":null' in response.body[:4096]:
        return "refused"
    if verb == "webhook" and b'"allowed":false' in response.body[:256]:
        return "refused"
    return "ok"


async def stacks(_: Request) -> Response:
    """Answer the stacks of all tasks."""
    out = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(file=out)
    return text(200, out.getvalue())
