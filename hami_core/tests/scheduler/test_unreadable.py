"""A live pod whose allocation can't be read closes its node, until it can be read or the pod ends."""

from __future__ import annotations

import asyncio
import json

import pytest

from hami_core import Family, Resources, hookimpl
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.vendor import ALLOCATED, REGISTER, Acme, node, pod
from hami_core.wire import keys
from hami_core.wire.node import decode_devices_json
from hami_core.wire.signature import generate_private_key, sign, statement_of

GOOD = "n1-0,ACME,9000,10:;"
STARTED = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
WAITING = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "x"}}}]}
UNREADABLE = 'hami_scheduler_allocations_in_doubt{reason="unreadable"} '
CLOSED = "hami_scheduler_closed_nodes "


def bound(name="holder", value: str | None = GOOD, *, annotations=None, status=None, on="n1", uid="", **more):
    written = {} if value is None else {keys.NODE: on, ALLOCATED: value}
    meta = {"annotations": written | (annotations or {})}
    made = pod(name, uid=uid, metadata=meta, spec={"nodeName": on}, **more)
    return made | {"status": status or STARTED}


async def refusal(client, server, name="newcomer", on="n1", **wants):
    """Why the node refuses a pod that would fit on an idle card; empty: it does not."""
    p = await server.put("pods", pod(name, **({"mem": 9000} | wants)))
    answer = await client.filter(p, [on])
    assert answer["Error"] == ""
    await server.remove("pods", f"default/{name}")
    return (answer["FailedNodes"] or {}).get(on, "")


async def until_open(client, server, **wants):
    while await refusal(client, server, **wants):
        await asyncio.sleep(0.005)


async def events(client, server, reason="AllocationUnreadable"):
    await client.scheduler.recorder.flush()
    found = [e for e in server.objects.get("events", {}).values() if e["reason"] == reason]
    return [
        (e["regarding"]["name"], e["note"]) if "note" in e else (e["involvedObject"]["name"], e["message"])
        for e in found
    ]


GARBLED = {
    "amount": ("n1-0,ACME,sixty,0:;", "invalid memory field"),
    "negative": ("n1-0,ACME,-1,0:;", "invalid memory field"),
    "beyond 32 bits": ("n1-0,ACME,4294967296,0:;", "out of range"),
    "cores": ("n1-0,ACME,9000,ten:;", "invalid core field"),
    "missing field": ("n1-0,ACME,9000:;", "missing fields"),
    "cut off": ("n1-0,AC", "missing fields"),
    "empty": ("", "0 devices in the list, the pod asks for 1"),
    "no devices": (";", "0 devices in the list, the pod asks for 1"),
    "no separators": ("n1-0 ACME 9000 10", "does not end in ':'"),
    "one field more": ("n1-0,ACME,90,00,10:;", "malformed device"),
    "cut off in the cores": ("n1-0,ACME,9000,1", "does not end in ':'"),
    "something between": ("x:n1-0,ACME,9000,10:;", "malformed device 'x'"),
    "another pod's": (";;n1-0,ACME,9000,10:;", "devices for container 2, the pod has 1"),
    "no such device": ("n1-7,ACME,9000,10:;", "the node has no device 'n1-7'"),
    "no device id": (",ACME,9000,10:;", "malformed device"),
    "too long": ("x" * 1_100_000, "too long"),
    "gone": (None, f"{ALLOCATED} is missing, and a container with devices has started"),
}


@pytest.mark.parametrize(("value", "problem"), GARBLED.values(), ids=GARBLED)
async def test_an_allocation_unreadable_at_start_closes_its_node(server, start, value, problem):
    await server.put("nodes", node("n1", cards=1))
    await server.put("nodes", node("n2", cards=1))
    await server.put("pods", bound(value=value))
    client = await start()
    why = await refusal(client, server)
    assert why.startswith("the node is closed to new ACME pods: the allocation of pod uid-holder can't be read (")
    assert problem in why
    assert why.endswith("; delete that pod or restore its annotation")
    p = await server.put("pods", pod("bound"))
    assert "pod uid-holder can't be read" in await client.bind(p, "n1"), "Bind asks too"
    assert await refusal(client, server, on="n2") == ""
    text = await client.metrics()
    assert UNREADABLE + "1.0" in text
    assert CLOSED + "1.0" in text
    ((about, told),) = await events(client, server)
    assert about == "holder"
    assert problem in told
    assert "Node n1 gives new pods no ACME devices until this pod ends or its annotation is restored" in told
    await server.remove("pods", "default/holder")
    await until_open(client, server)
    text = await client.metrics()
    assert UNREADABLE + "0.0" in text
    assert CLOSED + "0.0" in text


OPENINGS = {
    "restored": lambda server: server.put("pods", bound()),
    "succeeded": lambda server: server.put("pods", bound(value="x,y", status={"phase": "Succeeded"})),
    "failed": lambda server: server.put("pods", bound(value="x,y", status={"phase": "Failed"})),
    "deleted": lambda server: server.remove("pods", "default/holder"),
    "made again": lambda server: server.put("pods", pod("holder", uid="another")),
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
async def test_a_closed_node_opens_at_once_and_nothing_is_left(server, start, opening):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound(value="x,y"))
    client = await start()
    assert await refusal(client, server, mem=1000)
    await opening(server)
    await until_open(client, server, mem=1000)
    cluster = client.scheduler.cluster
    assert len(cluster.unreadable) == 0
    assert cluster.closed == frozenset()
    assert not list(cluster.unreadable.nodes())


async def test_a_restored_allocation_counts_again(server, start):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound(value="x,y"))
    client = await start()
    assert await refusal(client, server)
    await server.put("pods", bound())
    await until_open(client, server, mem=1000)
    assert "CardInsufficientMemory" in await refusal(client, server)


async def test_a_pod_booked_before_stays_booked_and_closes_nothing(server, start):
    await server.put("nodes", node("n1", cards=1))
    client = await start()
    await server.put("pods", bound())
    while client.scheduler.cluster.inventory.booking("uid-holder") is None:
        await asyncio.sleep(0.005)
    for value in ("x,y", "", None, "n1-7,ACME,1,1:;"):
        await server.put("pods", bound(value=value))
        await server.put("pods", pod("seen", metadata={"annotations": {"n": str(value)}}))
        while (seen := client.scheduler.cluster.pods.store.get("default/seen")) is None or (
            seen.metadata.annotations != {"n": str(value)}
        ):
            await asyncio.sleep(0.005)
        assert "CardInsufficientMemory" in await refusal(client, server), value
        assert await refusal(client, server, mem=1000) == "", value
    assert UNREADABLE + "0.0" in await client.metrics()


@pytest.mark.parametrize(
    ("status", "closes"),
    [
        (WAITING, False),
        ({"phase": "Pending"}, False),
        (STARTED, True),
        ({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}, True),
        (
            {"phase": "Running", "containerStatuses": [{"name": "c", "lastState": {"terminated": {"exitCode": 1}}}]},
            True,
        ),
        ({"phase": "Running", "containerStatuses": [{"name": "other", "state": {"running": {}}}]}, False),
    ],
    ids=["waits", "no status", "runs", "ended", "crashed", "another container runs"],
)
async def test_pod_without_allocation_closes_only_once_started(server, start, status, closes):
    """The agent starts no container with devices without an allocation, so a pod that has not started holds nothing."""
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound(value=None, status=status))
    client = await start()
    assert bool(await refusal(client, server)) is closes


async def test_an_init_container_that_ended_holds_nothing(server, start):
    await server.put("nodes", node("n1", cards=1))
    holder = bound(value=None)
    (container,) = holder["spec"]["containers"]
    holder["spec"]["initContainers"] = [container | {"name": "init"}]
    holder["spec"]["containers"] = [{"name": "c", "image": "i"}]
    ended = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
    holder["status"] = STARTED | {"initContainerStatuses": [ended]}
    await server.put("pods", holder)
    client = await start()
    assert await refusal(client, server) == ""


class Twin:
    """A second family, on the same nodes."""

    @hookimpl
    def families(self, config):
        key = "hami.io/twin-devices-allocated"
        return [Family("TWIN", Resources("twin.com/gpu", "twin.com/mem"), key, register_key="twin.com/register")]

    @hookimpl
    def register(self, node):
        text = node.annotations.get("twin.com/register")
        return None if text is None else decode_devices_json(text, key="twin.com/register", family="TWIN")


async def test_only_the_family_that_cannot_be_read_is_closed(server, start):
    made = node("n1", cards=1)
    devices = json.loads(made["metadata"]["annotations"][REGISTER])
    made["metadata"]["annotations"]["twin.com/register"] = json.dumps([{**devices[0], "id": "t0"}])
    await server.put("nodes", made)
    twin = {"hami.io/twin-devices-allocated": "t0,TWIN,lots,0:;"}
    await server.put("pods", bound(annotations=twin))
    client = await start(loaded=load(Acme, Twin))
    assert "CardInsufficientMemory" in await refusal(client, server), "the list that can be read counts"
    assert await refusal(client, server, mem=1000) == ""
    p = pod("twin")
    p["spec"]["containers"][0]["resources"] = {"limits": {"twin.com/gpu": "1", "twin.com/mem": "1"}}
    answer = await client.filter(await server.put("pods", p), ["n1"])
    assert "closed to new TWIN pods" in answer["FailedNodes"]["n1"]


async def test_unreadable_mig_instances_close_the_node(server, start):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound(annotations={keys.MIG_ALLOCATIONS: '[{"containerIndex":0'}))
    client = await start()
    assert keys.MIG_ALLOCATIONS in await refusal(client, server)


async def test_a_device_that_goes_while_its_pod_runs_closes_nothing(server, start):
    await server.put("nodes", node("n1", cards=2))
    await server.put("pods", bound("holder", "n1-1,ACME,9000,10:;"))
    client = await start()
    await server.put("nodes", node("n1", cards=1))
    while len(client.scheduler.cluster.inventory.usage("n1")) == 2:
        await asyncio.sleep(0.005)
    assert await refusal(client, server) == ""


async def test_allocations_are_checked_when_devices_appear_later(server, start):
    await server.put("nodes", {"metadata": {"name": "n1"}, "status": {}})
    await server.put("pods", bound("holder", "gone,ACME,9000,10:;"))
    client = await start()
    assert UNREADABLE + "0.0" in await client.metrics(), "a node without devices has none to give away"
    await server.put("nodes", node("n1", cards=1))
    while "no device 'gone'" not in await refusal(client, server):
        await asyncio.sleep(0.005)
    more = node("n1", cards=1)
    devices = json.loads(more["metadata"]["annotations"][REGISTER])
    more["metadata"]["annotations"][REGISTER] = json.dumps([*devices, devices[0] | {"id": "gone", "index": 1}])
    await server.put("nodes", more)
    await until_open(client, server)


async def test_each_new_problem_makes_one_event(server, start):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound(value="x,y"))
    client = await start()
    for number, value in enumerate(("x,y", "x,y", "n1-0,ACME,sixty,0:;", "n1-0,ACME,sixty,0:;")):
        await server.put("pods", bound(value=value, annotations={"n": str(number)}))
    await server.put("nodes", node("n2", cards=1))
    while "default/holder" not in client.scheduler.cluster.pods.store or (
        client.scheduler.cluster.pods.store["default/holder"].metadata.annotations.get("n") != "3"
    ):
        await asyncio.sleep(0.005)
    assert len(await events(client, server)) == 2
    assert await events(client, server, "AllocationInDoubt") == [], "an allocation that is not counted has no signature"


async def test_several_pods_are_counted_and_the_first_is_named(server, start):
    await server.put("nodes", node("n1", cards=1))
    for number in range(3):
        await server.put("pods", bound(f"p{number}", value="x,y"))
    client = await start()
    assert "the allocation of pod uid-p0 and of 2 more can't be read" in await refusal(client, server)
    assert UNREADABLE + "3.0" in await client.metrics()
    assert CLOSED + "1.0" in await client.metrics()


async def test_hamis_short_list_is_read_and_closes_nothing(server, start):
    """In NVIDIA's list, HAMi omits containers without devices."""
    await server.put("nodes", node("n1", cards=1))
    holder = bound(value="n1-0,ACME,9000,10:;")
    holder["spec"]["containers"].insert(0, {"name": "side", "image": "i"})
    await server.put("pods", holder)
    client = await start()
    assert "CardInsufficientMemory" in await refusal(client, server)
    assert await refusal(client, server, mem=1000) == ""


def undecodable(**more):
    made = bound(**more)
    made["spec"]["containers"][0]["resources"]["limits"]["acme.com/mem"] = {"not": "a quantity"}
    return made


@pytest.mark.parametrize("seen", ["at the first list", "in a watch", "at another list"])
async def test_a_pod_that_cannot_be_decoded_closes_its_node(server, start, seen):
    await server.put("nodes", node("n1", cards=1))
    if seen == "at the first list":
        await server.put("pods", undecodable())
    client = await start()
    if seen == "in a watch":
        await server.put("pods", undecodable())
    if seen == "at another list":
        server.compact()
        server.objects.setdefault("pods", {})["default/holder"] = undecodable()
        await server.end_watches()
    while not (why := await refusal(client, server, mem=1000)):
        await asyncio.sleep(0.005)
    assert "the allocation of a pod that can't be decoded can't be read (the pod can't be decoded:" in why
    assert UNREADABLE + "1.0" in await client.metrics()
    if seen == "at another list":
        return
    await server.put("pods", bound())
    await until_open(client, server, mem=1000)
    assert "CardInsufficientMemory" in await refusal(client, server)


@pytest.mark.parametrize("end", ["deleted", "ended"])
async def test_booked_pod_that_turns_undecodable_stays_booked(server, start, end):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound())
    client = await start()
    await server.put("pods", undecodable())
    await client.scheduler.cluster.pods.refresh()
    assert "CardInsufficientMemory" in await refusal(client, server)
    assert await refusal(client, server, mem=1000) == ""
    if end == "deleted":
        await server.remove("pods", "default/holder")
    else:
        await server.put("pods", undecodable(status={"phase": "Failed"}))
    await until_open(client, server)
    assert UNREADABLE + "0.0" in await client.metrics()


async def test_undecodable_node_takes_no_pods(server, start):
    await server.put("nodes", node("n1", cards=1))
    await server.put("pods", bound())
    client = await start()
    broken = node("n1", cards=1)
    broken["status"]["capacity"] = "four"
    await server.put("nodes", broken)
    while not await refusal(client, server, mem=1000):
        await asyncio.sleep(0.005)
    await server.put("nodes", node("n1", cards=1))
    await until_open(client, server, mem=1000)
    assert "CardInsufficientMemory" in await refusal(client, server)


@pytest.mark.parametrize("ours", [True, False], ids=["our signature", "another's signature"])
async def test_missing_device_of_a_signed_pod_closes_nothing(server, start, signing_key, ours):
    """The signature proves that the id is unchanged, so the allocation takes no room on another card."""
    await server.put("nodes", node("n1", cards=1))
    holder = bound(value="n1-7,ACME,9000,10:;")
    meta = holder["metadata"]
    statement = statement_of(meta["uid"], meta["annotations"])
    meta["annotations"][keys.SIGNATURE] = sign(signing_key if ours else generate_private_key(), statement)
    await server.put("pods", holder)
    client = await start()
    assert (await refusal(client, server) == "") is ours
