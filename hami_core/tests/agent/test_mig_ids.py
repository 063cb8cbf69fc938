"""The ids of MIG instances reach the pod's annotation, and nothing depends on them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import grpc
import pytest

from hami_core.model import ContainerKind, MigInstance, MigPlacement
from hami_core.tests.agent.node import GPU, Acme
from hami_core.tests.kube.apiserver import Fault
from hami_core.wire import keys
from hami_core.wire.mig import MigReservation, decode_reservations, encode_reservations

APP, INIT = ContainerKind.APP, ContainerKind.INIT
C0, C1 = "card-00000000", "card-00000001"
TWO = [("prep", INIT, [(C0, 100)]), ("main", APP, [(C0, 100), (C1, 100)])]
PLANNED = (
    MigReservation(0, 0, C0, "1g.5gb", MigPlacement(6, 1)),
    MigReservation(1, 0, C0, "1g.5gb", MigPlacement(5, 1)),
    MigReservation(1, 1, C1, "2g.10gb", MigPlacement(0, 2)),
)


class Partitioned(Acme):
    """A vendor that makes an instance of each slice. Its ids are 0 for the first place, as the driver's may be."""

    boots = 1

    def allocate(self, slices, container):
        made = tuple(
            MigInstance(
                piece.device_id,
                piece.mig_placement,
                f"MIG-{piece.device_id[-1]}-{piece.mig_placement.start}-{self.boots}",
                piece.mig_placement.start,
                0,
            )
            for piece in slices
        )
        return replace(super().allocate(slices, container), mig_instances=made)


@pytest.fixture
async def mig(node):
    node.vendor = Partitioned()
    return node


async def bound(node, reservations=PLANNED, **how) -> str:
    text = how.pop("planned", None) or encode_reservations(reservations)
    return await node.pod("a", TWO, annotations={keys.MIG_ALLOCATIONS: text}, **how)


def annotation(node) -> str:
    return node.server.objects["pods"]["default/a"]["metadata"]["annotations"].get(keys.MIG_ALLOCATIONS, "")


def patches(node) -> int:
    return sum(
        method == "PATCH" and keys.MIG_ALLOCATIONS in json.dumps(body) for method, _, body in node.server.requests
    )


async def started(node, uid):
    given = [await node.kubelet.admit(uid, name, GPU, count) for name, count in (("prep", 1), ("main", 2))]
    for one in given:
        await node.kubelet.prestart(one)
    return given


async def told(node, *uuids: str) -> None:
    await node.kubelet.until(lambda: [r.mig_uuid for r in decode_reservations(annotation(node))] == list(uuids), 20)


async def test_ids_of_every_container_are_added_to_the_reservations(mig):
    await mig.up()
    await mig.registered()
    uid = await bound(mig)
    first = await mig.kubelet.admit(uid, "prep", GPU, 1)
    await mig.kubelet.prestart(first)
    await told(mig, "MIG-0-6-1", "", "")
    second = await mig.kubelet.admit(uid, "main", GPU, 2)
    await mig.kubelet.prestart(second)
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")
    found = decode_reservations(annotation(mig))
    assert tuple(r.planned for r in found) == PLANNED
    assert [(r.gpu_instance_id, r.compute_instance_id) for r in found] == [(6, 0), (5, 0), (0, 0)]
    assert json.loads(annotation(mig))[2] == {
        "containerIndex": 1,
        "deviceIndex": 1,
        "gpuUUID": C1,
        "profile": "2g.10gb",
        "placement": {"start": 0, "size": 2},
        "migUUID": "MIG-1-0-1",
        "gpuInstanceID": 0,
        "computeInstanceID": 0,
    }


async def test_a_pod_with_ids_still_verifies_after_restart_and_reboot(mig):
    await mig.up()
    await mig.registered()
    uid = await bound(mig)
    first = await mig.kubelet.admit(uid, "prep", GPU, 1)
    await mig.kubelet.prestart(first)
    await told(mig, "MIG-0-6-1", "", "")
    await mig.down()
    await mig.up()
    await mig.registered()
    second = await mig.kubelet.admit(uid, "main", GPU, 2)
    await mig.kubelet.prestart(second)
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")
    wrote = patches(mig)
    assert wrote >= 2, "one for each container, and perhaps some that met an older version"
    await mig.down()
    await mig.up()
    mig.agent.core.wake()
    await asyncio.sleep(0.5)
    assert patches(mig) == wrote, "nothing is written again"
    await mig.down()
    mig.vendor.boots = 2
    await mig.up(boot_id="boot-2")
    await told(mig, "MIG-0-6-2", "MIG-0-5-2", "MIG-1-0-2")


async def test_containers_start_while_the_ids_cannot_be_written(mig, monkeypatch):
    monkeypatch.setattr("hami_core.agent.mig_ids.RETRY_S", 0.05)
    broken = True
    mig.server.faults.append(lambda method, _: Fault(500) if broken and method == "PATCH" else None)
    await mig.up()
    await mig.registered()
    uid = await bound(mig)
    for given in await started(mig, uid):
        assert mig.kubelet.create(given)["deviceNodes"]
    assert annotation(mig) == encode_reservations(PLANNED)
    await mig.down()
    await mig.up()
    broken = False
    await asyncio.sleep(0.1)
    mig.agent.core.wake()
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")


async def test_what_another_writer_adds_meanwhile_is_kept(mig):
    """The first PATCH meets a newer version of the pod."""
    await mig.up()
    await mig.registered()
    uid = await bound(mig)
    changed = asyncio.Event()

    def fault(method, _):
        if method == "PATCH" and not changed.is_set():
            changed.set()
            return Fault(409)
        return None

    mig.server.faults.append(fault)
    await started(mig, uid)
    await changed.wait()
    pod = mig.server.objects["pods"]["default/a"]
    rows = json.loads(pod["metadata"]["annotations"][keys.MIG_ALLOCATIONS])
    rows[0]["note"] = "kept"
    pod["metadata"]["annotations"][keys.MIG_ALLOCATIONS] = json.dumps(rows)
    await mig.server.put("pods", pod)
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")
    assert json.loads(annotation(mig))[0]["note"] == "kept"


@pytest.mark.parametrize("text", ["[", "[]", '[{"containerIndex":0}]'], ids=["no JSON", "emptied", "half an entry"])
async def test_a_tenants_edit_is_not_repaired_and_gives_nothing(mig, text):
    """The agent's record says what the container has, whatever the annotation says later."""
    await mig.up()
    await mig.registered()
    uid = await bound(mig)
    given = await started(mig, uid)
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")
    pod = mig.server.objects["pods"]["default/a"]
    pod["metadata"]["annotations"][keys.MIG_ALLOCATIONS] = text
    await mig.server.put("pods", pod)
    await mig.kubelet.until(lambda: mig.agent.pods.get(uid).metadata.annotations[keys.MIG_ALLOCATIONS] == text)
    wrote = patches(mig)
    for _ in range(3):
        await mig.agent.core.pass_once()
    assert (annotation(mig), patches(mig)) == (text, wrote)
    assert mig.kubelet.create(given[1])["deviceNodes"]


async def test_forged_ids_are_replaced_and_reservations_are_signed(mig):
    await mig.up()
    await mig.registered()
    forged = [replace(r, mig_uuid="MIG-stolen", gpu_instance_id=1, compute_instance_id=1) for r in PLANNED]
    uid = await bound(mig, forged={keys.MIG_ALLOCATIONS: encode_reservations(forged)})
    await started(mig, uid)
    await told(mig, "MIG-0-6-1", "MIG-0-5-1", "MIG-1-0-1")


@pytest.mark.parametrize(
    "change", [{"profile": "3g.20gb"}, {"placement": MigPlacement(0, 4)}], ids=["profile", "place"]
)
async def test_another_profile_or_place_than_signed_is_refused(mig, change):
    await mig.up()
    await mig.registered()
    forged = (replace(PLANNED[0], **change), *PLANNED[1:])
    uid = await bound(mig, forged={keys.MIG_ALLOCATIONS: encode_reservations(forged)})
    given = await mig.kubelet.admit(uid, "prep", GPU, 1)
    with pytest.raises(grpc.aio.AioRpcError, match="signature is not valid"):
        await mig.kubelet.prestart(given)
    assert mig.vendor.allocations == []
