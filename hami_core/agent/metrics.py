"""The agent's ``/metrics``: the vendors' samples and the agent's own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector

from hami_core.errors import HamiError
from hami_core.http.metrics import metrics_route
from hami_core.http.token import no_token
from hami_core.observe import metrics as tables
from hami_core.observe.exposition import spelling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from prometheus_client.registry import Collector

    from hami_core.agent.vendor import Vendor
    from hami_core.http.serve import Route
    from hami_core.model import ContainerRef, Sample
    from hami_core.observe.exposition import Encoder
    from hami_core.observe.metrics import Row

log = structlog.get_logger(__name__)

MAX_SAMPLE_AGE_S: Final = 5.0
"""Vendors are asked again only when their samples are older than this, however many clients scrape."""


class AgentMetrics:
    """Serves ``/metrics``. A scrape asks the vendors, at most every five seconds.

    Args:
        vendors: The vendors to ask.
        containers: Returns a vendor's live containers by record id, and their regions' host folders.
        own: Returns the agent's own rows.
        extra: Further collectors, such as the one for the build.
        token: Returns the bearer token that a scrape needs; empty: no token is needed.
    """

    def __init__(
        self,
        vendors: Sequence[Vendor],
        containers: Callable[[str], tuple[Mapping[str, ContainerRef], Mapping[str, str]]],
        own: Callable[[], Iterable[Row]],
        *,
        extra: Sequence[Collector] = (),
        token: Callable[[], str] = no_token,
    ) -> None:
        self._vendors = tuple(vendors)
        self._containers = containers
        self._own = own
        # Two vendors may have one metric. It still is one family.
        self._specs = {spec.name: spec for spec in tables.AGENT}
        self._specs |= {name: spec for vendor in vendors for name, spec in vendor.metric_specs.items()}
        self._samples: tuple[Sample, ...] = ()
        self._at = float("-inf")
        self._lock = asyncio.Lock()
        registry = CollectorRegistry()
        for collector in extra:
            registry.register(collector)
        ProcessCollector(registry=registry)
        self._route = metrics_route(registry, token=token, more=self._text)

    def route(self) -> Route:
        """``GET /metrics``."""
        return self._route

    async def _text(self, encode: Encoder, wanted: Callable[[str], bool]) -> AsyncIterator[bytes]:
        await self.refresh()
        return self._families(encode, wanted)

    async def _families(self, encode: Encoder, wanted: Callable[[str], bool]) -> AsyncIterator[bytes]:
        """The text, one piece for each family. Other tasks run in between, so a scrape does not delay an Allocate."""
        rows: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in self._specs}
        for name, labels, value in (*self._rows(), *self._own()):
            rows[name].append((labels, value))
        for name, found in rows.items():
            if not wanted(name):
                continue
            [header], [lines] = spelling([self._specs[name]], encode)
            yield header + "".join([lines.line(labels, value) for labels, value in found]).encode()
            await asyncio.sleep(0)

    async def refresh(self) -> None:
        """Ask the vendors again if our samples are too old. A vendor that fails has no samples this time."""
        async with self._lock:
            if time.monotonic() - self._at < MAX_SAMPLE_AGE_S:
                return
            answers = await asyncio.gather(*(self._ask(vendor) for vendor in self._vendors))
            self._samples = tuple(sample for answer in answers for sample in answer)
            self._at = time.monotonic()

    def _rows(self) -> Iterable[Row]:
        return ((sample.name, sample.labels, sample.value) for sample in self._samples)

    async def _ask(self, vendor: Vendor) -> tuple[Sample, ...]:
        records, regions = self._containers(vendor.name)
        try:
            return await vendor.metrics(records, regions)
        except HamiError as error:
            log.warning("a vendor's metrics are missing", vendor=vendor.name, error=str(error))
            return ()
