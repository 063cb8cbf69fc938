"""The text that is cached node by node always equals the text written from scratch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from hami_core.inventory import Inventory
from hami_core.kube.objects import ObjectMeta, Pod, PodSpec, PodStatus
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerSlices,
    Device,
    DeviceUsage,
    MigPlacement,
    NodeFacts,
    Slice,
    VendorRules,
)
from hami_core.observe import metrics as tables
from hami_core.scheduler import state
from hami_core.scheduler.scrape import StateText
from hami_core.tests.inventory.test_stateful import LIMIT, NODES, Machine
from hami_core.tests.inventory.worlds import rules
from hami_core.wire import keys
from hami_core.wire.mig import MigReservation, encode_reservations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hami_core.observe.metrics import Row

ACCEPTS = [
    "",
    "application/openmetrics-text",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;version=0.0.4;q=0.2",
    "application/openmetrics-text;version=1.0.0;escaping=values",
    "text/plain;version=1.0.0;escaping=dots",
]


class Pods:
    """The part of an informer that is used: callbacks for changes."""

    def __init__(self) -> None:
        self.store: dict[str, Pod] = {}
        self._tell: Callable[[Pod | None, Pod | None], None] = lambda _old, _new: None

    def on_change(self, handler: Callable[[Pod | None, Pod | None], None]) -> None:
        self._tell = handler

    def put(self, name: str, pod: Pod | None) -> None:
        old = self.store.pop(name, None)
        if pod is not None:
            self.store[name] = pod
        self._tell(old, pod)


def reserving(name: str, node: str, *, made: bool, phase: str) -> Pod:
    """A pod whose MIG instance was made, or not yet."""
    instance = ("MIG-1", 1, 0) if made else ()
    reservation = MigReservation(0, 0, f"{node}-0", "1g.5gb", MigPlacement(0, 1), *instance)
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=name,
        annotations={keys.MIG_ALLOCATIONS: encode_reservations([reservation])},
    )
    return Pod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase=phase))


class Scraped(Machine):
    """The histories of the stateful inventory test, with scrapes in between."""

    @initialize(mig=st.booleans(), keeps=st.booleans())
    def start(self, mig: bool, keeps: bool) -> None:
        super().start(mig, keeps)
        self.pods = Pods()
        self.text = StateText(self.inventory, self.pods, legacy=True, piece_s=0)  # type: ignore[arg-type]

    @rule(name=st.sampled_from("ab"), node=st.sampled_from([*NODES, "gone"]), made=st.booleans(), ended=st.booleans())
    def reserve(self, name: str, node: str, made: bool, ended: bool) -> None:
        self.pods.put(name, reserving(name, node, made=made, phase="Succeeded" if ended else "Running"))

    @rule(name=st.sampled_from("ab"))
    def forget(self, name: str) -> None:
        self.pods.put(name, None)

    @rule(namespace=st.sampled_from(["limited", "free"]), some=st.booleans())
    def limit(self, namespace: str, some: bool) -> None:
        if some or namespace == "limited":
            self.inventory.set_quota(namespace, "q2", {"limits.nvidia.com/gpumem": str(LIMIT * (10 if some else 2))})
        else:
            self.inventory.remove_quota(namespace, "q2")

    @rule(accept=st.sampled_from(ACCEPTS))
    def scrape(self, accept: str) -> None:
        assert asyncio.run(self._scrape(accept)) == self._from_scratch(accept)

    @rule(accept=st.sampled_from(ACCEPTS), node=st.sampled_from(NODES))
    def change_during_a_scrape(self, accept: str, node: str) -> None:
        async def both() -> None:
            scraping = asyncio.create_task(self._scrape(accept))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.remove_node(node)
            await asyncio.sleep(0)
            self.put_node(node)
            await scraping

        asyncio.run(both())

    def teardown(self) -> None:
        if hasattr(self, "text"):
            self.scrape("")

    async def _scrape(self, accept: str) -> str:
        encode, _ = choose_encoder(accept)
        return b"".join([piece async for piece in await self.text.scrape(encode)]).decode()

    def _from_scratch(self, accept: str) -> str:
        registry = CollectorRegistry()
        registry.register(tables.StateCollector(tables.HAMI_SCHEDULER, self._rows))
        registry.register(tables.StateCollector(tables.HAMI_SCHEDULER_LEGACY, lambda: state.legacy(self._rows())))
        encode, _ = choose_encoder(accept)
        return encode(registry).decode().removesuffix("# EOF\n")

    def _rows(self) -> Iterator[Row]:
        pods = [pod for pod in self.pods.store.values() if not pod.is_terminal]
        booked = {booking.allocation.node for booking in self.inventory.bookings()}
        for node in sorted({*self.inventory.node_names(), *booked, *(pod.spec.node_name for pod in pods)}):
            yield from state.node_rows(self.inventory, node, [pod for pod in pods if pod.spec.node_name == node])
        yield from state.quota_rows(self.inventory)


def test_cached_text_equals_text_from_scratch() -> None:
    relaxed: Any = list(HealthCheck)
    run_state_machine_as_test(
        Scraped,
        settings=settings(max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=relaxed),
    )


def test_label_values_are_escaped_as_the_encoder_does() -> None:
    machine = Scraped()
    machine.start(False, False)
    odd = 'a "b"\\c\nd %s \x010\x01'
    device = Device(odd, 0, 3, 40960, 100, odd, "NVIDIA", 0)
    machine.inventory.set_node(NodeFacts(odd), {"NVIDIA": [device]})
    for accept in ACCEPTS:
        machine.scrape(accept)
    assert '\\"b\\"\\\\c\\nd %s' in asyncio.run(machine._scrape(""))


class Asked(Inventory):
    """Remembers the nodes whose usage was asked for."""

    def usage(self, node: str) -> tuple[DeviceUsage, ...]:
        self.asked.append(node)
        return super().usage(node)


def test_only_nodes_that_changed_are_written_again() -> None:
    inventory = Asked(rules())
    inventory.asked = []
    for node in NODES:
        inventory.set_node(NodeFacts(node), {"NVIDIA": [Device(node, 0, 3, 40960, 100, "A100", "NVIDIA", 0)]})
    text = StateText(inventory, Pods())  # type: ignore[arg-type]

    async def scrape(accept: str) -> str:
        inventory.asked.clear()
        return b"".join([piece async for piece in await text.scrape(choose_encoder(accept)[0])]).decode()

    assert 'node="n2"' in asyncio.run(scrape(""))
    assert sorted(inventory.asked) == NODES
    asyncio.run(scrape("application/openmetrics-text"))
    assert inventory.asked == []
    inventory.remove_node("n2")
    assert 'node="n2"' not in asyncio.run(scrape(""))
    assert inventory.asked == ["n2"]


async def test_a_scheduler_serves_both_formats(start: Any) -> None:
    client = await start()
    url = f"http://{client.scheduler.addresses[-1]}/metrics"
    openmetrics = {"Accept": "application/openmetrics-text;version=1.0.0"}
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            plain = await response.text()
        async with session.get(url, headers=openmetrics) as response:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            text = await response.text()
        async with session.head(url) as response:
            assert response.status == 200
    parsed = {family.name: family.type for family in parse_openmetrics(text)}  # the parser wants one mark, at the end
    assert {family.name for family in parse_plain(plain)} >= {spec.name for spec in tables.HAMI_SCHEDULER}
    assert {parsed[spec.name] for spec in tables.HAMI_SCHEDULER} == {"gauge"}
    assert "hami_scheduler_holds" in parsed


def test_compute_units_are_shown_in_percent() -> None:
    """HAMi does so for AMD: a device's limit is 100, and what is booked is rounded up."""
    family = replace(rules()[0].family, cores_are_units=True)
    inventory = Inventory([VendorRules(family)])
    device = Device("d0", 0, 10, 1024, 304, "MI300X", family.word)
    inventory.set_node(NodeFacts("n1"), {family.word: [device]})
    slices = ContainerSlices("c", ContainerKind.APP, (Slice("d0", family.word, 512, 100),))
    inventory.set_pod(Booking("u", "ns", "p", Allocation("n1", (slices,))))
    values = {name: value for name, _, value in state.node_rows(inventory, "n1", ())}
    assert values["hami_gpu_core_limit_ratio"] == 100
    assert values["hami_gpu_core_allocated_ratio"] == values["hami_vgpu_core_allocated_ratio"] == 33


async def test_a_scheduler_sends_only_the_named_metrics(start: Any) -> None:
    client = await start()
    url = f"http://{client.scheduler.addresses[-1]}/metrics?name[]=hami_scheduler_holds&name[]=hami_gpu_shared_count"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        parsed = [family.name for family in parse_plain(await response.text())]
    assert parsed == ["hami_gpu_shared_count", "hami_scheduler_holds"]
