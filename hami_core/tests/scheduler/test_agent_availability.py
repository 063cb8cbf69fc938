"""The availability label: a node whose agent is unavailable gets no pods, and refusals say why."""

from __future__ import annotations

import asyncio

import pytest

from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire import keys

LABEL = keys.agent_label("acme")
REPLACED = "the node's acme agent is being replaced"


async def set_label(server, name: str, word: str | None) -> None:
    """Set the availability label of a node, or remove it (None)."""
    now = server.objects["nodes"][name]
    labels = {**now["metadata"].get("labels", {}), LABEL: word}
    labels = {key: value for key, value in labels.items() if value is not None}
    await server.put("nodes", {**now, "metadata": {**now["metadata"], "labels": labels}})


async def until_labelled(client, name: str, word: str) -> None:
    """Wait until the scheduler's local copy of the node has this label."""
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
async def test_node_with_an_unavailable_agent_gets_no_pods(server, two, word, reason):
    await set_label(server, "n1", word)
    await until_labelled(two, "n1", word)
    p = await server.put("pods", pod("a"))
    answer = await two.filter(p, ["n1", "n2", "n3"])
    assert answer["NodeNames"] == ["n2"]
    await set_label(server, "n2", word)
    await until_labelled(two, "n2", word)
    answer = await two.filter(p, ["n1", "n2", "n3"])
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {"n1": reason, "n2": reason, "n3": "node unregistered"}
    await two.scheduler.recorder.flush()
    messages = [event["message"] for event in server.objects["events"].values()]
    assert f"2 nodes {reason}(n1,n2)" in messages
    await set_label(server, "n1", "ready")
    await until_labelled(two, "n1", "ready")
    assert (await two.filter(p, ["n1", "n2"]))["NodeNames"] == ["n1"]


async def test_bind_refuses_a_node_whose_agent_began_to_stop(server, two):
    p = await server.put("pods", pod("a"))
    assert (await two.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    await set_label(server, "n1", "stopping")
    await until_labelled(two, "n1", "stopping")
    assert REPLACED in await two.bind(p, "n1")
    assert "nodeName" not in server.objects["pods"]["default/a"].get("spec", {})
    await set_label(server, "n1", "ready")
    await until_labelled(two, "n1", "ready")
    assert await two.bind(p, "n1") == ""


async def test_bind_checks_the_agent_again_after_waiting_its_turn(server, start):
    """On a serial node a Bind may wait for a long time between booking and writing."""
    await server.put("nodes", node("n1", annotations={keys.agent_mode("acme"): keys.MODE_SERIAL}))
    client = await start(turn_wait_s=20.0)
    one, two = await server.put("pods", pod("one")), await server.put("pods", pod("two"))
    assert await client.bind(one, "n1") == ""
    waiting = asyncio.create_task(client.bind(two, "n1"))
    inventory = client.scheduler.cluster.inventory
    async with asyncio.timeout(60):
        while inventory.booking(two["metadata"]["uid"]) is None:
            await asyncio.sleep(0.005)
    await set_label(server, "n1", "stopping")
    await until_labelled(client, "n1", "stopping")
    bound = server.objects["pods"]["default/one"]
    settled = {**bound["metadata"]["annotations"], keys.BIND_PHASE: keys.PHASE_SUCCESS}
    await server.put("pods", {**bound, "metadata": {**bound["metadata"], "annotations": settled}})
    assert REPLACED in await waiting
    assert inventory.booking(two["metadata"]["uid"]) is None, "its booking is gone"


async def test_running_pods_count_and_unknown_labels_are_ignored(server, two):
    p = await server.put("pods", pod("a", mem=9000))
    assert await two.bind(p, "n1") == ""
    inventory = two.scheduler.cluster.inventory
    used = [usage.used_memory_mib for usage in inventory.usage("n1")]
    assert sum(used) == 9000
    await set_label(server, "n1", "stopping")
    await until_labelled(two, "n1", "stopping")
    assert [usage.used_memory_mib for usage in inventory.usage("n1")] == used
    assert inventory.drift() == 0
    await set_label(server, "n1", "whatever")
    await until_labelled(two, "n1", "whatever")
    assert (await two.filter(await server.put("pods", pod("b")), ["n1"]))["NodeNames"] == ["n1"]


async def test_reason_changes_when_an_agent_stays_away(server, start):
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
    await set_label(server, "n1", "ready")
    await until_labelled(client, "n1", "ready")
    assert (await client.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    await set_label(server, "n1", "stopping")
    await until_labelled(client, "n1", "stopping")
    assert (await client.filter(p, ["n1"]))["FailedNodes"] == {"n1": REPLACED}, (
        "the time begins again with each change of the label"
    )


async def test_recreated_node_does_not_inherit_the_label(server, two):
    await set_label(server, "n1", "stopping")
    await until_labelled(two, "n1", "stopping")
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


async def test_simulated_node_ignores_the_availability_label(server, two):
    """Cluster-autoscaler copies the labels of an existing node, but the agent of a new node is not being replaced."""
    p = await server.put("pods", pod("a"))
    body = {"Pod": p, "NodeNames": None, "Nodes": {"items": [node("new", labels={LABEL: "stopping"})]}}
    answer = await two.post("/filter", body)
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["new"]
