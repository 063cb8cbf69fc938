"""The agent's ``/metrics``: the agent's table and the vendors' tables."""

from __future__ import annotations

import pytest
from multidict import MultiDict
from prometheus_client.exposition import choose_encoder

from hami_core import DeviceError, MetricSpec, Sample
from hami_core.agent.metrics import AgentMetrics
from hami_core.http.serve import Request
from hami_core.observe.metrics import StateCollector

CARDS = MetricSpec.gauge("hami_acme_temperature_celsius", "Temperature of the card.", "device", zoned=True)
RESETS = MetricSpec.counter("hami_acme_resets_total", "Resets of the card.", "device")


class Acme:
    """A vendor with a table of metrics."""

    name = "acme"
    metric_specs = {spec.name: spec for spec in (CARDS, RESETS)}  # noqa: RUF012 - read only

    def __init__(self, *samples: Sample) -> None:
        self.samples = samples

    async def metrics(self, records, regions):
        if not self.samples:
            raise DeviceError("acme: metrics failed")
        return self.samples


async def scrape(*vendors: Acme, rows=()) -> str:
    made = AgentMetrics(vendors, lambda _: ({}, {}), lambda: rows)
    answer = await made.route().handler(Request("GET", "/metrics"))
    return (answer.body + b"".join([piece async for piece in answer.stream])).decode()


async def test_vendors_samples_have_help_and_type_of_the_table():
    text = await scrape(Acme(Sample(CARDS.name, {"device": "a"}, 61), Sample(RESETS.name, {"device": "a"}, 2)))
    assert "# HELP hami_acme_temperature_celsius Temperature of the card.\n" in text
    assert "# TYPE hami_acme_temperature_celsius gauge\n" in text
    assert 'hami_acme_temperature_celsius{device="a",zone="vGPU"} 61.0\n' in text
    assert "# HELP hami_acme_resets_total Resets of the card.\n" in text
    assert "# TYPE hami_acme_resets_total counter\n" in text
    assert 'hami_acme_resets_total{device="a"} 2.0\n' in text


async def test_a_vendor_that_fails_leaves_the_agents_own_metrics():
    text = await scrape(Acme(), rows=[("hami_agent_evictions_total", {"node": "n1"}, 3.0)])
    assert "# TYPE hami_agent_evictions_total counter\n" in text
    assert 'hami_agent_evictions_total{node="n1"} 3.0\n' in text
    assert "\nhami_acme" not in text


async def test_a_metric_of_two_vendors_is_one_family():
    first, second = (Acme(Sample(RESETS.name, {"device": name}, 2)) for name in "ab")
    text = await scrape(first, second)
    assert text.count("# TYPE hami_acme_resets_total counter\n") == 1
    assert 'hami_acme_resets_total{device="a"} 2.0\nhami_acme_resets_total{device="b"} 2.0\n' in text


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0", "text/plain;version=1.0.0"])
async def test_the_text_is_what_prometheus_client_writes(accept):
    odd = 'a"b\\c\nd'
    samples = Sample(CARDS.name, {"device": odd}, 61), Sample(RESETS.name, {"device": "é"}, 2e9)
    made = AgentMetrics([Acme(*samples)], lambda _: ({}, {}), lambda: ())
    answer = await made.route().handler(Request("GET", "/metrics", headers={"accept": accept}))
    text = b"".join([piece async for piece in answer.stream])
    encode, content_type = choose_encoder(accept)
    table = StateCollector([CARDS, RESETS], lambda: [(s.name, s.labels, s.value) for s in samples])
    assert encode(table).removesuffix(b"# EOF\n") in text
    assert answer.content_type == content_type
    assert text.endswith(b"# EOF\n") == ("openmetrics" in accept)


async def test_only_the_named_metrics_are_sent():
    vendor = Acme(Sample(CARDS.name, {"device": "a"}, 61), Sample(RESETS.name, {"device": "a"}, 2))
    made = AgentMetrics([vendor], lambda _: ({}, {}), lambda: [("hami_agent_evictions_total", {"node": "n1"}, 3.0)])

    async def named(*names: str) -> list[str]:
        query = MultiDict(("name[]", name) for name in names)
        answer = await made.route().handler(Request("GET", "/metrics", query=query))
        text = b"".join([piece async for piece in answer.stream]).decode()
        return [line for line in text.splitlines() if not line.startswith("#")]

    assert await named(RESETS.name, "hami_agent_evictions_total") == [
        'hami_agent_evictions_total{node="n1"} 3.0',
        'hami_acme_resets_total{device="a"} 2.0',
    ]
    assert [line.split()[0] for line in await named("process_start_time_seconds")] == ["process_start_time_seconds"]
    assert await named("no_such_metric") == []
