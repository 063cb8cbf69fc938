"""Nodes whose agent says that it gives no devices now: no pod is sent there, and everybody is told why."""

from __future__ import annotations

import asyncio

import pytest

from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire import keys

LABEL = keys.agent_label("acme")
REPLACED = "the node's acme agent is being replaced"


async def say(server, name: str, word: str | None) -> None:
    """The agent of a node says a word, or nothing any more."""
    now = server.objects["nodes"][name]
    labels = {**now["metadata"].get("labels", {}), LABEL: word}
    labels = {key: value for key, value in labels.items() if value is not None}
    await server.put("nodes", {**now, "metadata": {**now["metadata"], "labels": labels}})


async def seen(client, name: str, word: str) -> None:
    """Wait until the scheduler has the node with that word."""
    async with asyncio.timeout(60):
        while client.scheduler.cluster.nodes.store[name].metadata.labels.get(LABEL) != word:
            await asyncio.sleep(0.005)


@pytest.fixture
async def two(server, start):
    for name in ("n1", "n2"):
        await server.put("nodes", node(name))
    return await start()


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stopping", REPLACED), ("unregistered", "the node's acme agent is not registered with the kubelet yet")],
)
async def test_no_pod_is_sent_where_the_agent_goes(server, two, word, reason):
    await say(server, "n1", word)
    await seen(two, "n1", word)
    p = await server.put("pods", pod("a"))
    answer = await two.filter(p, ["n1", "n2", "n3"])
    assert answer["NodeNames"] == ["n2"]
    await say(server, "n2", word)
    await seen(two, "n2", word)
    answer = await two.filter(p, ["n1", "n2", "n3"])
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {"n1": reason, "n2": reason, "n3": "node unregistered"}
    await two.scheduler.recorder.flush()
    messages = [event["message"] for event in server.objects["events"].values()]
    assert f"2 nodes {reason}(n1,n2)" in messages
    await say(server, "n1", "ready")
    await seen(two, "n1", "ready")
    assert (await two.filter(p, ["n1", "n2"]))["NodeNames"] == ["n1"]


async def test_bind_is_the_last_judge(server, two):
    p = await server.put("pods", pod("a"))
    assert (await two.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    await say(server, "n1", "stopping")
    await seen(two, "n1", "stopping")
    assert REPLACED in await two.bind(p, "n1")
    assert "nodeName" not in server.objects["pods"]["default/a"].get("spec", {})
    await say(server, "n1", "ready")
    await seen(two, "n1", "ready")
    assert await two.bind(p, "n1") == ""


async def test_a_pod_that_waits_its_turn_is_not_bound_to_a_node_whose_agent_goes_meanwhile(server, start):
    """On a serial node a Bind may wait for long between booking and writing."""
    await server.put("nodes", node("n1", annotations={keys.AGENT_MODE: keys.MODE_SERIAL}))
    client = await start(turn_wait_s=20.0)
    one, two = await server.put("pods", pod("one")), await server.put("pods", pod("two"))
    assert await client.bind(one, "n1") == ""
    waiting = asyncio.create_task(client.bind(two, "n1"))
    inventory = client.scheduler.cluster.inventory
    async with asyncio.timeout(60):
        while inventory.booking(two["metadata"]["uid"]) is None:
            await asyncio.sleep(0.005)
    await say(server, "n1", "stopping")
    await seen(client, "n1", "stopping")
    bound = server.objects["pods"]["default/one"]
    settled = {**bound["metadata"]["annotations"], keys.BIND_PHASE: keys.PHASE_SUCCESS}
    await server.put("pods", {**bound, "metadata": {**bound["metadata"], "annotations": settled}})
    assert REPLACED in await waiting
    assert inventory.booking(two["metadata"]["uid"]) is None, "what was booked for it is free again"


async def test_pods_there_stay_counted_and_other_words_mean_nothing(server, two):
    p = await server.put("pods", pod("a", mem=9000))
    assert await two.bind(p, "n1") == ""
    inventory = two.scheduler.cluster.inventory
    used = [usage.used_memory_mib for usage in inventory.usage("n1")]
    assert sum(used) == 9000
    await say(server, "n1", "stopping")
    await seen(two, "n1", "stopping")
    assert [usage.used_memory_mib for usage in inventory.usage("n1")] == used
    assert inventory.drift() == 0
    await say(server, "n1", "whatever")
    await seen(two, "n1", "whatever")
    assert (await two.filter(await server.put("pods", pod("b")), ["n1"]))["NodeNames"] == ["n1"]


async def test_an_agent_that_never_comes_back_is_told_apart(server, start):
    now = [1000.0]
    await server.put("nodes", node("n1", labels={LABEL: "stopping"}))
    await server.put("nodes", node("n2", labels={LABEL: "unregistered"}))
    client = await start(clock=lambda: now[0])
    p = await server.put("pods", pod("a"))
    assert (await client.filter(p, ["n1"]))["FailedNodes"] == {"n1": REPLACED}
    now[0] += 121
    wanted = {
        "n1": "the node's acme agent stopped and has not come back",
        "n2": "the node's acme agent has not registered with the kubelet for minutes",
    }
    async with asyncio.timeout(60):
        while (answer := await client.filter(p, ["n1", "n2"]))["FailedNodes"] != wanted:
            assert answer["FailedNodes"].keys() == wanted.keys()
            await asyncio.sleep(0.05)
    await say(server, "n1", "ready")
    await seen(client, "n1", "ready")
    assert (await client.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    await say(server, "n1", "stopping")
    await seen(client, "n1", "stopping")
    assert (await client.filter(p, ["n1"]))["FailedNodes"] == {"n1": REPLACED}, "counted anew each time"


async def test_a_node_that_comes_back_under_its_name_starts_afresh(server, two):
    await say(server, "n1", "stopping")
    await seen(two, "n1", "stopping")
    await server.remove("nodes", "n1")
    async with asyncio.timeout(60):
        while "n1" in two.scheduler.cluster.nodes.store:
            await asyncio.sleep(0.005)
    await server.put("nodes", node("n1"))
    async with asyncio.timeout(60):
        while "n1" not in two.scheduler.cluster.nodes.store:
            await asyncio.sleep(0.005)
    p = await server.put("pods", pod("a"))
    assert (await two.filter(p, ["n1"]))["NodeNames"] == ["n1"]


async def test_an_imagined_node_has_an_agent(server, two):
    """Cluster-autoscaler copies the labels of a node there is; the one it would make is not being replaced."""
    p = await server.put("pods", pod("a"))
    body = {"Pod": p, "NodeNames": None, "Nodes": {"items": [node("new", labels={LABEL: "stopping"})]}}
    answer = await two.post("/filter", body)
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["new"]
