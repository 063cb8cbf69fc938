"""A pod's way through filter, prioritize and bind, over HTTP against a real API endpoint."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from hami_core import Family, Resources, hookimpl
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.vendor import ALLOCATED, FAMILY, TO_ALLOCATE, Acme, node, pod
from hami_core.wire import keys
from hami_core.wire.node import decode_devices_json
from hami_core.wire.signature import statement_of, verify


async def put_nodes(server, *names: str, **more) -> list[str]:
    for name in names:
        await server.put("nodes", node(name, **more))
    return list(names)


async def test_one_write_binds_and_carries_the_signed_allocation(server, start, signing_key):
    names = await put_nodes(server, "n1", "n2")
    client = await start()
    p = await server.put("pods", pod("a"))
    answer = await client.filter(p, names)
    assert answer["Error"] == ""
    assert sorted(answer["NodeNames"]) == names
    scores = await client.prioritize(p, answer["NodeNames"])
    held = [name for name, score in scores.items() if score == 10]
    assert len(held) == 1
    assert await client.bind(p, held[0]) == ""
    bound = server.objects["pods"]["default/a"]
    meta = bound["metadata"]
    assert bound["spec"]["nodeName"] == held[0]
    assert meta["annotations"][ALLOCATED] == f"{held[0]}-1,ACME,1000,10:;"
    assert meta["annotations"][TO_ALLOCATE] == meta["annotations"][ALLOCATED]
    assert meta["annotations"][keys.BIND_PHASE] == "success"
    assert meta["annotations"]["acme.com/extra"] == held[0]
    assert meta["annotations"]["acme.com/decided"] == meta["annotations"][keys.ASSIGNED_TIME]
    assert meta["labels"] == {keys.NODE: held[0]}
    statement = statement_of(meta["uid"], meta["annotations"], [FAMILY])
    assert verify([signing_key.public_key()], meta["annotations"][keys.SIGNATURE], statement) == 0
    writes = [r for r in server.requests if r[0] in {"POST", "PATCH"} and "/pods" in r[1]]
    assert [w[1] for w in writes] == ["/api/v1/namespaces/default/pods/a/binding"]


async def test_filter_writes_nothing(server, start):
    names = await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    await client.filter(p, names)
    await client.scheduler.recorder.flush()
    writes = [r for r in server.requests if r[0] != "GET" and not r[1].endswith("/events")]
    assert writes == []


async def test_filter_answers_the_best_sixteen(server, start):
    names = await put_nodes(server, *(f"n{i:02d}" for i in range(20)))
    client = await start()
    p = await server.put("pods", pod("a"))
    assert (await client.filter(p, names))["NodeNames"] == names[:16]


@pytest.mark.parametrize(("setting", "expected"), [(1, 1), (0, 20), (3, 3)])
async def test_filter_return(server, start, setting, expected):
    names = await put_nodes(server, *(f"n{i:02d}" for i in range(20)))
    client = await start(filter_return=setting)
    p = await server.put("pods", pod("a"))
    assert len((await client.filter(p, names))["NodeNames"]) == expected


async def test_nothing_fits_is_one_short_reason_for_each_node(server, start):
    names = await put_nodes(server, "n1", "n2")
    client = await start()
    p = await server.put("pods", pod("a", mem=20_000))
    answer = await client.filter(p, [*names, "unknown"])
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {
        "n1": "2/2 CardInsufficientMemory",
        "n2": "2/2 CardInsufficientMemory",
        "unknown": "node unregistered",
    }
    await client.scheduler.recorder.flush()
    messages = [e["message"] for e in server.objects["events"].values()]
    assert any(m.startswith("no available node, 3 nodes do not meet") for m in messages)
    assert "2 nodes CardInsufficientMemory(n1,n2)" in messages


async def test_event_explains_the_nearest_misses_first(server, start):
    names = await put_nodes(server, *(f"n{i:02d}" for i in range(60)), memory=1000)
    names += await put_nodes(server, "z1", cards=1, memory=19_000) + await put_nodes(server, "z2", memory=12_000)
    client = await start()
    p = await server.put("pods", pod("a", mem=20_000))
    await client.filter(p, [*names, "cpu-1", "cpu-2"])
    await client.scheduler.recorder.flush()
    (told,) = (e["message"] for e in server.objects["events"].values() if "do not meet" in e["message"])
    needs = "container c needs 20000 MiB and 10 % of the cores on one card"
    assert told.startswith(
        f"no available node, 64 nodes do not meet: {needs}; of z1's 1 card the freest has 19000 MiB free; "
        f"{needs}; of z2's 2 cards the freest has 12000 MiB free; {needs}; of n00's"
    )
    assert "; it would fit on z1 with acme.com/mem ≤ 19000; 2 nodes: refuses: node unregistered (no agent has" in told


async def test_a_hold_keeps_the_next_pod_from_the_same_slice(server, start):
    names = await put_nodes(server, "n1", cards=1)
    client = await start()
    one, two = await server.put("pods", pod("one", mem=6000)), await server.put("pods", pod("two", mem=6000))
    assert (await client.filter(one, names))["NodeNames"] == ["n1"]
    assert (await client.filter(two, names))["NodeNames"] is None
    assert (await client.filter(one, names))["NodeNames"] == ["n1"], "its own hold ends at its next Filter"


async def test_hold_ends_if_the_pod_is_unschedulable_or_deleted(server, start):
    names = await put_nodes(server, "n1", cards=1)
    client = await start()
    for ending in ("condition", "deletion"):
        one = await server.put("pods", pod(f"one-{ending}", mem=6000))
        two = await server.put("pods", pod(f"two-{ending}", mem=6000))
        store = client.scheduler.cluster.pods.store
        while f"default/one-{ending}" not in store:
            await asyncio.sleep(0.005)
        await client.filter(one, names)
        assert (await client.filter(two, names))["NodeNames"] is None
        if ending == "condition":
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            await server.put("pods", {**one, "status": {"conditions": [condition]}})
        else:
            await server.remove("pods", f"default/one-{ending}")
        while (await client.filter(two, names))["NodeNames"] is None:
            await asyncio.sleep(0.005)
        await server.remove("pods", f"default/two-{ending}")
        while list(client.scheduler.cluster.inventory.holds()):
            await asyncio.sleep(0.005)


async def test_hold_of_a_deleted_pod_ends_without_another_filter(server, start):
    """A paused kube-scheduler may send Filter for a pod that was deleted since, and nothing after that."""
    names = await put_nodes(server, "n1", cards=1)
    client = await start(hold_s=0.2)
    assert (await client.filter(pod("ghost", mem=6000), names))["NodeNames"] == ["n1"]
    async with asyncio.timeout(60):
        while "hami_scheduler_holds 0.0" not in await client.metrics():
            await asyncio.sleep(0.05)
    assert client.scheduler.cluster.inventory.usage("n1")[0].used_memory_mib == 0


async def test_bind_outranks_holds_but_not_bookings(server, start):
    names = await put_nodes(server, "n1", cards=1)
    client = await start()
    one, two, three = [await server.put("pods", pod(n, mem=6000)) for n in ("one", "two", "three")]
    await client.filter(one, names)
    assert await client.bind(two, "n1") == ""
    refused = await client.bind(one, "n1")
    assert "no longer fits: 1/1 CardInsufficientMemory" in refused
    assert "CardInsufficientMemory" in await client.bind(three, "n1")


async def test_a_failed_bind_gives_its_place_back(server, start):
    await put_nodes(server, "n1", cards=1)
    client = await start()
    one, two = [await server.put("pods", pod(n, mem=6000)) for n in ("one", "two")]
    server.faults.append(lambda m, p: Fault(status=403) if "pods/one/binding" in p else None)
    assert "injected fault" in await client.bind(one, "n1")
    assert await client.bind(two, "n1") == ""


@pytest.mark.parametrize(
    "fault", [Fault(status=500, commit=True), Fault(drop=True, commit=True), Fault(status=409, commit=True)]
)
async def test_bind_succeeds_if_only_the_answer_is_lost(server, start, fault):
    await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    server.faults.append(lambda m, path: fault if path.endswith("/binding") else None)
    assert await client.bind(p, "n1") == ""
    assert server.objects["pods"]["default/a"]["spec"]["nodeName"] == "n1"


async def test_bind_succeeds_if_a_committed_write_times_out(server, start):
    await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    server.faults.append(lambda m, path: Fault(commit=True, delay_s=30) if path.endswith("/binding") else None)
    assert await client.bind(p, "n1") == ""


async def test_bind_succeeds_if_the_plugin_was_faster_than_the_answer(server, start):
    """The node plugin consumes its list before the scheduler looks whether the pod was bound."""

    class Keeping(Acme):
        @hookimpl
        def families(self, config):
            return [replace(FAMILY, kept_key="hami.io/acme-devices-kept-allocated")]

    await put_nodes(server, "n1")
    client = await start(loaded=load(Keeping))
    p = await server.put("pods", pod("a"))

    bound = []

    def consume(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            bound.append(path)
            return Fault(status=500, commit=True)
        if bound and method == "GET" and path.endswith("/pods/a"):
            server.objects["pods"]["default/a"]["metadata"]["annotations"][ALLOCATED] = ";"
        return None

    server.faults.append(consume)
    assert await client.bind(p, "n1") == ""
    assert server.objects["pods"]["default/a"]["metadata"]["annotations"][ALLOCATED] == ";"


async def test_bind_is_refused_if_the_pod_was_bound_elsewhere(server, start):
    await put_nodes(server, "n1", "n2", cards=1)
    client = await start()
    p = await server.put("pods", pod("a", mem=6000))

    def steal(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            server.objects["pods"]["default/a"]["spec"]["nodeName"] = "n2"
        return None

    server.faults.append(steal)
    assert "it is bound to n2" in await client.bind(p, "n1")
    server.faults.clear()
    assert await client.bind(await server.put("pods", pod("b", mem=6000)), "n1") == ""


async def test_an_unknown_outcome_keeps_the_booking_until_it_is_known(server, start, monkeypatch):
    monkeypatch.setattr("hami_core.scheduler.bind.RESOLVE_AFTER_S", 0.2)
    await put_nodes(server, "n1", cards=1)
    client = await start()
    p, other = await server.put("pods", pod("a", mem=6000)), await server.put("pods", pod("b", mem=6000))
    server.faults.append(lambda m, path: Fault(drop=True) if "pods/a/binding" in path else None)
    assert "not known yet" in await client.bind(p, "n1")
    assert "CardInsufficientMemory" in await client.bind(other, "n1")
    while await client.bind(other, "n1"):
        await asyncio.sleep(0.02)


async def test_bind_again_is_the_same_answer(server, start):
    await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    assert await asyncio.gather(*(client.bind(p, "n1") for _ in range(5))) == [""] * 5
    store = client.scheduler.cluster.pods.store
    while "default/a" not in store or not store["default/a"].spec.node_name:
        await asyncio.sleep(0.005)
    assert await client.bind(p, "n1") == ""
    assert "already bound to node n1" in await client.bind(p, "n2")
    assert len([r for r in server.requests if r[1].endswith("/binding")]) == 1


async def test_bind_of_a_recreated_pod_is_refused(server, start):
    await put_nodes(server, "n1")
    client = await start()
    await server.put("pods", pod("a", uid="new"))
    old = pod("a", uid="old")
    assert "its UID is new, not old" in await client.bind(old, "n1")
    assert 'pods "gone" not found' in await client.bind(pod("gone"), "n1")


async def test_labels_are_patched_if_the_server_does_not_copy_them(server, start):
    server.copies_labels, server.minor = False, "30+"
    await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    assert await client.bind(p, "n1") == ""
    assert server.objects["pods"]["default/a"]["metadata"]["labels"] == {keys.NODE: "n1"}


async def test_a_label_patch_that_meets_another_pod_ends_the_bind(server, start):
    """The server answers 422 to a patch with another UID, and the new pod is not changed."""
    server.copies_labels, server.minor = False, "30+"
    await put_nodes(server, "n1")
    client = await start()
    p = await server.put("pods", pod("a"))
    while "default/a" not in client.scheduler.cluster.pods.store:
        await asyncio.sleep(0.005)
    again = {**p, "metadata": {**p["metadata"], "uid": "made again"}}
    server.objects["pods"]["default/a"] = again  # no watch has told yet
    assert "field is immutable" in (said := await client.bind(p, "n1"))
    assert "it is not bound" in said
    assert "labels" not in again["metadata"]


async def test_pods_found_at_start_count(server, start):
    await put_nodes(server, "n1", cards=1)
    annotations = {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,9500,10:;"}
    found = pod("old", metadata={"annotations": annotations, "deletionTimestamp": "2026-01-01T00:00:00Z"})
    found["spec"]["nodeName"] = "n1"
    await server.put("pods", found)
    client = await start()
    p = await server.put("pods", pod("a"))
    assert (await client.filter(p, ["n1"]))["FailedNodes"] == {"n1": "1/1 CardInsufficientMemory"}
    await server.put("pods", {**found, "status": {"phase": "Succeeded"}})
    while (await client.filter(p, ["n1"]))["NodeNames"] is None:
        await asyncio.sleep(0.005)


async def test_an_unbound_pod_can_not_claim_devices_by_annotation(server, start):
    await put_nodes(server, "n1", cards=1)
    annotations = {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,9500,10:;"}
    await server.put("pods", pod("liar", metadata={"annotations": annotations}))
    client = await start()
    assert (await client.filter(await server.put("pods", pod("a")), ["n1"]))["NodeNames"] == ["n1"]


async def test_pod_without_devices_is_bound_without_annotations(server, start):
    names = await put_nodes(server, "n1", "n2")
    client = await start()
    p = await server.put("pods", plain_pod("plain"))
    assert (await client.filter(p, names))["NodeNames"] == names
    assert set((await client.prioritize(p, names)).values()) == {0}
    assert await client.bind(p, "n2") == ""
    assert server.requests[-1][2]["metadata"].keys() == {"name", "namespace", "uid"}


async def test_a_nominated_node_alone_gets_the_hold(server, start):
    await put_nodes(server, "n1", "n2", cards=1)
    client = await start()
    p = await server.put("pods", pod("a", status={"phase": "Pending", "nominatedNodeName": "n2"}))
    assert (await client.filter(p, ["n2"]))["NodeNames"] == ["n2"]
    ((booking, until),) = client.scheduler.cluster.inventory.holds()
    assert booking.allocation.node == "n2"
    assert until - client.scheduler.cluster.now() > 600


async def test_scores_fall_with_distance_from_the_held_node(server, start):
    """Two nodes get scores as far apart as many nodes do, so that the policy counts as much."""
    names = await put_nodes(server, "n1", "n2", "n3")
    client = await start()
    binpack = {"annotations": {"hami.io/node-scheduler-policy": "binpack"}}

    async def scores_of(name: str, asked: list[str]) -> dict[str, int]:
        p = await server.put("pods", pod(name, metadata=dict(binpack)))
        await client.filter(p, asked)
        scores = await client.prioritize(p, asked)
        assert await client.bind(p, asked[0]) == ""
        return scores

    assert sorted((await scores_of("equal", names)).values()) == [9, 9, 10]
    assert await scores_of("two", ["n1", "n2"]) == {"n1": 10, "n2": 0}
    assert await scores_of("elsewhere", ["n2"]) == {"n2": 10}
    three = await scores_of("three", names)
    assert (three["n1"], three["n3"]) == (10, 0)
    assert 0 < three["n2"] < 9


async def test_prioritize_on_a_replica_that_did_not_filter(server, start):
    names = await put_nodes(server, "n1", "n2", "n3")
    client = await start()
    p = await server.put("pods", pod("a"))
    scores = await client.prioritize(p, names)
    assert max(scores.values()) == 10
    assert [s for s in scores.values() if s == 10] == [10]


async def test_filter_with_whole_nodes_is_a_dry_run(server, start):
    client = await start()
    p = pod("a")
    nodes = {"items": [node("x1"), {"metadata": {"name": "bare"}}]}
    answer = await client.post("/filter", {"Pod": p, "Nodes": nodes})
    assert [n["metadata"]["name"] for n in answer["Nodes"]["items"]] == ["x1"]
    assert answer["FailedNodes"] == {"bare": "node unregistered"}
    assert answer["NodeNames"] is None
    assert not list(client.scheduler.cluster.inventory.holds())


class Brittle(Acme):
    """A second vendor on the same nodes."""

    @hookimpl
    def families(self, config):
        return [
            Family(
                word="BRITTLE",
                resources=Resources(count="brittle.com/gpu", memory="brittle.com/mem"),
                allocated_key="hami.io/brittle-allocated",
                register_key="brittle.com/register",
            )
        ]

    @hookimpl
    def register(self, node):
        text = node.annotations.get("brittle.com/register")
        return None if text is None else decode_devices_json(text, key="brittle.com/register", family="BRITTLE")


async def test_failed_register_closes_only_that_vendors_devices(server, start):
    def both(brittle):
        return node("n1", cards=1, annotations={"brittle.com/register": brittle})

    devices = json.loads(node("n1", cards=1)["metadata"]["annotations"]["acme.com/register"])
    good = json.dumps([{**device, "id": "b0"} for device in devices])
    await server.put("nodes", both(good))
    client = await start(loaded=load(Acme, Brittle))
    fragile = pod("fragile")
    fragile["spec"]["containers"][0]["resources"] = {"limits": {"brittle.com/gpu": "1", "brittle.com/mem": "5"}}
    fragile = await server.put("pods", fragile)
    assert (await client.filter(fragile, ["n1"]))["NodeNames"] == ["n1"]
    await server.put("nodes", both(good[:-5]))
    while (await client.filter(fragile, ["n1"]))["NodeNames"] is not None:
        await asyncio.sleep(0.005)
    sound = await server.put("pods", pod("sound"))
    assert (await client.filter(sound, ["n1"]))["NodeNames"] == ["n1"]
    assert await client.bind(sound, "n1") == ""
    await server.put("nodes", both(good))
    while (await client.filter(fragile, ["n1"]))["NodeNames"] is None:
        await asyncio.sleep(0.005)


async def test_failed_register_keeps_pods_and_takes_no_new_ones(server, start):
    await put_nodes(server, "n1", cards=1)
    client = await start()
    one = await server.put("pods", pod("one"))
    assert await client.bind(one, "n1") == ""
    broken = node("n1", annotations={"acme.com/register": "{half"})
    await server.put("nodes", broken)
    p = await server.put("pods", pod("a"))
    while (await client.filter(p, ["n1"]))["NodeNames"] is not None:
        await asyncio.sleep(0.005)
    assert "hami_scheduler_closed_nodes 1.0" in await client.metrics()
    await put_nodes(server, "n1", cards=1)
    while (await client.filter(p, ["n1"]))["NodeNames"] is None:
        await asyncio.sleep(0.005)
    (usage,) = client.scheduler.cluster.inventory.usage("n1")
    assert usage.used_memory_mib == 2000, "the first pod and the hold of the second"


async def test_metrics_show_bookings_with_hamis_names(server, start):
    await put_nodes(server, "n1", cards=1)
    client = await start()
    assert await client.bind(await server.put("pods", pod("a")), "n1") == ""
    text = await client.metrics()
    labels = 'device_index="0",device_type="A1",device_uuid="n1-0",node="n1",zone="vGPU"'
    assert f"hami_gpu_shared_count{{{labels}}} 1.0" in text
    assert 'hami_vgpu_memory_allocated_bytes{container_index="0",device_uuid="n1-0",namespace="default",' in text
    assert "hami_scheduler_bookings 1.0" in text
    assert 'hami_scheduler_request_duration_seconds_count{result="ok",verb="bind"} 1.0' in text
    assert client.scheduler.cluster.inventory.drift() == 0


async def test_mig_instances_and_old_names_are_shown(server, start):
    await put_nodes(server, "n1", cards=2)
    reservation = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": "n1-1",
        "profile": "1g.5gb",
        "placement": {"start": 3, "size": 1},
    }
    made = {**reservation, "deviceIndex": 1, "migUUID": "MIG-x", "gpuInstanceID": 0, "computeInstanceID": 0}
    allocated = "n1-1,ACME,5000,14:n1-1,ACME,5000,14:;"
    annotations = {
        keys.NODE: "n1",
        ALLOCATED: allocated,
        keys.MIG_ALLOCATIONS: json.dumps([reservation, made]),
    }
    await server.put("pods", pod("m", metadata={"annotations": annotations}, spec={"nodeName": "n1"}))
    client = await start(legacy_metrics=True)
    lines = [line for line in (await client.metrics()).splitlines() if not line.startswith("#")]
    (mig,) = [line for line in lines if line.startswith("hami_node_gpu_mig_instance_info")]
    assert 'mig_uuid="MIG-x"' in mig
    assert 'device_index="1"' in mig
    assert any(line.startswith("GPUDeviceSharedNum{deviceidx=") for line in lines)
    assert any(line.startswith("vGPUMemoryAllocated{containeridx=") for line in lines)
    assert any(line.startswith('nodeGPUMemoryPercentage{deviceidx="0",deviceuuid=') for line in lines)
