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


async def woken(server, name: str) -> None:
    async with asyncio.timeout(60):
        while not retries(server, name):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["its agent is ready again", "a device is healthy again"])
async def test_a_pod_refused_is_woken_when_a_node_changes_to_its_good(server, start, how):
    server.minor = "30"
    good = node("n1", labels={LABEL: "ready"})
    bad = node("n1", labels={LABEL: "stopping"}) if "agent" in how else node("n1", cards=0, labels={LABEL: "ready"})
    await server.put("nodes", bad)
    await server.put("nodes", node("n2"))
    client = await start()
    one, two = await server.put("pods", pod("refused")), await server.put("pods", pod("placed"))
    await known(client, "refused", "placed")
    assert (await client.filter(one, ["n1"]))["NodeNames"] is None
    assert (await client.filter(two, ["n1"]))["NodeNames"] is None
    assert (await client.filter(two, ["n1", "n2"]))["NodeNames"] == ["n2"]
    await server.put("nodes", good)
    await woken(server, "refused")
    assert not retries(server, "placed"), "whoever has a place is left alone"
    assert (await client.filter(one, ["n1"]))["NodeNames"] == ["n1"]


async def test_later_versions_need_nobodys_help(server, start):
    server.minor = "36"
    await server.put("nodes", node("n1", cards=0))
    client = await start()
    p = await server.put("pods", pod("a"))
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
    old, other = await server.put("pods", pod("a")), await server.put("pods", pod("b"))
    await known(client, "a", "b")
    for p in (old, other):
        assert (await client.filter(p, ["n1"]))["NodeNames"] is None
    await server.remove("pods", "default/a")
    await server.put("pods", {**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "another"}})
    async with asyncio.timeout(60):
        while getattr(client.scheduler.cluster.pods.store.get("default/a"), "uid", "") != "another":
            await asyncio.sleep(0.005)
    await server.put("nodes", node("n1"))
    await woken(server, "b")
    assert not retries(server, "a")
