"""Node locks for vendors whose own node plugin needs them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from hami_core import hookimpl
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.vendor import ALLOCATED, FAMILY, TO_ALLOCATE, Acme, node, pod
from hami_core.vendorkit.locks import format_lock, format_time_lock
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import Family, PodFacts


class Locking(Acme):
    """Needs HAMi's lock and a lock whose value is only a time."""

    @hookimpl
    def lock_annotations(self, node: str, pod: PodFacts) -> Mapping[str, str]:
        return {keys.NODE_LOCK: "hami", "acme.com/lock": "time"}


def locks(server) -> dict[str, str]:
    annotations = server.objects["nodes"]["n1"]["metadata"]["annotations"]
    return {key: annotations[key] for key in (keys.NODE_LOCK, "acme.com/lock") if key in annotations}


@pytest.fixture
async def client(server, start):
    await server.put("nodes", node("n1"))
    return await start(loaded=load(Locking), lock_wait_s=0.3)


async def lock_as(server, key: str, value: str) -> None:
    found = server.objects["nodes"]["n1"]
    await server.put(
        "nodes",
        {**found, "metadata": {**found["metadata"], "annotations": {**found["metadata"]["annotations"], key: value}}},
    )


async def test_locks_are_taken_and_stay_for_the_node_plugin(server, client):
    p = await server.put("pods", pod("a"))
    assert await client.bind(p, "n1") == ""
    taken = locks(server)
    assert taken[keys.NODE_LOCK].endswith(",default,a")
    assert datetime.fromisoformat(taken["acme.com/lock"]).tzinfo is not None


async def test_bind_waits_for_a_held_lock_and_is_then_refused(server, client):
    await server.put("pods", pod("holder"))
    await lock_as(server, keys.NODE_LOCK, format_lock(datetime.now(UTC), "default", "holder"))
    p = await server.put("pods", pod("a"))
    assert "node n1 has been locked within 5m0s: node lock contention" in await client.bind(p, "n1")
    assert locks(server).keys() == {keys.NODE_LOCK}, "the other lock was given back"
    assert not list(client.scheduler.cluster.inventory.bookings())


async def test_a_lock_given_back_while_waiting_is_taken(server, client, monkeypatch):
    monkeypatch.setattr(client.scheduler.bind._locks, "_wait_s", 10.0)
    await server.put("pods", pod("holder"))
    await lock_as(server, keys.NODE_LOCK, format_lock(datetime.now(UTC), "default", "holder"))
    binding = asyncio.create_task(client.bind(await server.put("pods", pod("a")), "n1"))
    await asyncio.sleep(0.2)
    del server.objects["nodes"]["n1"]["metadata"]["annotations"][keys.NODE_LOCK]
    assert await binding == ""


@pytest.mark.parametrize("why", ["expired", "holder gone", "holder ended"])
async def test_a_lock_left_behind_is_taken_over(server, client, why):
    age = timedelta(minutes=6) if why == "expired" else timedelta()
    if why != "holder gone":
        await server.put("pods", pod("holder", status={"phase": "Failed" if why == "holder ended" else "Running"}))
    await lock_as(server, keys.NODE_LOCK, format_lock(datetime.now(UTC) - age, "default", "holder"))
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    assert locks(server)[keys.NODE_LOCK].endswith(",default,a")


async def test_a_malformed_lock_is_never_taken_over(server, client):
    await lock_as(server, keys.NODE_LOCK, "a,b")
    assert "malformed lock annotation" in await client.bind(await server.put("pods", pod("a")), "n1")
    assert locks(server)[keys.NODE_LOCK] == "a,b"


async def test_a_failed_bind_gives_the_locks_back(server, client):
    server.faults.append(lambda _, path: Fault(status=403) if path.endswith("/binding") else None)
    assert await client.bind(await server.put("pods", pod("a")), "n1")
    assert locks(server) == {}


async def test_locks_stay_while_nobody_knows_whether_the_pod_is_bound(server, client):
    server.faults.append(lambda _, path: Fault(drop=True) if path.endswith("/binding") else None)
    assert "not known yet" in await client.bind(await server.put("pods", pod("a")), "n1")
    assert len(locks(server)) == 2


async def test_recent_time_lock_refuses_other_pods(server, client):
    await lock_as(server, "acme.com/lock", format_time_lock(datetime.now(UTC)))
    assert "node lock contention" in await client.bind(await server.put("pods", pod("a")), "n1")


async def test_a_vendor_says_when_its_own_lock_counts_as_left_behind(server, start):
    class Brief(Locking):
        @hookimpl
        def families(self, config: Any) -> Sequence[Family]:
            return [replace(FAMILY, lock_timeouts_s={"acme.com/lock": 120.0})]

    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Brief), lock_wait_s=0.3)
    old = datetime.now(UTC) - timedelta(seconds=130)
    await lock_as(server, "acme.com/lock", format_time_lock(old))
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    await server.put("pods", pod("holder"))
    await lock_as(server, keys.NODE_LOCK, format_lock(old, "default", "holder"))
    assert "node lock contention" in await client.bind(await server.put("pods", pod("b")), "n1")


@pytest.mark.parametrize("protocol", ["hami", "time"])
async def test_another_plugins_lock_is_taken_in_its_form(server, start, protocol):
    class Foreign(Acme):
        @hookimpl
        def families(self, config: Any) -> Sequence[Family]:
            return [replace(FAMILY, foreign_lock="acme.com/lock", foreign_lock_protocol=protocol)]

    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Foreign))
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    time, *holder = locks(server)["acme.com/lock"].split(",")
    assert datetime.fromisoformat(time).tzinfo is not None
    assert holder == (["default", "a"] if protocol == "hami" else [])


@pytest.mark.parametrize("consumed", [ALLOCATED, TO_ALLOCATE])
async def test_an_early_unlock_does_not_free_a_node_until_a_list_is_empty(server, start, consumed):
    """A plugin that removes the lock before it served all containers, and consumes one of the pod's two lists."""

    class Keeping(Acme):
        @hookimpl
        def families(self, config: Any) -> Sequence[Family]:
            return [replace(FAMILY, foreign_lock="acme.com/lock", kept_key="hami.io/acme-devices-kept-allocated")]

    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Keeping), lock_wait_s=0.3)
    store = client.scheduler.cluster.pods.store
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    while "default/a" not in store or not store["default/a"].spec.node_name:
        await asyncio.sleep(0.005)
    annotations = server.objects["nodes"]["n1"]["metadata"]["annotations"]
    del annotations["acme.com/lock"]
    await server.put("nodes", server.objects["nodes"]["n1"])
    later = await server.put("pods", pod("b"))
    assert "pod default/a waits for its devices" in await client.bind(later, "n1")
    there = server.objects["pods"]["default/a"]
    there["metadata"]["annotations"][consumed] = ";"
    await server.put("pods", there)
    while store["default/a"].metadata.annotations[consumed] != ";":
        await asyncio.sleep(0.005)
    assert await client.bind(later, "n1") == ""


async def test_a_node_with_our_agent_gets_no_lock(server, start):
    class Foreign(Acme):
        @hookimpl
        def families(self, config: Any) -> Sequence[Family]:
            return [replace(FAMILY, foreign_lock="acme.com/lock", foreign_lock_protocol="time")]

    loaded = load(Foreign)
    label = {keys.agent_label(loaded.vendors[0].name): "true"}
    await server.put("nodes", node("n1", labels=label))
    client = await start(loaded=loaded)
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    assert locks(server) == {}


async def test_contention_names_the_time_that_the_lock_lasts(server, start):
    class Brief(Acme):
        @hookimpl
        def families(self, config: Any) -> Sequence[Family]:
            timeouts = {"acme.com/lock": 120.0}
            return [
                replace(FAMILY, foreign_lock="acme.com/lock", foreign_lock_protocol="time", lock_timeouts_s=timeouts)
            ]

    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Brief))
    await lock_as(server, "acme.com/lock", format_time_lock(datetime.now(UTC)))
    refusal = await client.bind(await server.put("pods", pod("a")), "n1")
    assert "node n1 has been locked within 2m0s: node lock contention" in refusal
