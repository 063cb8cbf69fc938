"""A refused pod is changed, so that kube-scheduler retries it, if kube-scheduler sees no other event in time."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from types import SimpleNamespace

import orjson
import pytest

from hami_core.kube.decode import decode
from hami_core.kube.informer import PAGE
from hami_core.kube.objects import Pod
from hami_core.model import PodRequest
from hami_core.scheduler import retry
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.vendor import ALLOCATED, node, pod
from hami_core.wire import keys

LABEL = keys.agent_label("acme")


def retries(server, name: str) -> str:
    return server.objects["pods"][f"default/{name}"]["metadata"].get("annotations", {}).get(keys.SCHEDULING_RETRY, "")


async def until_known(client, *names: str) -> None:
    async with asyncio.timeout(60):
        while not all(f"default/{name}" in client.scheduler.cluster.pods.store for name in names):
            await asyncio.sleep(0.005)


def waiting(name: str, **more):
    """A pod that kube-scheduler has found no node for."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod(name, **more), "status": {"phase": "Pending", "conditions": [refused]}}


class Clock:
    """Monotonic seconds that a test can advance."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.offset


def quota(memory: str):
    meta = {"name": "q", "namespace": "default", "uid": "q"}
    return {"metadata": meta, "spec": {"hard": {"limits.acme.com/mem": memory}}}


async def until_retried(server, name: str) -> None:
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
async def test_refused_pod_is_retried_when_a_node_may_fit(server, start, bad, good):
    """It does not matter who refused the pod. Each change causes a new retry."""
    server.minor = "30"
    await server.put("nodes", bad)
    client = await start()
    await server.put("pods", waiting("refused"))
    await server.put("pods", pod("new"))
    await server.put("pods", {**waiting("bound"), "spec": {**pod("bound")["spec"], "nodeName": "n2"}})
    await server.put("pods", {**waiting("plain"), "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await until_known(client, "refused", "new", "bound", "plain")
    await server.put("nodes", good)
    await until_retried(server, "refused")
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
    await until_known(client, *(one["metadata"]["name"] for one in made))
    for one in made:
        assert (await client.filter(one, ["n1"]))["NodeNames"] is None
    return made


async def until_idle(client):
    """Wait until refused pods have been checked after all changes so far."""
    pod_retry = client.scheduler.pod_retry
    async with asyncio.timeout(60):
        while pod_retry.is_busy:
            await asyncio.sleep(0.01)


async def test_new_kube_scheduler_retries_after_node_changes(server, start):
    """We retry only pods that were refused just before we saw the change: kube-scheduler may have seen it earlier."""
    server.minor = "36"
    now = Clock()
    await server.put("nodes", node("n1", cards=0))
    client = await start(clock=now)
    await refused(client, server, waiting("long-ago"))
    await until_idle(client)  # the first check, of pods that waited before the scheduler started
    now.offset += retry.INFORMER_LAG_S + 60
    await refused(client, server, waiting("just-now"))
    await server.put("nodes", node("n1"))
    await until_retried(server, "just-now")
    await until_idle(client)
    assert not retries(server, "long-ago")


@pytest.mark.parametrize("minor", ["30", "36"])
async def test_pod_refused_just_before_a_pod_ends_is_retried(server, start, minor):
    """kube-scheduler saw the end of the pod first, asked at once and was refused. It would wait for five minutes."""
    server.minor = minor
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    holder = await server.put("pods", pod("holder", mem=10000))
    await until_known(client, "holder")
    assert (await client.filter(holder, ["n1"]))["NodeNames"] == ["n1"]
    assert await client.bind(holder, "n1") == ""
    await refused(client, server, pod("next", mem=10000), pod("large", gpu=2, mem=10000))
    await server.remove("pods", "default/holder")
    await until_retried(server, "next")
    await until_idle(client)
    assert not retries(server, "large"), "retried although it fits nowhere"


async def test_refused_pod_is_retried_when_a_hold_expires(server, start):
    """kube-scheduler does not see holds."""
    await server.put("nodes", node("n1", cards=1))
    now = Clock()
    client = await start(clock=now)
    first = await server.put("pods", pod("first", mem=10000))
    await until_known(client, "first")
    assert (await client.filter(first, ["n1"]))["NodeNames"] == ["n1"]
    await refused(client, server, pod("second", mem=10000))
    now.offset += retry.INFORMER_LAG_S + 60
    await until_retried(server, "second")


async def test_refused_pod_is_retried_when_the_held_pod_goes(server, start):
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    first = await server.put("pods", pod("first", mem=10000))
    await until_known(client, "first")
    assert (await client.filter(first, ["n1"]))["NodeNames"] == ["n1"]
    await refused(client, server, pod("second", mem=10000))
    await server.remove("pods", "default/first")
    await until_retried(server, "second")


async def test_refused_pod_is_retried_when_its_quota_is_raised(server, start):
    await server.put("nodes", node("n1"))
    await server.put("resourcequotas", quota("1000"))
    now = Clock()
    client = await start(clock=now)
    await refused(client, server, pod("a", mem=2000))
    now.offset += retry.INFORMER_LAG_S + 60
    await server.put("resourcequotas", quota("4000"))
    await until_retried(server, "a")


async def test_new_scheduler_retries_waiting_pods(server, start):
    """The holds of the earlier scheduler are gone, and no event says so."""
    await server.put("nodes", node("n1"))
    await server.put("pods", waiting("a"))
    await start()
    await until_retried(server, "a")


async def test_no_pod_is_retried_before_the_cluster_is_read(server, start, monkeypatch):
    """The first page of pods has the waiting pod. The second page has the pod that takes all of the node."""
    monkeypatch.setattr(retry, "COALESCE_S", 0.01)
    await server.put("nodes", node("n1", cards=1))
    await server.put("resourcequotas", quota("1000000"))
    await server.put("pods", waiting("a", mem=10000))
    for number in range(PAGE - 1):
        await server.put("pods", plain_pod(f"p{number:03}"))
    taken = {"annotations": {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,10000,100:;"}}
    await server.put("pods", pod("z", mem=10000, spec={"nodeName": "n1"}, metadata=taken))
    server.faults.append(lambda _, path: Fault(delay_s=0.5, late=True) if "continue=" in path else None)
    client = await start()
    await until_idle(client)
    assert client.scheduler.cluster.inventory.booking("uid-z") is not None
    assert not retries(server, "a")


async def test_recreated_pod_does_not_inherit_the_refusal(server, start):
    server.minor = "30"
    await server.put("nodes", node("n1", labels={LABEL: "stopping"}))
    client = await start()
    for name in ("a", "b"):
        await server.put("pods", waiting(name))
    await until_known(client, "a", "b")
    await server.remove("pods", "default/a")
    await server.put("pods", {**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "another"}})
    async with asyncio.timeout(60):
        while getattr(client.scheduler.cluster.pods.store.get("default/a"), "uid", "") != "another":
            await asyncio.sleep(0.005)
    await server.put("nodes", node("n1"))
    await until_retried(server, "b")
    assert not retries(server, "a")


async def test_searches_take_at_most_a_tenth_of_the_time(monkeypatch):
    """After a search of 50 ms, requests have 450 ms, however much changes."""
    monkeypatch.setattr(retry, "COALESCE_S", 0.01)
    clock, searches = Clock(), []

    def fits(_):
        searches.append(asyncio.get_running_loop().time())
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
            while len(searches) < 3:
                pod_retry.retry_refused()
                await asyncio.sleep(0.005)
    finally:
        running.cancel()
    assert min(later - sooner for sooner, later in pairwise(searches)) >= 0.45


async def test_search_long_ago_delays_no_later_one():
    """The pause of an hour after a search of 400 s is over when the next change comes."""
    clock, searches = Clock(), []

    def fits(_):
        searches.append(clock.offset)
        clock.offset += 400
        return False

    waits = decode(Pod, orjson.dumps(waiting("p1")), "test")
    wanted = PodRequest(waits.uid, "default", "p1", ())
    informer = SimpleNamespace(on_change=lambda see: see(None, waits))
    pod_retry = retry.RefusedPodRetry(None, informer, lambda _: True, request=lambda _: wanted, fits=fits, clock=clock)
    pod_retry.refused(wanted)
    running = asyncio.create_task(pod_retry.run())
    try:
        async with asyncio.timeout(60):
            for _ in range(2):
                pod_retry.retry_refused()
                while pod_retry.is_busy:
                    await asyncio.sleep(0.01)
                clock.offset += 3600
    finally:
        running.cancel()
    assert searches == [0, 4000]


@pytest.mark.parametrize("by_filter", [True, False], ids=["refused by Filter", "refused by kube-scheduler"])
async def test_other_tasks_run_during_a_search_of_many_pods(by_filter):
    """To read a request takes 1 ms here, and so does a search. Other tasks run at least after every third pod."""
    clock, pods, seen, searches, turns = Clock(), 300, [], [], 0

    def request(pod):
        clock.offset += 0.001
        return PodRequest(pod.uid, "default", pod.metadata.name, ())

    def fits(wanted):
        clock.offset += 0.001
        searches.append(wanted.uid)
        return False

    waits = [decode(Pod, orjson.dumps(waiting(f"p{number}")), "test") for number in range(pods)]
    informer = SimpleNamespace(on_change=seen.append)
    pod_retry = retry.RefusedPodRetry(None, informer, lambda _: True, request=request, fits=fits, clock=clock)
    for number, one in enumerate(waits):
        seen[0](None, one)
        if by_filter:
            pod_retry.refused(PodRequest(one.uid, f"tenant-{number}", one.metadata.name, ()))
    pod_retry.retry_refused()
    running = asyncio.create_task(pod_retry.run())
    try:
        async with asyncio.timeout(60):
            while pod_retry.is_busy:
                turns += bool(searches)
                await asyncio.sleep(0)
    finally:
        running.cancel()
    assert len(searches) == (pods if by_filter else 1), "pods of one shape are searched once"
    assert turns >= pods / 3
