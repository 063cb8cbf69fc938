"""A pod with policy mutex keeps later pods off its card, over HTTP and after a restart."""

from __future__ import annotations

import pytest

from hami_core.scheduler.options import from_settings
from hami_core.settings import SchedulerSettings
from hami_core.tests.scheduler.vendor import ALLOCATED, node, pod
from hami_core.wire import keys

POLICY = {keys.DEVICE_POLICY: "mutex"}


def defaults(*arguments):
    return from_settings(SchedulerSettings.from_arguments(["--http-bind=127.0.0.1:0", *arguments])[0]).defaults


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [(["--mutex-keeps-devices"], "1/1 ExclusiveDeviceAllocateConflict"), ([], None)],
    ids=["on", "default"],
)
async def test_restarted_scheduler_refuses_the_card_of_a_mutex_pod(server, start, arguments, refusal):
    await server.put("nodes", node("n1", cards=1))
    annotations = {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,1000,10:;", **POLICY}
    await server.put("pods", pod("alone", metadata={"annotations": annotations}, spec={"nodeName": "n1"}))
    client = await start(defaults=defaults(*arguments))
    answer = await client.filter(pod("intruder"), ["n1"])
    assert (answer["FailedNodes"] or {}).get("n1") == refusal


async def test_pod_bound_with_mutex_keeps_its_card(server, start):
    await server.put("nodes", node("n1", cards=2))
    client = await start(defaults=defaults("--mutex-keeps-devices"))
    for name, more in (("alone", {"metadata": {"annotations": POLICY}}), ("filler", {"mem": 10_000, "cores": 0})):
        made = await server.put("pods", pod(name, **more))
        assert (await client.filter(made, ["n1"]))["NodeNames"] == ["n1"]
        assert await client.bind(made, "n1") == ""
    answer = await client.filter(pod("intruder"), ["n1"])
    assert answer["FailedNodes"] == {"n1": "1/2 CardInsufficientMemory, 1/2 ExclusiveDeviceAllocateConflict"}
