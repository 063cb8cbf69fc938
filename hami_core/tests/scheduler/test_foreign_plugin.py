"""A node that HAMi's own NVIDIA device plugin serves: one pod at a time, each with its own slice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hami_ascend import Ascend
from hami_nvidia import Nvidia, rules

from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.hami_plugin import GPU, HamiPlugin, Kubelet, node
from hami_core.vendorkit.locks import format_lock
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LABEL = keys.agent_label("nvidia")


def pod(name: str, *memory: int, init: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """A pod whose containers ask for these amounts of MiB; 0: no GPU."""

    def container(name: str, mib: int) -> dict[str, Any]:
        limits = {GPU: "1", "nvidia.com/gpumem": str(mib)} if mib else {}
        return {"name": name, "image": "i", "resources": {"limits": limits}}

    spec = {"containers": [container(f"c{i}", mib) for i, mib in enumerate(memory)]}
    if init:
        spec["initContainers"] = [container(f"i{i}", mib) for i, mib in enumerate(init)]
    return plain_pod(name, spec=spec, status={"phase": "Pending"}, **more)


@pytest.fixture
async def client(server, start):
    await server.put("nodes", node("n1"))
    return await start(loaded=load(Nvidia), lock_wait_s=20.0)


@pytest.fixture
def plugin(api) -> HamiPlugin:
    return HamiPlugin(api, "n1")


@pytest.fixture
async def kubelet(server, plugin) -> AsyncIterator[Kubelet]:
    made = Kubelet(server, plugin)
    task = asyncio.ensure_future(made.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def lock(server) -> str | None:
    return server.objects["nodes"]["n1"]["metadata"]["annotations"].get(keys.NODE_LOCK)


def phase(server, name: str) -> str | None:
    return server.objects["pods"][f"default/{name}"]["metadata"].get("annotations", {}).get(keys.BIND_PHASE)


async def until(condition, timeout: float = 10) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


def memory_of(kubelet: Kubelet) -> dict[str, list[int]]:
    return {name: [int(d.split(",")[2]) for d in devices] for name, devices in kubelet.given.items()}


async def test_ten_pods_at_once_get_their_own_slices(server, client, kubelet):
    pods = [await server.put("pods", pod(f"p{i}", 1000 + i)) for i in range(10)]
    assert await asyncio.gather(*(client.bind(p, "n1") for p in pods)) == [""] * 10
    await until(lambda: len(kubelet.given) + len(kubelet.rejected) == 10)
    await until(lambda: lock(server) is None)
    assert memory_of(kubelet) == {f"p{i}/c0": [1000 + i] for i in range(10)}
    assert {phase(server, f"p{i}") for i in range(10)} == {"success"}


async def test_a_pod_still_in_its_init_container_keeps_its_slice(server, client, kubelet):
    first = await server.put("pods", pod("a", 1111, init=(0,)))
    assert await client.bind(first, "n1") == ""
    await until(lambda: phase(server, "a") == "success")  # and the pod stays Pending: its init container sleeps
    assert await client.bind(await server.put("pods", pod("b", 2222)), "n1") == ""
    await until(lambda: phase(server, "b") == "success" and "b/c0" in kubelet.given)
    assert memory_of(kubelet) == {"a/c0": [1111], "b/c0": [2222]}
    assert not kubelet.rejected
    assert phase(server, "a") == "success"


@pytest.mark.parametrize(
    ("memory", "init"),
    [((0, 700), ()), ((700, 0, 800), ()), ((600, 700), (500,)), ((0, 700), (0, 500))],
    ids=["second", "first and third", "init and apps", "mixed"],
)
async def test_each_container_gets_its_own_slice(server, client, kubelet, memory, init):
    assert await client.bind(await server.put("pods", pod("a", *memory, init=init)), "n1") == ""
    wanted = {f"a/i{i}": [mib] for i, mib in enumerate(init) if mib}
    wanted |= {f"a/c{i}": [mib] for i, mib in enumerate(memory) if mib}
    await until(lambda: len(kubelet.given) == len(wanted) or kubelet.rejected)
    await until(lambda: phase(server, "a") == "success" and lock(server) is None)
    assert memory_of(kubelet) == wanted


@pytest.mark.parametrize("signed", [True, False])
async def test_the_lock_and_phase_are_there_when_the_pod_is_bound(server, start, signing_key, signed):
    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Nvidia), signing_key=signing_key if signed else None)
    assert await client.bind(await server.put("pods", pod("a", 1000)), "n1") == ""
    bound = server.objects["pods"]["default/a"]["metadata"]
    assert lock(server).endswith(",default,a")
    assert phase(server, "a") == "allocating"
    assert bound["annotations"][keys.BIND_TIME].isdigit()
    assert bound["annotations"][keys.NODE] == bound["labels"][keys.NODE] == "n1"
    assert bound["annotations"][rules.TO_ALLOCATE] == bound["annotations"][rules.ALLOCATED]
    assert (keys.SIGNATURE in bound["annotations"]) is signed


async def test_a_lock_that_stays_is_an_error_to_retry(server, client, monkeypatch):
    monkeypatch.setattr(client.scheduler.bind._locks, "_wait_s", 0.3)
    assert await client.bind(await server.put("pods", pod("a", 1000)), "n1") == ""
    second = await server.put("pods", pod("b", 1000))
    assert "node n1 has been locked within 5m0s: node lock contention" in await client.bind(second, "n1")
    assert [b.name for b in client.scheduler.cluster.inventory.bookings()] == ["a"], "its booking is gone"
    assert phase(server, "b") is None
    await server.remove("pods", "default/a")
    while "default/a" in client.scheduler.cluster.pods.store:
        await asyncio.sleep(0.005)
    assert await client.bind(second, "n1") == "", "the lock of a deleted pod does not count"


async def test_a_failed_allocate_costs_its_own_pod_only(server, client, plugin, kubelet):
    plugin.broken.add("p1")
    pods = [await server.put("pods", pod(f"p{i}", 1000 + i)) for i in range(3)]
    assert await asyncio.gather(*(client.bind(p, "n1") for p in pods)) == [""] * 3
    await until(lambda: len(kubelet.given) + len(kubelet.rejected) == 3)
    assert memory_of(kubelet) == {"p0/c0": [1000], "p2/c0": [1002]}
    assert kubelet.rejected == {"p1": "NVML failed"}
    assert phase(server, "p1") == "failed"


@pytest.mark.parametrize("minutes", [4, 6])
async def test_a_lock_left_behind_is_taken_after_five_minutes(server, client, monkeypatch, minutes):
    monkeypatch.setattr(client.scheduler.bind._locks, "_wait_s", 0.2)
    await server.put("pods", pod("old", 1000, metadata={"uid": "old"}))
    there = server.objects["nodes"]["n1"]
    there["metadata"]["annotations"][keys.NODE_LOCK] = format_lock(
        datetime.now(UTC) - timedelta(minutes=minutes), "default", "old"
    )
    await server.put("nodes", there)
    answer = await client.bind(await server.put("pods", pod("a", 1000)), "n1")
    assert (answer == "") is (minutes == 6)
    assert lock(server).endswith(",default,a" if minutes == 6 else ",default,old")


async def test_a_holder_bound_to_another_node_holds_nothing(server, client):
    await server.put("pods", pod("old", 1000) | {"spec": {"nodeName": "n2", "containers": []}})
    there = server.objects["nodes"]["n1"]
    there["metadata"]["annotations"][keys.NODE_LOCK] = format_lock(datetime.now(UTC), "default", "old")
    await server.put("nodes", there)
    assert await client.bind(await server.put("pods", pod("a", 1000)), "n1") == ""
    assert lock(server).endswith(",default,a")


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        (keys.AGENT_READY, ""),
        (keys.AGENT_STOPPING, "is being replaced"),
        (keys.AGENT_UNREGISTERED, "is not registered with the kubelet yet"),
        ("a-later-word", ""),
    ],
)
async def test_a_node_with_our_label_is_never_locked(server, client, word, refusal):
    await server.put("nodes", node("n1", labels={LABEL: word}))
    await client.scheduler.cluster.nodes.refresh()
    answer = await client.bind(await server.put("pods", pod("a", 1000)), "n1")
    assert (refusal in answer) if refusal else answer == ""
    assert lock(server) is None
    assert phase(server, "a") == (None if refusal else "success")


async def test_lock_is_taken_for_the_vendor_without_our_agent_only(server, start):
    """Our agent serves the node's GPUs, and HAMi's Ascend device plugin its NPUs."""
    chip = "Ascend910B4"
    there = node("n1", labels={LABEL: keys.AGENT_READY})
    there["metadata"]["annotations"][f"hami.io/node-register-{chip}"] = json.dumps(
        [{"id": "npu-0", "count": 4, "devmem": 32768, "devcore": 20, "type": chip, "health": True}]
    )
    there["status"]["allocatable"][f"huawei.com/{chip}"] = "4"
    await server.put("nodes", there)
    client = await start(loaded=load(Nvidia, Ascend), lock_wait_s=0.3)
    both = {GPU: "1", "nvidia.com/gpumem": "700", f"huawei.com/{chip}": "1", f"huawei.com/{chip}-memory": "8192"}
    npu = {key: value for key, value in both.items() if key.startswith("huawei.com")}
    for name, limits in (("npu", npu), ("both", both)):
        spec = {"containers": [{"name": "c0", "image": "i", "resources": {"limits": limits}}]}
        await server.put("pods", plain_pod(name, spec=spec, status={"phase": "Pending"}))
    assert await client.bind(await server.put("pods", pod("gpu-1", 500)), "n1") == ""
    assert lock(server) is None
    assert await client.bind(server.objects["pods"]["default/npu"], "n1") == ""
    assert lock(server).endswith(",default,npu")
    assert await client.bind(await server.put("pods", pod("gpu-2", 600)), "n1") == ""
    assert "node lock contention" in await client.bind(server.objects["pods"]["default/both"], "n1")
    assert [phase(server, name) for name in ("gpu-1", "npu", "gpu-2")] == ["success", "allocating", "success"]


async def test_our_agent_coming_while_a_pod_waits_refuses_it(server, client):
    assert await client.bind(await server.put("pods", pod("a", 1000)), "n1") == ""
    binding = asyncio.create_task(client.bind(await server.put("pods", pod("b", 1000)), "n1"))
    await asyncio.sleep(0.2)
    there = server.objects["nodes"]["n1"]
    there["metadata"]["labels"] = {LABEL: keys.AGENT_UNREGISTERED}
    await server.put("nodes", there)
    while LABEL not in client.scheduler.cluster.nodes.store["n1"].metadata.labels:
        await asyncio.sleep(0.005)
    there = server.objects["nodes"]["n1"]
    del there["metadata"]["annotations"][keys.NODE_LOCK]
    await server.put("nodes", there)
    assert "is not registered with the kubelet yet" in await binding
    assert lock(server) is None, "it was given back"


async def test_a_pod_without_gpus_needs_no_lock(server, client):
    assert await client.bind(await server.put("pods", pod("a", 0)), "n1") == ""
    assert lock(server) is None
