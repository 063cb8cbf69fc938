"""Two scheduler processes while the Lease moves between them: no card is ever given twice."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec
import pytest

from hami_core.agent.authority import Authority, Policy
from hami_core.agent.judge import Claim, misfit
from hami_core.kube.objects import Pod
from hami_core.model import Device
from hami_core.sim.cluster import Cluster
from hami_core.tests.scheduler.test_credentials import Api
from hami_core.tests.scheduler.test_process import hami_scheduler, ready
from hami_core.tests.scheduler.vendor import ALLOCATED, FAMILY, node, pod
from hami_core.wire import keys
from hami_core.wire.signature import epoch_of, load_public_keys

LEASES = "apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
CARD_MIB = 10_000
PODS = "api/v1/namespaces/default/pods"


class KubeScheduler:
    """The Lease of kube-scheduler's replicas, which is renewed, released and taken as they do it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.spec = {"holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 0}
        self.renewals = 0

    async def pass_to(self, host: str) -> None:
        self.spec |= {"holderIdentity": f"{host}_x", "leaseTransitions": self.spec["leaseTransitions"] + 1}
        await self.renew()

    async def renew(self) -> None:
        self.renewals += 1
        spec = {**self.spec, "renewTime": f"2026-01-01T00:00:00.{self.renewals:06d}Z"}
        body = {"metadata": {"name": "kube-scheduler-of-ours"}, "spec": spec}
        answer = await self.api.call(
            "PATCH", f"{LEASES}/{body['metadata']['name']}", body, patch="merge", expect=(200, 404)
        )
        if answer.get("code") == 404:
            await self.api.call("POST", LEASES, body)

    async def run(self) -> None:
        while True:
            await self.renew()
            await asyncio.sleep(1)


@asynccontextmanager
async def two(tmp_path, *more):
    """The cluster, its Lease, and replicas ``a`` and ``b``."""
    async with (
        Cluster(tmp_path / "c", nodes=[]) as cluster,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as stack,
    ):
        api = Api(cluster.url, session)
        lease = KubeScheduler(api)
        await lease.pass_to("a")
        renewing = asyncio.create_task(lease.run())
        stack.callback(renewing.cancel)
        replicas = {}
        for host in ("a", "b"):
            flags = (
                f"--kubeconfig={cluster.kubeconfig}",
                "--http_bind=127.0.0.1:0",
                f"--identity={host}",
                "--leader-elect",
                "--leader-elect-resource-name=kube-scheduler-of-ours",
                "--leader-elect-resource-namespace=kube-system",
            )
            replicas[host] = await stack.enter_async_context(hami_scheduler(tmp_path, *flags, *more))
        for hami in replicas.values():
            await hami.listening()
            await ready(session, hami.addresses[0])
        yield api, lease, replicas


async def add_pod(api, name, mem):
    manifest = pod(name, mem=mem)
    manifest["metadata"].pop("uid")
    return (await api.call("POST", PODS, manifest))["metadata"]["uid"]


async def bind(api, hami, name, uid, where) -> str:
    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": where}
    async with api.session.post(f"http://{hami.addresses[0]}/bind", json=body) as response:
        return (await response.json())["Error"]


async def bind_until(api, hami, name, uid, where) -> str:
    """Bind as kube-scheduler does: repeat the call while the replica is not ready to bind."""
    while True:
        error = await bind(api, hami, name, uid, where)
        if not any(word in error for word in ("lease", "leader", "unregistered")):
            return error
        await asyncio.sleep(0.1)


async def check(api) -> int:
    """Check that no card gave more than it has. Returns the number of bound pods."""
    given: dict[str, int] = {}
    bound = 0
    for found in (await api.call("GET", PODS))["items"]:
        if not found["spec"].get("nodeName"):
            continue
        bound += 1
        device, _, memory, *_ = found["metadata"]["annotations"][ALLOCATED].strip(";:").split(",")
        given[device] = given.get(device, 0) + int(memory)
    assert all(memory <= CARD_MIB for memory in given.values()), given
    return bound


async def served(api, tmp_path, where) -> list[str]:
    """Names of the bound pods that the node's agent serves. Of clashing pods it serves the later leader's."""
    key = load_public_keys((tmp_path / "signing.key").read_bytes(), where="signing.key")
    authority = Authority(where, {FAMILY.word: FAMILY}, key, Policy())
    found = [msgspec.convert(pod, Pod) for pod in (await api.call("GET", PODS))["items"]]
    claims = sorted((authority.claim(pod) for pod in found if pod.spec.node_name == where), key=lambda c: c.order)
    card = Device(f"{where}-0", 0, 10, CARD_MIB, 100, "A1", FAMILY.word)
    holders: list[Claim] = []
    for claim in claims:
        if not misfit(claim, holders, {card.id: card}):
            holders.append(claim)
    return [claim.label.partition("/")[2] for claim in holders]


async def test_leader_paused_during_a_bind_gives_no_card_twice(tmp_path):
    """The leader is stopped at a random moment, the Lease is released and moves, and the leader continues.

    Nothing can stop a write between the leader's last check of the clock and the system call that sends it. If it was
    stopped just there, both pods are bound, and the node serves the new leader's pod.
    """
    rounds, late_writes = 3, 0
    async with two(tmp_path) as (api, lease, replicas):
        for number in range(rounds):
            await api.call("POST", "api/v1/nodes", node(f"n{number}", cards=1))
        names = ["a", "b"]
        for number in range(rounds):
            old, new = replicas[names[0]], replicas[names[1]]
            where = f"n{number}"
            first, second = await add_pod(api, f"first{number}", 6000), await add_pod(api, f"second{number}", 6000)
            assert await bind_until(api, old, "none", "0", where), "the replica leads, but there is no such pod"
            late = asyncio.create_task(bind(api, old, f"first{number}", first, where))
            await asyncio.sleep(random.uniform(0, 0.03))
            old.process.send_signal(signal.SIGSTOP)
            await lease.pass_to(names[1])
            taken = await bind_until(api, new, f"second{number}", second, where)
            old.process.send_signal(signal.SIGCONT)
            after = await late
            assert taken == "" or after == "", (taken, after)
            late_writes += taken == after
            assert await served(api, tmp_path, where) == [f"second{number}" if taken == "" else f"first{number}"]
            names.reverse()
        assert late_writes <= 1, "the moment is too short to be met twice"


async def test_binds_sent_to_both_while_the_lease_moves_to_and_fro(tmp_path):
    """A kube-scheduler that just lost the Lease still sends Binds. Some writes are lost, and some land late."""
    async with two(tmp_path) as (api, lease, replicas):
        for number in range(3):
            await api.call("POST", "api/v1/nodes", node(f"n{number}", cards=2))
        uids = {f"p{number}": await add_pod(api, f"p{number}", 4000) for number in range(16)}

        async def move():
            for host in ("b", "a", "b"):
                await asyncio.sleep(random.uniform(0, 2))
                await lease.pass_to(host)

        async def send(name):
            places = [f"n{number}" for number in range(3)]
            for _ in range(400):
                error = await bind(api, random.choice(list(replicas.values())), name, uids[name], random.choice(places))
                if not error or "already bound" in error:
                    return
                await asyncio.sleep(random.uniform(0, 0.2))

        moving = asyncio.create_task(move())
        await asyncio.gather(*(send(name) for name in uids if name < "p5" or len(name) > 2))
        await moving
        bound = await check(api)
        assert 0 < bound <= 12
        found = (await api.call("GET", PODS))["items"]
        epochs = {epoch_of(p["metadata"]["annotations"][keys.SIGNATURE]) for p in found if p["spec"].get("nodeName")}
        assert all(epoch >= 0 for epoch in epochs)


async def test_behind_a_service_our_own_lease_decides(tmp_path):
    """One replica holds kube-scheduler's Lease. It is paused until our Lease expires and the other replica gets it."""
    async with two(tmp_path, "--lease=own", "--leader-elect-resource-name=hami") as (api, lease, replicas):
        await api.call("POST", "api/v1/nodes", node("n0", cards=1))

        async def leader():
            while True:
                found = await api.call("GET", f"{LEASES}/hami", expect=(200, 404))
                holder = found.get("spec", {}).get("holderIdentity", "").split("_")[0]
                if holder in replicas:
                    return holder
                await asyncio.sleep(0.2)

        lead = await leader()
        other = "b" if lead == "a" else "a"
        await lease.pass_to(lead)  # kube-scheduler's, which nobody follows here
        first, second = await add_pod(api, "first", 6000), await add_pod(api, "second", 6000)
        refused = await bind(api, replicas[other], "first", first, "n0")
        assert "does not hold the scheduler's lease" in refused
        replicas[lead].process.send_signal(signal.SIGSTOP)
        while await leader() != other:  # it runs out
            await asyncio.sleep(0.2)
        assert await bind_until(api, replicas[other], "second", second, "n0") == ""
        replicas[lead].process.send_signal(signal.SIGCONT)
        late = await bind(api, replicas[lead], "first", first, "n0")
        assert late, "a leader that was paused binds nothing"
        assert await check(api) == 1


@pytest.fixture(autouse=True)
def a_seed(request):
    random.seed(request.node.name)
