"""Many pods at once while the API server fails in every way: no card is given twice, and no booking is lost."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.scheduler.vendor import ALLOCATED, FAMILY, node, pod
from hami_core.wire import keys
from hami_core.wire.pod import decode_pod_devices
from hami_core.wire.signature import statement_of, verify

CARD = 10_000


def faults(rng: random.Random):
    """Make one request in four fail, in one of the ways in which a write can fail."""

    def fault(method: str, path: str) -> Fault | None:
        if path.endswith("/events") or rng.random() > 0.25:
            return None
        if path.endswith("/binding"):
            return rng.choice(
                [
                    Fault(status=409),
                    Fault(status=429, headers={"Retry-After": "0"}),
                    Fault(status=500),
                    Fault(status=500, commit=True),
                    Fault(drop=True),
                    Fault(drop=True, commit=True),
                    Fault(status=403),
                ]
            )
        return rng.choice([Fault(status=500), Fault(drop=True), None])

    return fault


async def place(client, server, rng: random.Random, name: str) -> None:
    """Schedule one pod as kube-scheduler does, until it is bound, does not fit any more, or is deleted."""
    manifest = pod(name, mem=rng.choice([1500, 3000, 6000, 9500]), cores=rng.choice([0, 10, 30]))
    p = await server.put("pods", manifest)
    for _ in range(30):
        if rng.random() < 0.02:
            await server.remove("pods", f"default/{name}")
            return
        answer = await client.filter(p, ["n1", "n2", "n3"])
        await asyncio.sleep(rng.random() * 0.02)
        if answer["NodeNames"]:
            scores = await client.prioritize(p, answer["NodeNames"])
            assert [s for s in scores.values() if s == 10] == [10]
            error = await client.bind(p, rng.choice(answer["NodeNames"]))
            if not error or server.objects["pods"][f"default/{name}"]["spec"].get("nodeName"):
                return
        await asyncio.sleep(rng.random() * 0.05)


async def storm(server, start, monkeypatch, signing_key, seed: int, pods: int) -> None:
    # On a busy machine a dropped request may still wait in the server, which shares our loop. This time is longer.
    monkeypatch.setattr("hami_core.scheduler.bind.RESOLVE_AFTER_S", 0.5)
    rng = random.Random(seed)
    for name in ("n1", "n2", "n3"):
        await server.put("nodes", node(name, cards=2, memory=CARD))
    client = await start()
    server.faults.append(faults(rng))
    dropping = asyncio.create_task(_drop_watches(server, rng))
    await asyncio.gather(*(place(client, server, rng, f"p{i}") for i in range(pods)))
    dropping.cancel()
    server.faults.clear()
    bound = {k: p for k, p in server.objects["pods"].items() if p["spec"].get("nodeName")}
    used: dict[str, int] = defaultdict(int)
    for p in bound.values():
        meta = p["metadata"]
        statement = statement_of(meta["uid"], meta["annotations"], [FAMILY])
        verify([signing_key.public_key()], meta["annotations"][keys.SIGNATURE], statement)
        for slices in decode_pod_devices(meta["annotations"][ALLOCATED], key=ALLOCATED, family="ACME"):
            for piece in slices:
                assert piece.device_id.startswith(p["spec"]["nodeName"])
                used[piece.device_id] += piece.memory_mib
    assert bound
    assert {card: used for card, used in used.items() if used > CARD} == {}
    inventory = client.scheduler.cluster.inventory
    uids = {p["metadata"]["uid"] for p in bound.values()}
    while {b.uid for b in inventory.bookings()} != uids:
        await asyncio.sleep(0.02)  # unknown outcomes are resolved
    booked = {u.device.id: u.used_memory_mib for n in ("n1", "n2", "n3") for u in inventory.usage(n)}
    for booking, _ in inventory.holds():
        for container in booking.allocation.containers:
            for piece in container.slices:
                booked[piece.device_id] -= piece.memory_mib
    assert {card: mib for card, mib in booked.items() if mib} == dict(used)
    assert inventory.drift() == 0


async def _drop_watches(server, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.random() * 0.2)
        await server.end_watches()


@pytest.mark.parametrize("seed", range(3))
async def test_storm(server, start, monkeypatch, signing_key, seed):
    await storm(server, start, monkeypatch, signing_key, seed, 25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 150))
async def test_long_storm(server, start, monkeypatch, signing_key, seed):
    await storm(server, start, monkeypatch, signing_key, seed, 120)
