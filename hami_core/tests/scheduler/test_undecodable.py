"""A node whose object can't be decoded any more: what was read of it last is kept, and nothing new is given."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from hami_core.kube.objects import Pod
from hami_core.tests.scheduler.vendor import node, pod


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_node_that_turns_undecodable_takes_no_new_pods(server, start):
    await server.put("nodes", node("n1"))
    client = await start()
    cluster = client.scheduler.cluster
    wanted = cluster.request_of(msgspec.convert(pod("a"), Pod))
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node == "n1"
    await server.put("nodes", {**node("n1"), "spec": 5})
    await until(lambda: cluster.closed_nodes)
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node is None
    await server.put("nodes", node("n1"))
    await until(lambda: not cluster.closed_nodes)
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node == "n1"
