"""Nodes whose agent serves one pod at a time."""

from __future__ import annotations

import asyncio
import time

import pytest

from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire import keys

SERIAL = {keys.agent_mode("acme"): keys.MODE_SERIAL}


@pytest.fixture
async def start_waiting(server, start):
    await server.put("nodes", node("n1", annotations=dict(SERIAL)))

    async def made(wait: float):
        return await start(turn_wait_s=wait)

    return made


def phase(server, name: str) -> str | None:
    return server.objects["pods"][f"default/{name}"]["metadata"].get("annotations", {}).get(keys.BIND_PHASE)


def is_bound(server, name: str) -> bool:
    return bool(server.objects["pods"][f"default/{name}"]["spec"].get("nodeName"))


async def change(server, name: str, *, status: dict | None = None, **annotations: str) -> None:
    """Change a pod as the kubelet or the agent would."""
    found = server.objects["pods"][f"default/{name}"]
    meta = found["metadata"]
    annotations = {**meta["annotations"], **annotations}
    await server.put("pods", {**found, "metadata": {**meta, "annotations": annotations}, "status": status or {}})


async def test_phase_is_allocating_only_on_serial_nodes(server, start_waiting):
    client = await start_waiting(0.3)
    await server.put("nodes", node("n2"))
    await client.scheduler.cluster.nodes.refresh()
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    assert await client.bind(await server.put("pods", pod("b")), "n2") == ""
    assert (phase(server, "a"), phase(server, "b")) == ("allocating", "success")


async def test_next_pod_is_refused_for_now_and_loses_its_booking(server, start_waiting):
    client = await start_waiting(0.3)
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    answer = await client.bind(await server.put("pods", pod("b")), "n1")
    assert "default/a was bound before and waits for its devices yet" in answer
    assert not is_bound(server, "b")
    assert [b.name for b in client.scheduler.cluster.inventory.bookings()] == ["a"]


@pytest.mark.parametrize("how", ["success", "failed", "ended", "deleted"])
async def test_next_pod_follows_once_the_earlier_one_has_devices(server, start_waiting, how):
    client = await start_waiting(30)
    first, second = await server.put("pods", pod("a")), await server.put("pods", pod("b"))
    assert await client.bind(first, "n1") == ""
    binding = asyncio.create_task(client.bind(second, "n1"))
    await asyncio.sleep(0.2)
    assert not is_bound(server, "b")
    if how == "deleted":
        await server.remove("pods", "default/a")
    elif how == "ended":
        await change(server, "a", status={"phase": "Failed"})
    else:
        await change(server, "a", **{keys.BIND_PHASE: how})
    assert await binding == ""
    assert is_bound(server, "b")


async def test_pods_bound_at_once_go_one_by_one(server, start_waiting):
    client = await start_waiting(30)
    pods = [await server.put("pods", pod(f"p{i}")) for i in range(6)]
    binding = [asyncio.create_task(client.bind(p, "n1")) for p in pods]
    done: set[str] = set()
    while len(done) < len(pods):
        waiting = [p["metadata"]["name"] for p in pods if phase(server, p["metadata"]["name"]) == "allocating"]
        assert len(waiting) <= 1
        for name in waiting:
            await change(server, name, **{keys.BIND_PHASE: "success"})
            done.add(name)
        await asyncio.sleep(0.02)
    assert await asyncio.gather(*binding) == [""] * len(pods)


async def test_pod_allocating_for_too_long_blocks_nobody(server, start_waiting):
    client = await start_waiting(0.5)
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    await change(server, "a", **{keys.BIND_TIME: str(int(time.time()) - 301)})
    await client.scheduler.cluster.pods.refresh()
    assert await client.bind(await server.put("pods", pod("b")), "n1") == ""


async def test_restarted_scheduler_waits_for_the_same_pod(server, start_waiting, start):
    client = await start_waiting(0.3)
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    other = await start(turn_wait_s=0.3)
    assert "default/a was bound before" in await other.bind(await server.put("pods", pod("b")), "n1")


async def test_a_refused_write_lets_the_next_one_go(server, start_waiting):
    client = await start_waiting(0.3)
    server.faults.append(lambda _, path: Fault(status=403) if path.endswith("/a/binding") else None)
    assert await client.bind(await server.put("pods", pod("a")), "n1")
    assert await client.bind(await server.put("pods", pod("b")), "n1") == ""


async def test_write_of_unknown_outcome_blocks_only_other_pods(server, start_waiting):
    client = await start_waiting(0.3)
    a = await server.put("pods", pod("a"))
    server.faults.append(lambda _, path: Fault(drop=True) if path.endswith("/a/binding") else None)
    assert "not known yet" in await client.bind(a, "n1")
    assert "default/a was bound before" in await client.bind(await server.put("pods", pod("b")), "n1")
    server.faults.clear()
    assert await client.bind(a, "n1") == ""


async def test_serial_mode_of_another_vendors_agent_holds_nobody(server, start):
    await server.put("nodes", node("n1", annotations={keys.agent_mode("other"): keys.MODE_SERIAL}))
    client = await start(turn_wait_s=0.3)
    for name in ("a", "b"):
        assert await client.bind(await server.put("pods", pod(name)), "n1") == ""
    assert (phase(server, "a"), phase(server, "b")) == ("success", "success")


async def test_pod_of_another_vendor_is_not_waited_for(server, start_waiting):
    """A third party's plugin may leave its pods ``allocating`` for ever."""
    client = await start_waiting(0.3)
    foreign = pod("mlu")
    foreign["metadata"]["annotations"] = {
        "hami.io/other-devices-allocated": "x,X,1,0:;",
        keys.BIND_PHASE: keys.PHASE_ALLOCATING,
        keys.BIND_TIME: str(int(time.time())),
    }
    foreign["spec"] = {"nodeName": "n1", "containers": []}
    await server.put("pods", foreign)
    await client.scheduler.cluster.pods.refresh()
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""


async def test_nobody_waits_once_the_node_serves_cdi_again(server, start_waiting):
    client = await start_waiting(30)
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    binding = asyncio.create_task(client.bind(await server.put("pods", pod("b")), "n1"))
    await asyncio.sleep(0.1)
    await server.put("nodes", node("n1", annotations={keys.agent_mode("acme"): keys.MODE_CDI}))
    assert await binding == ""
