"""Following kube-scheduler's Lease, and holding our own. The tests set the clock."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from hami_core.kube.lease import LeaseElector, LeaseFollower
from hami_core.tests.kube.apiserver import Fault


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(holder: str, *, renewed: int = 0, transitions: int = 0, duration: int = 15) -> dict[str, Any]:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "renewTime": f"2026-01-01T00:00:{renewed:02d}.000000Z",
        "leaseTransitions": transitions,
    }
    return {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def following(api, clock, **more):
    follower = LeaseFollower(api, "kube-system", "kube-scheduler", "host-1", clock=clock, **more)
    task = asyncio.create_task(follower.run())
    yield follower
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_leads_while_the_holder_is_on_our_host(api, server):
    clock, told = Clock(), []
    await server.put("leases", lease("host-1_abc", transitions=4))
    async with following(api, clock, on_change=told.append) as follower:
        await until(lambda: follower.is_leader)
        assert follower.epoch == 4
        clock.now += 14
        assert follower.is_leader
        clock.now += 2
        assert not follower.is_leader, "nobody renewed it"
        await server.put("leases", lease("host-1_abc", renewed=16, transitions=4))
        await until(lambda: follower.is_leader)
        await server.put("leases", lease("host-2_def", renewed=17, transitions=5))
        await until(lambda: not follower.is_leader)
        assert told == [True, False]
        assert follower.epoch == 5


async def test_holder_with_a_longer_host_name_is_not_ours(api, server):
    await server.put("leases", lease("host-12_abc"))
    async with following(api, Clock()) as follower:
        await until(follower._informer.synced.is_set)
        assert not follower.is_leader


async def test_write_without_renewal_does_not_extend_the_lease(api, server):
    clock = Clock()
    await server.put("leases", lease("host-1_abc"))
    async with following(api, clock) as follower:
        await until(lambda: follower.is_leader)
        clock.now += 10
        changed = lease("host-1_abc")
        changed["metadata"]["labels"] = {"x": "y"}
        await server.put("leases", changed)
        assert await follower.confirm()
        clock.now += 6
        assert not await follower.confirm()


async def test_confirm_reads_past_a_late_watch(api, server):
    clock = Clock()
    follower = LeaseFollower(api, "kube-system", "kube-scheduler", "host-1", clock=clock)
    await server.put("leases", lease("host-1_abc"))
    assert not follower.is_leader
    assert await follower.confirm()
    server.faults.append(lambda *_: Fault(status=500))
    assert not await follower.confirm()


def elector(api, identity: str, clock: Clock, **more: Any) -> LeaseElector:
    return LeaseElector(api, "hami", "hami-scheduler", identity, clock=clock, **more)


async def test_second_candidate_waits_until_the_lease_expires(api, server):
    clock = Clock()
    one, two = elector(api, "one", clock), elector(api, "two", clock)
    assert await one.confirm()
    assert not await two.confirm()
    clock.now += 14
    assert not await two.confirm()
    clock.now += 16
    assert await two.confirm()
    assert two.epoch == 1
    assert not one.is_leader
    assert not await one.confirm()


async def test_renewing_does_not_change_the_epoch(api, server):
    clock = Clock()
    one = elector(api, "one", clock)
    for _ in range(3):
        assert await one.confirm()
        clock.now += 5
    assert one.epoch == 0


async def test_any_transport_error_means_not_renewed(api, server):
    clock = Clock()
    one = elector(api, "one", clock)
    assert await one.confirm()
    server.faults.append(lambda *_: Fault(drop=True))
    clock.now += 10
    assert await one.confirm(), "still inside the duration of the last renewal"
    clock.now += 6
    assert not await one.confirm()


async def test_candidate_that_loses_a_race_does_not_lead(api, server):
    clock = Clock()
    one = elector(api, "one", clock)
    assert await one.confirm()
    clock.now += 20

    def steal(method: str, _: str) -> Fault | None:
        if method == "PATCH":
            server.objects["leases"]["hami/hami-scheduler"]["metadata"]["resourceVersion"] = "stolen"
        return None

    server.faults.append(steal)
    assert not await one.confirm()


async def test_released_lease_is_taken_at_once(api, server):
    clock, told = Clock(), []
    one = elector(api, "one", clock, on_change=told.append)
    task = asyncio.create_task(one.run())
    await until(lambda: told == [True])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert told == [True, False]
    assert not server.objects["leases"]["hami/hami-scheduler"]["spec"]["holderIdentity"]
    assert await elector(api, "two", clock).confirm()
