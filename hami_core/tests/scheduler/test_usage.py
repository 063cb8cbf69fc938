"""`GET /usage`: what the scheduler tells `hami top`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, precondition, run_state_machine_as_test
from multidict import MultiDict

from hami_core.http.serve import Request
from hami_core.inventory import Inventory
from hami_core.model import Allocation, Booking, ContainerKind, ContainerSlices, Device, NodeFacts, Slice, VendorRules
from hami_core.scheduler.usage import SliceUse, Usage, node_use, usage_route
from hami_core.tests.inventory.test_stateful import NODES, Machine
from hami_core.tests.inventory.worlds import rules
from hami_core.tests.scheduler.vendor import node, pod

if TYPE_CHECKING:
    from hami_core.http.serve import Response

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


async def ask(inventory: Inventory, *nodes: str, synced: bool = True, token: str = "", **headers: str) -> Response:
    route = usage_route(inventory, lambda: synced, lambda: token, now=lambda: NOW, piece_s=0)
    return await route.handler(Request("GET", "/usage", query=MultiDict(("node", n) for n in nodes), headers=headers))


async def read(inventory: Inventory, *nodes: str) -> Usage:
    answer = await ask(inventory, *nodes)
    assert answer.stream is not None
    return msgspec.json.decode(b"".join([piece async for piece in answer.stream]), type=Usage)


def booked(uid: str, node: str, *pieces: Slice, kind: ContainerKind = ContainerKind.APP) -> Booking:
    return Booking(uid, "team", "secret-name", Allocation(node, (ContainerSlices("main", kind, pieces),)))


def cluster(*names: str, **family: Any) -> Inventory:
    inventory = Inventory([VendorRules(replace(rules()[0].family, **family))])
    for name in names:
        devices = [Device(f"{name}-{i}", i, 10, 40960, 100, "A100", "NVIDIA") for i in range(2)]
        inventory.set_node(NodeFacts(name), {"NVIDIA": devices})
    return inventory


async def test_slices_of_a_container_on_a_device_are_one():
    inventory = cluster("n1")
    pieces = Slice("n1-0", "NVIDIA", 1000, 10), Slice("n1-0", "NVIDIA", 2000, 20), Slice("n1-1", "NVIDIA", 4000, 0)
    inventory.set_pod(booked("u1", "n1", *pieces))
    usage = await read(inventory)
    assert (usage.schema, usage.time) == (1, "2026-01-31T12:00:00Z")
    ((first, second),) = [n.devices for n in usage.nodes]
    assert first.slices == (SliceUse("u1", "main", slots=2, memory_mib=3000, cores=30),)
    assert second.slices == (SliceUse("u1", "main", memory_mib=4000),)
    assert (first.booked.slots, first.booked.memory_mib, first.total.memory_mib) == (2, 3000, 40960)


async def test_names_of_pods_are_not_sent():
    inventory = cluster("n1")
    inventory.set_pod(booked("u1", "n1", Slice("n1-0", "NVIDIA", 1000, 10)))
    answer = await ask(inventory)
    text = b"".join([piece async for piece in answer.stream])
    assert b'"u1"' in text
    assert b"secret-name" not in text
    assert b"team" not in text


async def test_nodes_may_be_chosen():
    inventory = cluster("n1", "n2", "n3")
    assert [n.name for n in (await read(inventory, "n3", "n1", "n3", "none")).nodes] == ["n3", "n1"]
    assert {n.name for n in (await read(inventory)).nodes} == {"n1", "n2", "n3"}
    assert (await read(inventory, "none")).nodes == ()


async def test_device_that_its_node_no_longer_lists_keeps_its_slices():
    inventory = cluster("n1")
    inventory.set_pod(booked("u1", "n1", Slice("lost", "NVIDIA", 1000, 10)))
    ((*_, lost),) = [n.devices for n in (await read(inventory)).nodes]
    assert (lost.id, lost.index, lost.registered, lost.healthy) == ("lost", -1, False, False)
    assert (lost.booked.memory_mib, lost.total.memory_mib, len(lost.slices)) == (1000, 0, 1)


async def test_bookings_on_a_node_that_is_gone_are_told():
    inventory = cluster("n1")
    inventory.set_pod(booked("u1", "gone", Slice("card", "NVIDIA", 1000, 10)))
    inventory.set_pod(booked("u2", "n1", Slice("n1-0", "NVIDIA", 1000, 10)))
    nodes = {n.name: n.devices for n in (await read(inventory)).nodes}
    assert list(nodes) == ["n1", "gone"]
    (lost,) = nodes["gone"]
    assert (lost.id, lost.registered, lost.slices[0].pod) == ("card", False, "u1")
    inventory.remove_pod("u1")
    assert [n.name for n in (await read(inventory)).nodes] == ["n1"]


async def test_compute_units_are_named():
    (one,) = (await read(cluster("n1", cores_are_units=True))).nodes
    assert {device.cores_are_units for device in one.devices} == {True}


async def test_it_answers_once_the_cluster_is_read_and_with_the_token():
    assert (await ask(cluster("n1"), synced=False)).status == 503
    assert (await ask(cluster("n1"), token="t")).status == 401
    assert (await ask(cluster("n1"), token="t", **{"x-hami-token": "t"})).status == 200


class Held(Machine):
    """The histories of the stateful inventory test."""

    @precondition(lambda self: hasattr(self, "inventory"))
    @invariant()
    def booked_and_held_are_what_is_used(self) -> None:
        for name in NODES:
            said = {device.id: device for device in node_use(self.inventory, name).devices}
            for now in self.inventory.usage(name):
                one = said[now.device.id]
                assert one.booked.slots + one.held.slots == now.used_slots
                assert one.booked.memory_mib + one.held.memory_mib == now.used_memory_mib
                assert one.booked.cores + one.held.cores == now.used_cores
                assert min(one.booked.slots, one.booked.memory_mib, one.booked.cores) >= 0


def test_booked_and_held_add_up_in_every_history() -> None:
    relaxed: Any = list(HealthCheck)
    run_state_machine_as_test(
        Held, settings=settings(max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=relaxed)
    )


async def test_a_scheduler_serves_it_beside_the_metrics(server, start):
    for name in ("n1", "n2"):
        await server.put("nodes", node(name))
    client = await start()
    p = await server.put("pods", pod("a"))
    held = (await client.filter(p, ["n1"]))["NodeNames"]
    url = f"http://{client.scheduler.addresses[-1]}/usage"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            assert response.headers["Content-Type"] == "application/json"
            before = {n["name"]: n for n in json.loads(await response.text())["nodes"]}
        assert (before["n1"]["holds"], before["n2"]["holds"]) == (1, 0)
        assert sum(d["held"]["memory_mib"] for d in before["n1"]["devices"]) == 1000
        assert await client.bind(p, held[0]) == ""
        async with session.get(url, params=[("node", "n1"), ("node", "none")]) as response:
            (after,) = json.loads(await response.text())["nodes"]
    assert after["holds"] == 0
    assert [s for d in after["devices"] for s in d["slices"]] == [
        {"pod": p["metadata"]["uid"], "container": "c", "memory_mib": 1000, "cores": 10}
    ]


async def test_other_tasks_run_between_nodes():
    inventory = cluster(*(f"n{i}" for i in range(50)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await read(inventory)
    task.cancel()
    assert turns >= 50
