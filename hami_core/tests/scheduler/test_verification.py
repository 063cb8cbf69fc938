"""Allocations that are not signed by us count, because their pods take room, and are reported."""

from __future__ import annotations

import asyncio
import re

from hami_core.tests.scheduler.vendor import ALLOCATED, node, pod
from hami_core.wire import keys
from hami_core.wire.signature import SignedStatement, generate_private_key, sign, statement_of


def bound(name, value="n1-0,ACME,9000,10:;", signature=""):
    annotations = {keys.NODE: "n1", ALLOCATED: value}
    return pod(
        name,
        metadata={"annotations": annotations | ({keys.SIGNATURE: signature} if signature else {})},
        spec={"nodeName": "n1"},
    )


def signed(name, key, **changes):
    made = bound(name)
    statement = statement_of(made["metadata"]["uid"], made["metadata"]["annotations"], epoch=1)
    return bound(name, signature=sign(key, statement), **changes)


async def until_counted(client, **wanted):
    text = ""
    while not all(f'hami_scheduler_allocations_in_doubt{{reason="{r}"}} {n}.0' in text for r, n in wanted.items()):
        await asyncio.sleep(0.01)
        text = await client.metrics()
    return text


def events(server):
    return [e["message"] for e in server.objects.get("events", {}).values() if e["reason"] == "AllocationInDoubt"]


async def test_unsigned_allocations_count_and_are_reported(server, start, signing_key):
    for number in range(4):
        await server.put("nodes", node(f"n{number}", cards=1))
    await server.put("pods", bound("hamis-own"))
    client = await start()
    text = await until_counted(client, unsigned=1, invalid=0)
    assert re.search(r"hami_scheduler_bookings 1\.0", text)
    await server.put("pods", signed("ours", signing_key))
    await server.put("pods", signed("forged", generate_private_key()))
    await server.put("pods", signed("altered", signing_key, value="n1-0,ACME,1,1:;"))
    again = await start()
    await until_counted(again, unsigned=1, invalid=2)
    p = await server.put("pods", pod("a", mem=9500))
    assert "CardInsufficientMemory" in await again.bind(p, "n1"), "their room stays taken"
    while len(events(server)) < 2:
        await asyncio.sleep(0.01)
    assert any("signed with key" in message for message in events(server))
    assert any("does not belong to this allocation" in message for message in events(server))
    await server.remove("pods", "default/forged")
    await server.put("pods", bound("altered") | {"status": {"phase": "Failed"}})
    await until_counted(again, unsigned=1, invalid=0)


async def test_without_keys_no_signature_is_invalid(server, start):
    await server.put("nodes", node("n1"))
    client = await start(signing_key=None)
    await server.put("pods", bound("a", signature=sign(generate_private_key(), SignedStatement("u", "n1"))))
    while "hami_scheduler_bookings 1.0" not in (text := await client.metrics()):
        await asyncio.sleep(0.01)
    assert 'hami_scheduler_allocations_in_doubt{reason="invalid"} 0.0' in text


async def test_older_public_key_verifies_older_allocations(server, start, signing_key):
    """The public half of an older key may become known later than the pods that it signed."""
    await server.put("nodes", node("n1"))
    older = generate_private_key()
    await server.put("pods", signed("a", older))
    client = await start()
    await until_counted(client, invalid=1)
    client.scheduler.keyring.set(signing_key, [signing_key.public_key(), older.public_key()])
    await until_counted(client, invalid=0)
