"""Permits for Bind: following a Lease, catching up, epochs, and no write after the lease has expired."""

from __future__ import annotations

import asyncio

import pytest

from hami_core.kube.lease import LeaseFollower
from hami_core.scheduler.leadership import BindGate, NotLeaderError
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.scheduler.vendor import ALLOCATED, node, pod
from hami_core.wire import keys
from hami_core.wire.signature import epoch_of


def lease(holder: str, transitions: int = 0, duration: int = 15):
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": transitions,
    }
    return {"metadata": {"name": "hami-scheduler", "namespace": "kube-system"}, "spec": spec}


@pytest.fixture
def follow(api):
    return lambda changed: LeaseFollower(api, "kube-system", "hami-scheduler", "host-1", on_change=changed)


async def test_only_the_replica_beside_the_lease_holder_binds(server, start, follow):
    await server.put("nodes", node("n1"))
    await server.put("leases", lease("host-2_x"))
    client = await start(lead=follow)
    p = await server.put("pods", pod("a"))
    assert (await client.filter(p, ["n1"]))["NodeNames"] == ["n1"], "any synced replica answers Filter"
    assert "does not hold the scheduler's lease" in await client.bind(p, "n1")
    assert (await client.admit(pod("b")))["allowed"], "and the webhook"
    await server.put("leases", lease("host-1_y", transitions=3))
    assert await client.bind(p, "n1") == "", "Bind reads the Lease before it refuses"
    text = server.objects["pods"]["default/a"]["metadata"]["annotations"][keys.SIGNATURE]
    assert epoch_of(text) == 3


async def test_the_epoch_is_above_any_found_on_pods(server, start, follow):
    await server.put("nodes", node("n1"))
    await server.put("leases", lease("host-1_y", transitions=3))
    client = await start(lead=follow)
    p = await server.put("pods", pod("a"))
    assert await client.bind(p, "n1") == ""
    again = await start(lead=follow)
    q = await server.put("pods", pod("b"))
    assert await again.bind(q, "n1") == ""
    text = server.objects["pods"]["default/b"]["metadata"]["annotations"][keys.SIGNATURE]
    assert epoch_of(text) == 4


async def test_a_claimed_epoch_that_is_not_signed_counts_nothing(server, start):
    await server.put("nodes", node("n1"))
    forged = f"v1:{2**62}:0123456789abcdef:" + "A" * 86
    annotations = {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,1,1:;", keys.SIGNATURE: forged}
    await server.put("pods", pod("liar", metadata={"annotations": annotations}, spec={"nodeName": "n1"}))
    client = await start()
    p = await server.put("pods", pod("a"))
    assert await client.bind(p, "n1") == ""
    assert epoch_of(server.objects["pods"]["default/a"]["metadata"]["annotations"][keys.SIGNATURE]) == 0


async def test_first_bind_of_a_new_leader_sees_earlier_bookings(server, start, follow):
    await server.put("nodes", node("n1", cards=1))
    await server.put("leases", lease("host-2_x"))
    client = await start(lead=follow)
    # The other leader binds a pod, and our watch never shows it.
    annotations = {keys.NODE: "n1", ALLOCATED: "n1-0,ACME,9500,10:;"}
    theirs = pod("theirs", metadata={"annotations": annotations, "resourceVersion": "7"}, spec={"nodeName": "n1"})
    server.objects.setdefault("pods", {})["default/theirs"] = theirs
    p = await server.put("pods", pod("a"))
    await server.put("leases", lease("host-1_y", transitions=1))
    assert "CardInsufficientMemory" in await client.bind(p, "n1")


async def test_released_lease_waits_for_writes_on_their_way(server, start, follow, api):
    """The earlier leader's Bind lands two seconds after the Lease moved. Its card is not given twice."""
    await server.put("nodes", node("n1", cards=1))
    await server.put("leases", lease("host-2_x"))
    earlier = await start(lead=lambda changed: LeaseFollower(api, "kube-system", "hami-scheduler", "host-2"))
    later = await start(lead=follow)
    p, q = await server.put("pods", pod("a", mem=6000)), await server.put("pods", pod("b", mem=6000))
    slow = [Fault(delay_s=2, late=True)]
    server.faults.append(lambda verb, path: slow.pop() if slow and path.endswith("pods/a/binding") else None)
    writing = asyncio.create_task(earlier.bind(p, "n1"))
    while slow:
        await asyncio.sleep(0.005)
    await server.put("leases", lease("", transitions=0, duration=1))
    await server.put("leases", lease("host-1_y", transitions=1))
    while "leadership was lost" in (refused := await later.bind(q, "n1")):
        pass  # it learns of both Leases in turn
    assert await writing == ""
    assert "CardInsufficientMemory" in refused


async def test_stale_lease_is_read_before_a_bind(server, start, api):
    """This happens after a pause of the process, or while a watch hangs."""
    await server.put("nodes", node("n1"))
    await server.put("leases", lease("host-1_y"))
    now = [0.0]
    made: list[LeaseFollower] = []

    def lead(changed):
        made.append(LeaseFollower(api, "kube-system", "hami-scheduler", "host-1", clock=lambda: now[0]))
        return made[0]

    client = await start(lead=lead, clock=lambda: now[0])
    while not made[0].is_leader:
        await asyncio.sleep(0.005)
    # The Lease moves, and no watch shows it.
    server.objects["leases"]["kube-system/hami-scheduler"] = {
        **lease("host-2_x", 1),
        "metadata": {"name": "hami-scheduler", "namespace": "kube-system", "uid": "l", "resourceVersion": "9"},
    }
    now[0] = 5.0
    p = await server.put("pods", pod("a"))
    assert made[0].is_leader, "the watch has shown no change"
    assert "does not hold the scheduler's lease" in await client.bind(p, "n1")


async def test_a_lease_that_can_not_be_read_binds_nothing(server, start, follow):
    await server.put("nodes", node("n1"))
    server.faults.append(lambda _, path: Fault(status=500) if "leases" in path else None)
    client = await start(lead=follow)
    p = await server.put("pods", pod("a"))
    assert "does not hold" in await client.bind(p, "n1")
    assert not server.objects["pods"]["default/a"]["spec"].get("nodeName")


async def test_our_pod_is_labelled_with_its_role(server, start, follow):
    await server.put("pods", pod("me", namespace="hami"))
    await server.put("leases", lease("host-1_x"))
    await start(lead=follow, own_pod=("hami", "me"))
    me = server.objects["pods"]
    while me["hami/me"]["metadata"].get("labels") != {keys.SCHEDULER_ROLE_LABEL: "leader"}:
        await asyncio.sleep(0.005)
    await server.put("leases", lease("host-2_x", transitions=1))
    while me["hami/me"]["metadata"].get("labels") != {keys.SCHEDULER_ROLE_LABEL: "follower"}:
        await asyncio.sleep(0.005)


class Lead:
    """Leadership with values that a test sets."""

    def __init__(self) -> None:
        self.is_leader, self.epoch, self.expires_at = True, 1, 100.0
        self.is_fresh, self.others_until = True, float("-inf")

    async def confirm(self) -> bool:
        return self.is_leader

    async def run(self) -> None:
        pass


async def test_no_permit_within_three_seconds_of_the_end():
    lead, now = Lead(), [0.0]

    async def nothing() -> int:
        return -1

    gate = BindGate(lead, nothing, clock=lambda: now[0])
    assert (await gate.permit()).write_by == 3.0
    now[0] = 96.0
    assert (await gate.permit()).write_by == 97.0
    now[0] = 97.0
    with pytest.raises(NotLeaderError, match="about to expire"):
        await gate.permit()


async def test_every_term_catches_up_once():
    lead, caught = Lead(), []

    async def catch_up() -> int:
        caught.append(lead.epoch)
        return 5

    gate = BindGate(lead, catch_up, clock=lambda: 0.0)
    permits = await asyncio.gather(*(gate.permit() for _ in range(10)))
    assert {p.epoch for p in permits} == {6}
    lead.epoch = 9
    assert (await gate.permit()).epoch == 9
    assert caught == [1, 9]


async def test_lease_lost_while_catching_up_is_reported():
    lead, started = Lead(), asyncio.Event()

    async def forever() -> int:
        started.set()
        await asyncio.Event().wait()
        return 0

    gate = BindGate(lead, forever, clock=lambda: 0.0)
    waiting = asyncio.create_task(gate.permit())
    await started.wait()
    gate.changed(leads=False)
    with pytest.raises(NotLeaderError, match="leadership was lost"):
        await waiting


async def test_a_catch_up_that_fails_is_tried_again():
    lead, tries = Lead(), []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("no list")
        return 0

    gate = BindGate(lead, flaky, clock=lambda: 0.0)
    with pytest.raises(NotLeaderError, match="no list"):
        await gate.permit()
    assert (await gate.permit()).epoch == 1
