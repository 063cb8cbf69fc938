"""Events: aggregated and bounded; recording them never fails."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from hami_core.kube.events import AT_ONCE, BURST, MESSAGE_LIMIT, NORMAL_BURST, EventRecorder
from hami_core.kube.objects import ObjectReference
from hami_core.tests.kube.apiserver import Fault

TARGET = ObjectReference(kind="Pod", name="a", namespace="default", uid="uid-a", api_version="v1")


@asynccontextmanager
async def running(api, **more):
    recorder = EventRecorder(api, "hami-scheduler", **more)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
        await recorder.flush(60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_repeated_event_raises_the_count_of_the_first(api, server):
    async with running(api) as recorder:
        for _ in range(3):
            recorder.record(TARGET, "Warning", "FilteringFailed", "no available node")
        recorder.record(TARGET, "Normal", "BindingSucceed", "bound")
    events = {e["reason"]: e for e in server.objects["events"].values()}
    assert events["FilteringFailed"]["count"] == 3
    assert events["FilteringFailed"]["involvedObject"]["uid"] == "uid-a"
    assert events["FilteringFailed"]["source"] == {"component": "hami-scheduler"}
    assert events["BindingSucceed"]["count"] == 1


async def test_events_of_one_object_are_limited(api, server):
    async with running(api) as recorder:
        for n in range(BURST + 10):
            recorder.record(TARGET, "Warning", "R", f"message {n}")
    assert len(server.objects["events"]) == BURST
    assert recorder.dropped == 10


async def test_events_of_each_of_2000_objects_are_limited(api):
    recorder = EventRecorder(api, "x", bound=2000 * BURST, clock=lambda: 0.0)
    targets = [ObjectReference(kind="Pod", name=str(number), namespace="d") for number in range(2000)]
    for turn in range(BURST + 2):
        for target in targets:
            recorder.record(target, "Warning", "R", f"message {turn}")
    assert recorder.dropped == 2 * len(targets)


async def test_failing_server_loses_events_but_record_returns(api, server):
    server.faults.append(lambda *_: Fault(status=500))
    async with running(api) as recorder:
        recorder.record(TARGET, "Warning", "R", "m")
    assert recorder.dropped == 1


async def test_full_queue_drops_events(api):
    recorder = EventRecorder(api, "x", bound=2)
    for n in range(5):
        recorder.record(ObjectReference(kind="Pod", name=str(n), namespace="d"), "Normal", "R", "m")
    assert recorder.dropped == 3


async def test_repeated_events_of_many_objects_are_counted_up(api, server, monkeypatch):
    monkeypatch.setattr("hami_core.kube.events.PER_S", 1e6)
    pods, tries = 1200, 2
    async with running(api, bound=pods) as recorder:
        for _ in range(tries):
            for n in range(pods):
                recorder.record(ObjectReference(kind="Pod", name=f"p{n}", namespace="d"), "Warning", "R", "m")
            await recorder.flush(30)
    assert len(server.objects["events"]) == pods
    assert {event["count"] for event in server.objects["events"].values()} == {tries}


async def test_normal_events_are_dropped_before_warnings(api, server):
    async with running(api, clock=lambda: 1.0) as recorder:
        for n in range(2 * NORMAL_BURST):
            recorder.record(ObjectReference(kind="Pod", name=f"p{n}", namespace="d"), "Normal", "BindingSucceed", "m")
        recorder.record(TARGET, "Warning", "FilteringFailed", "no available node")
    assert recorder.dropped == NORMAL_BURST
    reasons = [event["reason"] for event in server.objects["events"].values()]
    assert (reasons.count("BindingSucceed"), reasons.count("FilteringFailed")) == (NORMAL_BURST, 1)


async def test_events_are_paced(api, server):
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with running(api) as recorder:
        for n in range(AT_ONCE + 20):
            recorder.record(ObjectReference(kind="Pod", name=f"p{n}", namespace="d"), "Warning", "R", "m")
    assert len(server.objects["events"]) == AT_ONCE + 20
    assert loop.time() - began > 0.3, "twenty above the burst at 50/s"


async def test_deleted_event_is_created_again(api, server):
    async with running(api) as recorder:
        recorder.record(TARGET, "Normal", "R", "m")
        while not server.objects.get("events"):
            await asyncio.sleep(0.005)
        server.objects["events"].clear()
        recorder.record(TARGET, "Normal", "R", "m")
    assert [e["count"] for e in server.objects["events"].values()] == [1]


async def test_long_messages_are_cut(api, server):
    async with running(api) as recorder:
        recorder.record(TARGET, "Normal", "R", "x" * 5000)
    (event,) = server.objects["events"].values()
    assert len(event["message"]) == MESSAGE_LIMIT
