"""HAMi's scheduler with our agent: the agent removes the node lock, sets the phase, and reads HAMi's short lists."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from hami_core.agent.authority import Mode, Policy
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import FAMILY, GPU, Node
from hami_core.tests.kube.apiserver import Fault
from hami_core.vendorkit.locks import format_lock, format_time_lock
from hami_core.wire import keys

if TYPE_CHECKING:
    from hami_core.tests.agent.stub_kubelet import Given

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
C0, C1 = "card-00000000", "card-00000001"
TRUST = Policy(Mode.TRUST, schedulers=frozenset({"hami-scheduler"}))
ADOPT = Policy(Mode.ADOPT, adopt_before=datetime(2026, 2, 1, tzinfo=UTC))
OTHERS_LIST = "hami.io/Ascend910B3-devices-to-allocate"

Containers = list[tuple[str, ContainerKind, list[tuple[str, int]]]]


@dataclass
class HamiScheduler:
    """HAMi v2.10's Bind: it locks the node, writes the phase and binds.

    HAMi's lists leave out containers without devices.
    """

    node: Node

    async def bind(self, name: str, containers: Containers, **how: Any) -> str:
        lock = self.lock()
        holder = lock.rpartition(",")[2] if lock else ""
        if lock and ("," not in lock or f"default/{holder}" in self.node.server.objects["pods"]):
            raise AssertionError("node n1 has been locked within 5m0s: node lock contention")
        await self.put_lock(format_lock(datetime.now(UTC), "default", name))
        return await self.pod(name, containers, **how)

    async def pod(self, name: str, containers: Containers, **how: Any) -> str:
        held = [slices for _, _, slices in containers if slices]
        text = "".join("".join(f"{card},ACME,{mib},0:" for card, mib in slices) + ";" for slices in held)
        annotations = {
            keys.BIND_PHASE: keys.PHASE_ALLOCATING,
            keys.BIND_TIME: "1",
            FAMILY.to_allocate_key: text,
            **how.pop("annotations", {}),
        }
        return await self.node.pod(name, containers, signed=False, text=text, annotations=annotations, **how)

    async def put_lock(self, text: str) -> None:
        found = self.node.server.objects["nodes"]["n1"]
        annotations = {**found["metadata"].get("annotations", {}), keys.NODE_LOCK: text}
        await self.node.server.put("nodes", {**found, "metadata": {**found["metadata"], "annotations": annotations}})

    def lock(self) -> str:
        return str(self.node.server.objects["nodes"]["n1"]["metadata"].get("annotations", {}).get(keys.NODE_LOCK, ""))

    def annotation(self, name: str, key: str = keys.BIND_PHASE) -> str:
        return str(self.node.server.objects["pods"][f"default/{name}"]["metadata"]["annotations"].get(key, ""))


@pytest.fixture
async def hami(node) -> HamiScheduler:
    await node.server.put("nodes", {"metadata": {"name": "n1"}})
    return HamiScheduler(node)


async def started(node: Node, given: Given) -> str:
    await node.kubelet.prestart(given)
    return node.limits_of(node.kubelet.create(given))


async def free(node: Node, hami: HamiScheduler, name: str, phase: str = keys.PHASE_SUCCESS) -> None:
    """Wait until the next pod can be bound after this one."""
    await node.kubelet.until(lambda: not hami.lock() and hami.annotation(name) == phase, 10)


@pytest.mark.parametrize("serial", [False, True], ids=["cdi", "serial"])
async def test_the_next_pod_is_bound_after_the_lock_is_removed(node, hami, serial):
    await node.up(policy=TRUST, serial=serial)
    await node.registered()
    for number in range(4):
        uid = await hami.bind(f"p{number}", [("prep", INIT, []), ("main", APP, [(C0, 100 + number)])])
        given = await node.kubelet.admit(uid, "main", GPU, 1)
        await free(node, hami, f"p{number}")
        assert hami.annotation(f"p{number}", FAMILY.to_allocate_key) == ";"
        await node.kubelet.prestart(given)
        if not serial:
            assert node.limits_of(node.kubelet.create(given)) == f"{uid} main {C0} {100 + number}"


async def test_the_lock_stays_until_the_last_container_is_asked_for(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    uid = await hami.bind("a", [("prep", INIT, [(C1, 50)]), ("main", APP, [(C0, 100)])])
    await node.kubelet.admit(uid, "prep", GPU, 1)
    await asyncio.sleep(0.3)
    assert hami.lock()
    assert hami.annotation("a") == keys.PHASE_ALLOCATING
    await node.kubelet.admit(uid, "main", GPU, 1)
    await free(node, hami, "a")


@pytest.mark.parametrize("policy", [Policy(), Policy(Mode.TRUST, schedulers=frozenset({"another"}))])
async def test_a_refused_pod_fails_and_its_lock_is_removed(node, hami, policy):
    await node.up(policy=policy)
    await node.registered()
    await node.kubelet.admit(await hami.bind("a", [("main", APP, [(C0, 100)])]), "main", GPU, 1)
    await free(node, hami, "a", keys.PHASE_FAILED)
    assert hami.annotation("a", FAMILY.to_allocate_key), "HAMi's plugin leaves the list too"


async def test_the_lock_of_a_pod_that_does_not_fit_is_removed(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    await node.kubelet.admit(await hami.bind("a", [("main", APP, [(C0, 99_999)])]), "main", GPU, 1)
    await free(node, hami, "a", keys.PHASE_FAILED)


@pytest.mark.parametrize("when", ["before the start", "after the phase", "lock seen late", "ended"])
async def test_an_interrupted_bind_is_finished_later(node, hami, when):
    """The agent was killed, or it saw the lock later than the pod."""
    await node.up(policy=TRUST)
    await node.registered()
    uid = await hami.bind("a", [("main", APP, [(C0, 100)])])
    lock = hami.lock()
    if when == "ended":
        await hami.pod("a", [("main", APP, [(C0, 100)])], phase="Failed")  # rejected before devices were asked for
        await node.kubelet.until(lambda: not hami.lock(), 10)
        assert hami.annotation("a") == keys.PHASE_ALLOCATING
        return
    await node.kubelet.admit(uid, "main", GPU, 1)
    await free(node, hami, "a")
    if when != "lock seen late":
        await node.down()
    await hami.put_lock(lock)
    if when == "before the start":
        await hami.pod("a", [("main", APP, [(C0, 100)])])
    if when != "lock seen late":
        await node.up(policy=TRUST)
    await free(node, hami, "a")


async def test_a_conflict_is_retried(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    uid = await hami.bind("a", [("main", APP, [(C0, 100)])])
    faults = iter([Fault(409), Fault(500)])
    node.server.faults.append(lambda method, _: next(faults, None) if method == "PATCH" else None)
    await node.kubelet.admit(uid, "main", GPU, 1)
    await free(node, hami, "a")


@pytest.mark.parametrize(
    ("lock", "goes"),
    [
        (lambda now: format_lock(now, "default", "a"), True),
        (format_time_lock, True),
        (lambda now: format_lock(now, "default", "b"), False),
        (lambda now: format_lock(now, "other", "a"), False),
        (lambda now: f"{format_time_lock(now)},default", False),
        (lambda _now: "no,time,at,all", False),
    ],
    ids=["its own", "bare time", "another pod's", "another namespace's", "two parts", "malformed"],
)
async def test_only_the_pods_own_lock_is_removed(node, hami, lock, goes):
    await node.up(policy=TRUST)
    await node.registered()
    await hami.put_lock(lock(datetime.now(UTC)))
    await node.kubelet.admit(await hami.pod("a", [("main", APP, [(C0, 100)])]), "main", GPU, 1)
    await node.kubelet.until(lambda: hami.annotation("a") == keys.PHASE_SUCCESS, 10)
    await asyncio.sleep(0.2)
    assert bool(hami.lock()) is not goes


async def test_a_pod_waits_for_the_plugin_of_another_vendor(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    containers: Containers = [("main", APP, [(C0, 100)])]
    uid = await hami.bind("a", containers, annotations={OTHERS_LIST: "chip-0,Ascend910B3,1,0:;"})
    await node.kubelet.admit(uid, "main", GPU, 1)
    await asyncio.sleep(0.3)
    assert hami.lock(), "the other plugin finds its pod by the lock"
    await hami.pod("a", containers, annotations={OTHERS_LIST: ";"})
    await free(node, hami, "a")


async def test_two_agents_of_ours_finish_a_locked_pod_together(node, hami):
    """Each agent empties its own list. The one that finds every list empty removes the lock."""
    await node.up(policy=TRUST)
    await node.registered()
    uid = await hami.bind("a", [("main", APP, [(C0, 100)])], annotations={OTHERS_LIST: "chip-0,Ascend910B3,1,0:;"})
    await node.kubelet.admit(uid, "main", GPU, 1)
    await node.kubelet.until(lambda: hami.annotation("a", FAMILY.to_allocate_key) == ";", 10)
    assert hami.lock()
    assert hami.annotation("a") == keys.PHASE_ALLOCATING
    found = node.server.objects["pods"]["default/a"]
    found["metadata"]["annotations"][OTHERS_LIST] = ";"
    await node.server.put("pods", found)
    await free(node, hami, "a")


async def test_a_refused_pod_does_not_wait_for_another_vendor(node, hami):
    await node.up(policy=Policy())
    await node.registered()
    uid = await hami.bind("a", [("main", APP, [(C0, 100)])], annotations={OTHERS_LIST: "chip-0,Ascend910B3,1,0:;"})
    await node.kubelet.admit(uid, "main", GPU, 1)
    await free(node, hami, "a", keys.PHASE_FAILED)


async def test_pods_without_our_devices_are_left_alone(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    await hami.put_lock(format_lock(datetime.now(UTC), "default", "a"))
    await node.server.put(
        "pods",
        {
            "metadata": {
                "name": "a",
                "namespace": "default",
                "uid": "a",
                "annotations": {keys.BIND_PHASE: keys.PHASE_ALLOCATING, keys.NODE: "n1"},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {"phase": "Pending"},
        },
    )
    await asyncio.sleep(0.3)
    assert hami.lock()
    assert hami.annotation("a") == keys.PHASE_ALLOCATING


async def test_a_signed_pod_bound_before_our_agent_came_is_finished(node, hami):
    """Our scheduler bound the pod for HAMi's plugin. Then our agent replaced that plugin."""
    await hami.put_lock(format_lock(datetime.now(UTC), "default", "a"))
    uid = await node.pod("a", [("main", APP, [(C0, 100)])], annotations={keys.BIND_PHASE: keys.PHASE_ALLOCATING})
    await node.up()
    await node.registered()
    await node.kubelet.admit(uid, "main", GPU, 1)
    await free(node, hami, "a")


# --- short lists ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [TRUST, ADOPT], ids=["trust", "adopt"])
@pytest.mark.parametrize(
    "containers",
    [
        [("one", APP, []), ("two", APP, [(C0, 222)])],
        [("prep", INIT, []), ("one", APP, [(C0, 111)]), ("two", APP, [(C1, 222)])],
        [("prep", INIT, [(C0, 333)]), ("one", APP, []), ("two", APP, [(C0, 111), (C1, 222)])],
        [("side", SIDECAR, [(C0, 333)]), ("prep", INIT, []), ("one", APP, []), ("two", APP, [(C1, 222)])],
    ],
    ids=["second of two", "both apps", "init and last", "sidecar and last"],
)
async def test_each_container_of_a_short_list_gets_its_own(node, hami, policy, containers):
    await node.up(policy=policy)
    await node.registered()
    uid = await hami.bind("a", containers)
    for name, _, slices in containers:
        if slices:
            given = await node.kubelet.admit(uid, name, GPU, len(slices))
            wanted = "\n".join(f"{uid} {name} {card} {mib}" for card, mib in slices)
            assert await started(node, given) == wanted
    await free(node, hami, "a")


async def test_a_short_list_that_does_not_fit_is_refused(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    containers: Containers = [("none", APP, []), ("one", APP, [(C0, 111)]), ("two", APP, [(C1, 222)])]
    uid = await node.pod("a", containers, signed=False, text=f"{C0},ACME,111,0:;")
    given = await node.kubelet.admit(uid, "two", GPU, 1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert "which container has which devices can't be told" in caught.value.details()


async def test_a_signed_short_list_is_refused(node, hami):
    await node.up(policy=TRUST)
    await node.registered()
    uid = await node.pod("a", [("one", APP, []), ("two", APP, [(C0, 222)])], text=f"{C0},ACME,222,0:;")
    given = await node.kubelet.admit(uid, "two", GPU, 1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert "1 containers in the list, the pod has 2" in caught.value.details()
