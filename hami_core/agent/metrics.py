"""The agent's ``/metrics``: what vendors measure, under their names, and what the agent itself counts."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hami_core.errors import HamiError
from hami_core.http.metrics import metrics_route, no_token
from hami_core.http.serve import Request, Response, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hami_core.agent.vendor import Vendor
    from hami_core.model import ContainerRef, Sample

log = structlog.get_logger(__name__)

FRESH_S: Final = 5.0
"""Vendors are asked at most this often, however many scrape."""


class SampleCollector(Collector):
    """Samples as gauges; samples of one name may differ in labels (missing ones are empty)."""

    def __init__(self, read: Callable[[], Iterable[Sample]]) -> None:
        self._read = read

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: what there will be is not known before."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family a name."""
        by_name: dict[str, list[Sample]] = {}
        for sample in self._read():
            by_name.setdefault(sample.name, []).append(sample)
        for name, samples in sorted(by_name.items()):
            labels = sorted({label for sample in samples for label in sample.labels})
            family = GaugeMetricFamily(name, samples[0].help, labels=labels)
            for sample in samples:
                family.add_metric([sample.labels.get(label, "") for label in labels], sample.value)
            yield family


class AgentMetrics:
    """Asks vendors when scraped, at most every five seconds, and serves what it knows meanwhile.

    Args:
        vendors: Whom to ask.
        containers: Live containers by record id, and their regions' host folders.
        own: What the agent itself says.
        extra: Further collectors, such as the build's.
        token: Says which bearer token a scrape needs; empty: none.
    """

    def __init__(
        self,
        vendors: Sequence[Vendor],
        containers: Callable[[str], tuple[Mapping[str, ContainerRef], Mapping[str, str]]],
        own: Callable[[], Iterable[Sample]],
        *,
        extra: Sequence[Collector] = (),
        token: Callable[[], str] = no_token,
    ) -> None:
        self._vendors = tuple(vendors)
        self._containers = containers
        self._samples: tuple[Sample, ...] = ()
        self._at = float("-inf")
        self._lock = asyncio.Lock()
        registry = CollectorRegistry()
        registry.register(SampleCollector(lambda: (*self._samples, *own())))
        for collector in extra:
            registry.register(collector)
        ProcessCollector(registry=registry)
        self._inner = metrics_route(registry, token=token)

    def route(self) -> Route:
        """``GET /metrics``."""
        return Route("GET", "/metrics", self._serve)

    async def _serve(self, request: Request) -> Response:
        await self.refresh()
        return await self._inner.handler(request)

    async def refresh(self) -> None:
        """Ask the vendors again if what we have is old. A vendor that fails has no samples this time."""
        async with self._lock:
            if time.monotonic() - self._at < FRESH_S:
                return
            answers = await asyncio.gather(*(self._ask(vendor) for vendor in self._vendors))
            self._samples = tuple(sample for answer in answers for sample in answer)
            self._at = time.monotonic()

    async def _ask(self, vendor: Vendor) -> tuple[Sample, ...]:
        records, regions = self._containers(vendor.name)
        try:
            return await vendor.metrics(records, regions)
        except HamiError as error:
            log.warning("a vendor's metrics are missing", vendor=vendor.name, error=str(error))
            return ()
