"""``/explain`` on the metrics listener: a pod's state, the nodes that fit, the nearest misses of the others."""

from __future__ import annotations

import asyncio
import io
import json

import pytest

from hami_core.tests.scheduler.test_unreadable import bound
from hami_core.tests.scheduler.vendor import REGISTER, node, pod
from hami_core.wire import keys

MINE = {"schedulerName": "hami-scheduler"}


async def ask(client, body=None, *, status=200, headers=None, **query):
    url = f"http://{client.scheduler.addresses[-1]}/explain"
    data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    method = "GET" if body is None else "POST"
    async with client._session.request(method, url, params=query, data=data, headers=headers) as answer:
        text = await answer.text()
        assert answer.status == status, text
        return json.loads(text) if status == 200 else text


def texts(refused):
    return [change["text"] for change in refused["changes"]]


async def test_pending_pod_gets_the_greatest_amounts_that_fit(server, start):
    await server.put("nodes", node("n1", cards=2, memory=10_000))
    for name, card, mem in (("a", 0, 6000), ("b", 1, 7000)):
        await server.put("pods", bound(name, f"n1-{card},ACME,{mem},10:;", uid=name))
    client = await start()
    await server.put("pods", pod("big", uid="u1", mem=8000, spec=MINE))
    told = await ask(client, pod("big", uid="u1", mem=8000, spec=MINE))
    assert (told["state"], told["nodes"]) == ("pending", {"fit": 0, "refused": 1})
    assert told["asks"] == [{"container": "c", "family": "ACME", "needs": "8000 MiB and 10 % of the cores on one card"}]
    [refused] = told["refused"]
    assert refused["node"] == "n1"
    assert "the freest has 4000 MiB free" in refused["why"]
    assert texts(refused) == ["with acme.com/mem ≤ 4000", "when pod a has ended"]
    assert refused["changes"][0]["limits"] == {"acme.com/mem": 4000}
    assert [(reason["card"], reason["needed"], reason["available"]) for reason in refused["reasons"]] == [
        (0, 8000, 4000), (1, 8000, 3000),
    ]  # fmt: skip
    assert [card["memory_mib"] for card in refused["cards"]] == [[6000, 10_000], [7000, 10_000]]
    assert (await ask(client, pod("big", mem=4000, spec=MINE)))["nodes"]["fit"] == 1
    assert (await ask(client, pod("big", mem=4001, spec=MINE)))["nodes"]["fit"] == 0


CHANGES = {
    "compute": ({"cores": 90}, [(0, 100, 30), (1, 100, 60)], ["with acme.com/cores ≤ 70", "when pod a has ended"]),
    "both": (
        {"mem": 9000, "cores": 90}, [(0, 4000, 20), (1, 5000, 40)],
        ["with acme.com/mem ≤ 6000 and acme.com/cores ≤ 80", "when pod a has ended"],
    ),
    "fewer": (
        {"gpu": 2, "mem": 6000}, [(1, 9000, 10)],
        ["with acme.com/gpu ≤ 1", "with acme.com/mem ≤ 1000", "when pod a has ended"],
    ),
    "several pods": (
        {"gpu": 2, "mem": 9000}, [(0, 2000, 0), (1, 3000, 0)],
        ["with acme.com/mem ≤ 7000", "when pods a, b have ended"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asks", "held", "changes"), CHANGES.values(), ids=CHANGES)
async def test_changes_are_the_nearest_first(server, start, asks, held, changes):
    await server.put("nodes", node("n1", cards=2, memory=10_000))
    for name, (card, mem, cores) in zip("ab", held, strict=False):
        await server.put("pods", bound(name, f"n1-{card},ACME,{mem},{cores}:;", uid=name))
    client = await start()
    [refused] = (await ask(client, pod("big", **asks, spec=MINE)))["refused"]
    assert texts(refused) == changes


async def test_administrators_changes_name_cards_and_quota(server, start):
    made = node("n1", cards=2)
    devices = json.loads(made["metadata"]["annotations"][REGISTER])
    devices[0]["health"] = False
    made["metadata"]["annotations"][REGISTER] = json.dumps(devices)
    await server.put("nodes", made)
    client = await start()
    [refused] = (await ask(client, pod("big", gpu=2, spec=MINE)))["refused"]
    assert texts(refused) == ["with acme.com/gpu ≤ 1", "if card 0 (n1-0) were healthy"]
    [refused] = (await ask(client, pod("huge", mem=20_000, spec=MINE)))["refused"]
    assert texts(refused) == ["with acme.com/mem ≤ 10000"]
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"limits.acme.com/mem": "500"}}}
    await server.put("resourcequotas", quota)
    while not client.scheduler.cluster.quotas.store:
        await client.scheduler.cluster.quotas.refresh()
    [refused] = (await ask(client, pod("more", mem=1000, spec=MINE)))["refused"]
    assert texts(refused) == ["with acme.com/mem ≤ 500", "if the namespace's quota left room for it"]


async def test_what_can_never_fit_is_said(server, start):
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    [refused] = (await ask(client, pod("wide", gpu=3, mem=20_000, spec=MINE)))["refused"]
    assert (refused["changes"], refused["never"]) == ([], True)


async def test_nodes_that_fit_have_scores_and_the_policy_that_decided(server, start):
    for name in ("n1", "n2", "n3"):
        await server.put("nodes", node(name))
    await server.put("pods", bound("a", "n2-0,ACME,6000,10:;", uid="a", on="n2"))
    client = await start()
    told = await ask(client, pod("new", mem=5000, spec=MINE))
    assert [row["node"] for row in told["fitting"]] == ["n2", "n1", "n3"]
    assert told["fitting"][0]["containers"][0]["cards"][0] == {
        "index": 1, "id": "n2-1", "type": "A1", "memory_mib": 5000, "cores": 10,
    }  # fmt: skip
    assert told["decided"].startswith("node policy binpack (from the settings) takes the greatest score: n2 with ")
    spread = pod("new", mem=5000, spec=MINE, metadata={"annotations": {keys.NODE_POLICY: "spread"}})
    told = await ask(client, spread)
    assert [row["node"] for row in told["fitting"]] == ["n1", "n3", "n2"]
    assert f"spread (from {keys.NODE_POLICY}) takes the smallest score" in told["decided"]
    assert "of equal nodes the one whose name sorts first" in told["decided"]


async def test_held_and_bound_pods_say_where_they_are(server, start):
    await server.put("nodes", node("n1"))
    client = await start()
    mine = await server.put("pods", pod("mine", uid="u1", mem=9000, spec=MINE))
    await client.filter(mine, ["n1"])
    before = list(client.scheduler.cluster.inventory.holds())
    told = await ask(client, mine)
    assert (told["state"], told["placed"]["node"]) == ("held", "n1")
    assert told["fitting"][0]["containers"][0]["cards"][0]["index"] == 0, "a second pod like it, on the other card"
    stranger = pod("stranger", uid="u1", mem=9000, spec=MINE)
    assert (await ask(client, stranger))["state"] == "pending", "it has the UID of another pod"
    assert list(client.scheduler.cluster.inventory.holds()) == before, "asking changes nothing"
    assert await client.bind(mine, "n1") == ""
    told = await ask(client, mine)
    assert (told["state"], told["placed"]["containers"][0]["cards"][0]["memory_mib"]) == ("bound", 9000)
    assert told["fitting"][0]["containers"][0]["cards"][0]["index"] == 0, "a second pod like it, on the other card"


OTHERS = {
    "no-devices": (pod("x", spec={"containers": [{"name": "c", "image": "i"}]}), "asks for no devices"),
    "invalid": (pod("x", mem="much", spec=MINE), "acme.com/mem"),
    "gated": (pod("x", spec=MINE | {"schedulingGates": [{"name": "wait"}]}), "scheduling gates: wait"),
    "foreign": (pod("x", spec={"schedulerName": "default-scheduler"}), "hami.io/webhook: ignore"),
    "ended": (pod("x", spec=MINE) | {"status": {"phase": "Failed"}}, "its phase is Failed"),
    "unknown-devices": (pod("x", spec=MINE | {"nodeName": "n1"}), "no devices are booked"),
}


@pytest.mark.parametrize("state", OTHERS)
async def test_each_state_is_explained(server, start, state):
    await server.put("nodes", node("n1"))
    client = await start()
    body, words = OTHERS[state]
    told = await ask(client, body)
    assert told["state"] == state
    assert words in told["why"]


async def test_names_of_other_pods_are_uids(server, start):
    await server.put("nodes", node("n1"))
    await server.put("pods", bound("secret", "garbled", uid="u-secret"))
    client = await start()
    told = await ask(client, pod("x", spec=MINE))
    assert "secret" not in json.dumps(told).replace("u-secret", "")
    [refused] = told["refused"]
    assert "the allocation of pod u-secret can't be read" in refused["why"]
    assert refused["pods"] == ["u-secret"]
    for number in range(2, 30):
        await server.put("pods", bound(f"secret{number}", "garbled", uid=f"u-{number}", on="n2"))
        await server.put("nodes", node(f"n{number}"))
    while len(client.scheduler.cluster.inventory.node_names()) < 29:
        await client.scheduler.cluster.nodes.refresh()
    told = await ask(client, pod("x", spec=MINE, mem=99_999), nodes="1")
    assert "secret" not in json.dumps(told).replace("u-secret", "")
    assert sum(group["nodes"] for group in told["others"]) == 28
    for number in range(30, 60):
        await server.put("nodes", node(f"n{number}"))
        await server.put("pods", bound(f"secret{number}", "garbled", uid=f"u-{number}", on=f"n{number}"))
    while len(client.scheduler.cluster.closed) < 32:
        await client.scheduler.cluster.pods.refresh()
    told = await ask(client, pod("x", spec=MINE), nodes="1")
    assert len(told["others"]) == 21
    assert told["others"][-1]["reason"].endswith(" other reasons")


async def test_by_name_and_for_one_node(server, start):
    for name in ("n1", "n2"):
        await server.put("nodes", node(name))
    await server.put("nodes", {"metadata": {"name": "bare"}})
    client = await start()
    await server.put("pods", pod("mine", uid="u1", spec=MINE))
    while "default/mine" not in client.scheduler.cluster.pods.store:
        await client.scheduler.cluster.pods.refresh()
    assert (await ask(client, pod="mine"))["pod"] == {"namespace": "default", "name": "mine", "uid": "u1"}
    told = await ask(client, pod="mine", namespace="default", node="n2,bare")
    assert [row["node"] for row in told["fitting"]] == ["n2"]
    assert "no agent has registered devices there" in told["refused"][0]["why"]


WRONG = {
    "no pod named": ({}, None, 400, "name a pod"),
    "unknown pod": ({"pod": "nope"}, None, 404, "there is no pod default/nope"),
    "unknown node": ({"node": "n11"}, pod("x"), 404, "there is no node n11 (did you mean n1?)"),
    "hostile node": ({"node": "\x1b[31m"}, pod("x"), 404, "there is no node [31m"),
    "nodes": ({"nodes": "0"}, pod("x"), 400, "from 1 to 200"),
    "many nodes": ({"node": ",".join(f"n{number}" for number in range(201))}, pod("x"), 400, "at most 200"),
    "large": ({}, b" " * (2**21 + 1), 400, "a pod has at most 2097152"),
    "no pod": ({}, b"[]", 400, "the body is no pod"),
    "no JSON": ({}, b"\xff", 400, "the body is no pod"),
    "deep": ({}, b'{"a":' * 100_000, 400, "the body is no pod"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_questions_are_answered_with_the_fix(server, start, case):
    await server.put("nodes", node("n1"))
    client = await start()
    query, body, status, words = WRONG[case]
    assert words in await ask(client, body, status=status, **query)


async def test_many_devices_are_no_long_search(server, start):
    await server.put("nodes", node("n1", cards=2))
    client = await start()
    [refused] = (await ask(client, pod("x", gpu=2**31 - 1, mem=100, cores=1, spec=MINE)))["refused"]
    assert texts(refused) == ["with acme.com/gpu ≤ 2"]


async def test_one_pod_of_many(server, start):
    await server.put("nodes", node("n1", cards=1, memory=100_000))
    for number in range(9):
        await server.put("pods", bound(f"p{number}", "n1-0,ACME,1000,1:;", uid=f"p{number}"))
    await server.put("pods", bound("large", "n1-0,ACME,60000,1:;", uid="large"))
    client = await start()
    [refused] = (await ask(client, pod("x", mem=90_000, spec=MINE)))["refused"]
    assert texts(refused) == ["when pod large has ended"]


async def test_filters_are_answered_while_a_long_search_runs(server, start):
    """A node of many pods takes thousands of steps. Between any two of them other requests run."""
    await server.put("nodes", node("n1", cards=8, memory=100_000))
    for number in range(80):
        await server.put("pods", bound(f"p{number}", f"n1-{number % 8},ACME,1000,1:;", uid=f"p{number}"))
    client = await start()
    asked = asyncio.create_task(ask(client, pod("x", gpu=8, mem=99_500, spec=MINE)))
    answers = 0
    while not asked.done():
        await client.filter(pod("small", mem=100), ["n1"])
        answers += 1
    assert answers > 3
    [refused] = (await asked)["refused"]
    assert len(refused["changes"][-1]["pods"]) == 80


async def test_token_of_the_metrics_is_needed(server, start):
    client = await start(metrics_token=lambda: "t")
    await ask(client, pod("x"), status=401)
    await ask(client, pod("x"), status=401, headers={"Authorization": "Bearer \udcff"})
    await ask(client, pod("x"), headers={"X-HAMI-Token": "t"})
