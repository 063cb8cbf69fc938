"""The agent's ``/metrics``: the agent's table and the vendors' tables."""

from __future__ import annotations

from hami_core import DeviceError, MetricSpec, Sample
from hami_core.agent.metrics import AgentMetrics
from hami_core.http.serve import Request

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


async def scrape(vendor: Acme, rows=()) -> str:
    made = AgentMetrics([vendor], lambda _: ({}, {}), lambda: rows)
    return (await made.route().handler(Request("GET", "/metrics"))).body.decode()


async def test_vendors_samples_have_help_and_type_of_the_table():
    text = await scrape(Acme(Sample(CARDS.name, {"device": "a"}, 61), Sample(RESETS.name, {"device": "a"}, 2)))
    assert "# HELP hami_acme_temperature_celsius Temperature of the card.\n" in text
    assert "# TYPE hami_acme_temperature_celsius gauge\n" in text
    assert 'hami_acme_temperature_celsius{device="a",zone="vGPU"} 61.0\n' in text
    assert "# HELP hami_acme_resets_total Resets of the card.\n" in text
    assert "# TYPE hami_acme_resets_total counter\n" in text
    assert 'hami_acme_resets_total{device="a"} 2.0\n' in text


async def test_a_vendor_that_fails_leaves_the_agents_own_metrics():
    text = await scrape(Acme(), [("hami_agent_evictions_total", {"node": "n1"}, 3.0)])
    assert "# TYPE hami_agent_evictions_total counter\n" in text
    assert 'hami_agent_evictions_total{node="n1"} 3.0\n' in text
    assert "\nhami_acme" not in text
