"""kube-scheduler before 1.32 hears of nodes in vain; what wakes a pod there is a change of the pod."""

from __future__ import annotations

import asyncio

import pytest

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


async def test_later_versions_need_nobodys_help(server, start):
    server.minor = "36"
    await server.put("nodes", node("n1", cards=0))
    client = await start()
    p = await server.put("pods", waiting("a"))
    await known(client, "a")
    assert (await client.filter(p, ["n1"]))["NodeNames"] is None
    await server.put("nodes", node("n1"))
    async with asyncio.timeout(60):
        while (await client.filter(p, ["n1"]))["NodeNames"] is None:
            await asyncio.sleep(0.01)
    assert not client.scheduler.waker.is_needed
    assert not [r for r in server.requests if r[0] == "PATCH" and r[1].endswith("/pods/a")]


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
