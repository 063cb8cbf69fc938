"""A pod that waits is woken by a change of the pod where nothing that kube-scheduler sees would wake it in time."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from types import SimpleNamespace

import orjson
import pytest

from hami_core.kube.decode import decode
from hami_core.kube.objects import Pod
from hami_core.model import PodRequest
from hami_core.scheduler import retry
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire import keys

LABEL = keys.agent_label("acme")


def retries(server, name: str) -> str:
    return server.objects["pods"][f"default/{name}"]["metadata"].get("annotations", {}).get(keys.SCHEDULING_RETRY, "")


async def known(client, *names: str) -> None:
    async with asyncio.timeout(60):
        while not all(f"default/{name}" in client.scheduler.cluster.pods.store for name in names):
            await asyncio.sleep(0.005)


def waiting(name: str, **more):
    """A pod that kube-scheduler has found no node for."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod(name, **more), "status": {"phase": "Pending", "conditions": [refused]}}


class Clock:
    """Monotonic seconds, moved on by hand."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.offset


def quota(memory: str):
    meta = {"name": "q", "namespace": "default", "uid": "q"}
    return {"metadata": meta, "spec": {"hard": {"limits.acme.com/mem": memory}}}


async def woken(server, name: str) -> None:
    async with asyncio.timeout(60):
        while not retries(server, name):
            await asyncio.sleep(0.01)


AWAY = {LABEL: "stopping"}
HERE = {LABEL: "ready"}
TAINT = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (node("n1", labels=AWAY), node("n1", labels=HERE)),
        (node("n1", cards=0, labels=HERE), node("n1", labels=HERE)),
        ({**node("n1"), "spec": {"taints": TAINT}}, node("n1")),
        ({**node("n1"), "spec": {"unschedulable": True}}, node("n1")),
    ],
    ids=["its agent is ready again", "it has devices again", "a taint is gone", "it is uncordoned"],
)
async def test_a_pod_refused_is_woken_when_a_node_changes_to_its_good(server, start, bad, good):
    """Whoever refused it, and again each time."""
    server.minor = "30"
    await server.put("nodes", bad)
    client = await start()
    await server.put("pods", waiting("refused"))
    await server.put("pods", pod("new"))
    await server.put("pods", {**waiting("bound"), "spec": {**pod("bound")["spec"], "nodeName": "n2"}})
    await server.put("pods", {**waiting("plain"), "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await known(client, "refused", "new", "bound", "plain")
    await server.put("nodes", good)
    await woken(server, "refused")
    assert not any(retries(server, name) for name in ("new", "bound", "plain"))
    first = retries(server, "refused")
    await server.put("nodes", bad)
    await server.put("nodes", good)
    async with asyncio.timeout(60):
        while retries(server, "refused") == first:
            await asyncio.sleep(0.01)


async def refused(client, server, *pods):
    """Put pods and have Filter refuse them on node n1."""
    made = [await server.put("pods", one) for one in pods]
    await known(client, *(one["metadata"]["name"] for one in made))
    for one in made:
        assert (await client.filter(one, ["n1"]))["NodeNames"] is None
    return made


async def looked(client):
    """Return when pods have been looked at for what was said so far."""
    pod_retry = client.scheduler.pod_retry
    async with asyncio.timeout(60):
        while pod_retry.is_busy:
            await asyncio.sleep(0.01)


async def test_later_versions_hear_of_nodes_themselves(server, start):
    """But a pod that Filter refused just before the node's change reached us may have been asked for because of it."""
    server.minor = "36"
    now = Clock()
    await server.put("nodes", node("n1", cards=0))
    client = await start(clock=now)
    await refused(client, server, waiting("long-ago"))
    await looked(client)  # for what waited before the scheduler began
    now.offset += retry.INFORMER_LAG_S + 60
    await refused(client, server, waiting("just-now"))
    await server.put("nodes", node("n1"))
    await woken(server, "just-now")
    await looked(client)
    assert not retries(server, "long-ago")


@pytest.mark.parametrize("minor", ["30", "36"])
async def test_a_pod_refused_just_before_a_release_was_seen_is_woken(server, start, minor):
    """kube-scheduler saw the release first, asked at once, was refused, and would ask again after five minutes."""
    server.minor = minor
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    holder = await server.put("pods", pod("holder", mem=10000))
    await known(client, "holder")
    assert (await client.filter(holder, ["n1"]))["NodeNames"] == ["n1"]
    assert await client.bind(holder, "n1") == ""
    await refused(client, server, pod("next", mem=10000), pod("large", gpu=2, mem=10000))
    await server.remove("pods", "default/holder")
    await woken(server, "next")
    await looked(client)
    assert not retries(server, "large"), "woken though nothing fits it"


async def test_a_pod_refused_for_a_place_held_for_another_is_woken_when_the_hold_ends(server, start):
    """kube-scheduler hears of no holds."""
    await server.put("nodes", node("n1", cards=1))
    now = Clock()
    client = await start(clock=now)
    first = await server.put("pods", pod("first", mem=10000))
    await known(client, "first")
    assert (await client.filter(first, ["n1"]))["NodeNames"] == ["n1"]
    await refused(client, server, pod("second", mem=10000))
    now.offset += retry.INFORMER_LAG_S + 60
    await woken(server, "second")


async def test_a_pod_refused_for_a_place_of_a_pod_that_is_gone_is_woken(server, start):
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    first = await server.put("pods", pod("first", mem=10000))
    await known(client, "first")
    assert (await client.filter(first, ["n1"]))["NodeNames"] == ["n1"]
    await refused(client, server, pod("second", mem=10000))
    await server.remove("pods", "default/first")
    await woken(server, "second")


async def test_a_pod_refused_for_a_quota_is_woken_when_that_is_raised(server, start):
    await server.put("nodes", node("n1"))
    await server.put("resourcequotas", quota("1000"))
    now = Clock()
    client = await start(clock=now)
    await refused(client, server, pod("a", mem=2000))
    now.offset += retry.INFORMER_LAG_S + 60
    await server.put("resourcequotas", quota("4000"))
    await woken(server, "a")


async def test_pods_that_waited_before_a_scheduler_began_are_woken(server, start):
    """What the one before it held for other pods is held no more, and nobody says so."""
    await server.put("nodes", node("n1"))
    await server.put("pods", waiting("a"))
    await start()
    await woken(server, "a")


async def test_a_pod_made_again_under_its_name_is_another_one(server, start):
    server.minor = "30"
    await server.put("nodes", node("n1", labels={LABEL: "stopping"}))
    client = await start()
    for name in ("a", "b"):
        await server.put("pods", waiting(name))
    await known(client, "a", "b")
    await server.remove("pods", "default/a")
    await server.put("pods", {**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "another"}})
    async with asyncio.timeout(60):
        while getattr(client.scheduler.cluster.pods.store.get("default/a"), "uid", "") != "another":
            await asyncio.sleep(0.005)
    await server.put("nodes", node("n1"))
    await woken(server, "b")
    assert not retries(server, "a")


async def test_looking_for_places_takes_a_tenth_of_the_time_at_most(monkeypatch):
    """A look that took 50 ms, by the clock, is followed by 450 ms for requests, however much changes."""
    monkeypatch.setattr(retry, "COALESCE_S", 0.01)
    clock, looks = Clock(), []

    def fits(_):
        looks.append(asyncio.get_running_loop().time())
        clock.offset += 0.05
        return False

    waits = decode(Pod, orjson.dumps(waiting("p1")), "test")
    wanted = PodRequest(waits.uid, "default", "p1", ())
    informer = SimpleNamespace(on_change=lambda see: see(None, waits))
    pod_retry = retry.RefusedPodRetry(None, informer, lambda _: True, request=lambda _: wanted, fits=fits, clock=clock)
    pod_retry.refused(wanted)
    running = asyncio.create_task(pod_retry.run())
    try:
        async with asyncio.timeout(60):
            while len(looks) < 3:
                pod_retry.retry_refused()
                await asyncio.sleep(0.005)
    finally:
        running.cancel()
    assert min(later - sooner for sooner, later in pairwise(looks)) >= 0.45
