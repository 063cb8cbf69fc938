"""One pod's way from Allocate to its own spec, over real sockets."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from hami_core.agent.authority import Mode, Policy
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.errors import DeviceError
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import FAMILY, GPU
from hami_core.tests.agent.stub_kubelet import Given
from hami_core.wire import keys
from hami_core.wire.signature import generate_private_key

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
C0, C1 = "card-00000000", "card-00000001"


def with_entry(**changes) -> bytes:
    entry = {"PodUID": "u", "ContainerName": "c", "ResourceName": GPU, "DeviceIDs": {}, "AllocResp": ""} | changes
    return json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}).encode()


async def test_a_container_gets_exactly_its_slice(node):
    await node.up()
    await node.registered()
    assert node.kubelet.options[GPU].pre_start_required
    assert node.kubelet.options[GPU].get_preferred_allocation_available
    uid = await node.pod("a", [("main", APP, [(C1, 300)])], annotations={"acme.io/tune": "x", "other": "y"})
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    assert given.response.envs == {"ACME_VISIBLE": "void"}
    assert not given.response.mounts
    await node.kubelet.prestart(given)
    edits = node.kubelet.create(given)
    assert node.limits_of(edits) == f"{uid} main {C1} 300"
    assert "ACME_VISIBLE=void" in edits["env"]
    assert edits["deviceNodes"] == [{"path": f"/dev/{C1}", "permissions": "rw"}]
    assert node.vendor.allocations[0].annotations == {"acme.io/tune": "x"}
    region = next(Path(m["hostPath"]) for m in edits["mounts"] if m["containerPath"].endswith("region"))
    assert stat.S_IMODE(region.stat().st_mode) == 0o755
    assert stat.S_IMODE((region / "vgpu.cache").stat().st_mode) == 0o666


async def test_init_and_app_with_the_same_slots_are_told_apart(node):
    await node.up()
    await node.registered()
    uid = await node.pod("a", [("prep", INIT, [(C0, 100)]), ("log", SIDECAR, []), ("main", APP, [(C0, 400)])])
    first = await node.kubelet.admit(uid, "prep", GPU, 1)
    second = await node.kubelet.admit(uid, "main", GPU, 1, reuse=first.slots)
    assert first.slots == second.slots
    await node.kubelet.prestart(first)
    assert node.limits_of(node.kubelet.create(first)) == f"{uid} prep {C0} 100"
    assert node.limits_of(node.kubelet.create(second)) == f"{uid} main {C0} 400"


async def test_every_allocate_answers_a_different_name(node):
    await node.up()
    await node.registered()
    uids = [await node.pod(f"p{i}", [("main", APP, [(C0, 10)])]) for i in range(8)]
    given = [await node.kubelet.admit(uid, "main", GPU, 1) for uid in uids]
    names = {g.response.cdi_devices[0].name for g in given}
    assert len(names) == 8
    assert all(n.startswith("acme.hami.io/slot=") and len(n.partition("=")[2]) == 32 for n in names)


async def refusal(node, given) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(KeyError):
        node.kubelet.create(given)
    return caught.value.details()


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"signed": False}, "is not signed"),
        ({"key": generate_private_key()}, "signature is not valid"),
        ({"forged": {FAMILY.allocated_key: f"{C0},ACME,900,0:;"}}, "does not belong to this allocation"),
        ({"forged": {keys.NODE: "n2"}}, "is for node n2"),
        ({"forged": {keys.SIGNATURE: "v1:zz"}}, "malformed, expected v1"),
        ({"text": f"{C0},ACME,-5,0:;"}, "malformed"),
        ({"text": f"{C0},ACME,99999999999,0:;"}, "malformed"),
        ({"text": f"{C0},ACME,10"}, "malformed"),
        ({"text": f"{C0},ACME,10,0:;{C0},ACME,10,0:;{C0},ACME,10,0:;"}, "malformed"),
        ({"without": [FAMILY.allocated_key]}, "was not placed by the HAMi scheduler"),
    ],
)
async def test_an_invalid_allocation_is_refused_with_its_reason(node, how, text):
    agent = await node.up()
    await node.registered()
    uid = await node.pod("a", [("main", APP, [(C0, 300)])], **how)
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    said = await refusal(node, given)
    assert said.startswith("pod default/a, container main: ")
    assert text in said
    assert agent.actions.refusals == [("default/a", "main", said.partition("main: ")[2])]
    assert not agent.core.records


async def test_a_refused_pod_is_annotated_when_its_reason_is_gone(node):
    agent = await node.up()
    await node.registered()
    uid = await node.pod("a", [("main", APP, [(C0, 300)])], signed=False)
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    await refusal(node, given)
    await node.pod("a", [("main", APP, [(C0, 300)])])
    await node.kubelet.until(lambda: agent.actions.touched)
    await node.kubelet.prestart(given)
    assert node.limits_of(node.kubelet.create(given)) == f"{uid} main {C0} 300"


async def test_unsigned_pods_of_a_trusted_scheduler_pass(node):
    await node.up(policy=Policy(Mode.TRUST, schedulers=frozenset({"hami-scheduler"})))
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])], signed=False), "main", GPU, 1)
    await node.kubelet.prestart(given)


async def test_unsigned_pods_of_other_schedulers_are_refused(node):
    await node.up(policy=Policy(Mode.TRUST, schedulers=frozenset({"another-scheduler"})))
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])], signed=False), "main", GPU, 1)
    assert "is not signed" in await refusal(node, given)


async def test_only_pods_created_before_the_time_are_adopted(node):
    await node.up(policy=Policy(Mode.ADOPT, adopt_before=datetime(2026, 2, 1, tzinfo=UTC)))
    await node.registered()
    old = await node.pod("old", [("main", APP, [(C0, 1)])], signed=False, created="2026-01-31T23:59:59Z")
    await node.kubelet.prestart(await node.kubelet.admit(old, "main", GPU, 1))
    new = await node.pod("new", [("main", APP, [(C0, 1)])], signed=False, created="2026-02-01T00:00:01Z")
    assert "is not signed" in await refusal(node, await node.kubelet.admit(new, "main", GPU, 1))


async def test_devices_of_adopted_pods_count_as_taken(node):
    """HAMi's plugin served them: the checkpoint has no fresh name, there is no record, and the list is a short one."""
    agent = await node.up(policy=Policy(Mode.ADOPT, adopt_before=datetime(2026, 2, 1, tzinfo=UTC)))
    await node.registered()
    containers = [("prep", INIT, []), ("main", APP, [(C0, 700)])]
    text = f"{C0},ACME,700,0:;"
    old = await node.pod("old", containers, signed=False, text=text, phase="Running", created="2026-01-31T00:00:00Z")
    theirs = Given(old, "main", GPU, [f"{C0}-0"], api.ContainerAllocateResponse(envs={"ACME_VISIBLE": C0}))
    node.kubelet.given.append(theirs)
    node.kubelet.checkpoint()
    await node.kubelet.prestart(theirs)
    assert not agent.core.records, "an adopted pod gets no record"
    await node.kubelet.until(lambda: agent.core.adopted("acme"))  # counted by the next pass, as its start needs none
    assert [(name, ref.pod) for name, ref in agent.core.adopted("acme").items()] == [(f"{old}_main", "old")]
    fits = await node.kubelet.admit(await node.pod("fits", [("main", APP, [(C0, 300)])]), "main", GPU, 1)
    await node.kubelet.prestart(fits)
    late = await node.kubelet.admit(await node.pod("late", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    assert "needs 1 MiB, 0 of 1000 MiB are free (held by default/fits, default/old)" in await refusal(node, late)
    await node.pod("old", containers, signed=False, text=text, phase="Succeeded", created="2026-01-31T00:00:00Z")
    await node.kubelet.until(lambda: agent.actions.touched == ["default/late"])
    await node.kubelet.prestart(late)


async def test_an_ended_pod_is_not_tended(node):
    """Its record stays as long as the kubelet's checkpoint names the pod, which is until another one is admitted."""
    agent = await node.up()
    await node.registered()
    containers = [("main", APP, [(C0, 700)])]
    uid = await node.pod("a", containers)
    await node.kubelet.prestart(await node.kubelet.admit(uid, "main", GPU, 1))
    assert [record.pod for record in agent.core.live("acme")] == ["a"]
    await node.pod("a", containers, phase="Succeeded")
    await node.kubelet.until(lambda: not agent.core.live("acme"))
    assert [record.pod for record in agent.core.records.values()] == ["a"]


async def test_a_holder_stays_and_a_pod_that_does_not_fit_is_refused(node):
    agent = await node.up()
    await node.registered()
    first = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 700)])]), "main", GPU, 1)
    await node.kubelet.prestart(first)
    late = await node.kubelet.admit(await node.pod("b", [("main", APP, [(C0, 400)])], epoch=9), "main", GPU, 1)
    said = await refusal(node, late)
    assert "needs 400 MiB, 300 of 1000 MiB are free (held by default/a)" in said
    assert agent.actions.unfit == {"default/b"}
    # The kubelet's checkpoint lists a pod that has ended until it admits another.
    await node.pod("a", [("main", APP, [(C0, 700)])], phase="Succeeded")
    await node.server.remove("pods", "default/a")
    await node.kubelet.until(lambda: agent.actions.touched == ["default/b"])
    await node.kubelet.prestart(late)


async def test_a_force_deleted_pod_keeps_its_devices_for_a_while(node):
    now = [0.0]
    agent = await node.up(clock=lambda: now[0])
    await node.registered()
    first = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 700)])]), "main", GPU, 1)
    await node.kubelet.prestart(first)
    late = await node.kubelet.admit(await node.pod("b", [("main", APP, [(C0, 400)])]), "main", GPU, 1)
    await node.server.remove("pods", "default/a")
    await refusal(node, late)
    await agent.core.pass_once()
    now[0] += 31
    agent.core.wake()
    await node.kubelet.until(lambda: agent.actions.touched == ["default/b"])


async def test_among_waiting_pods_the_higher_epoch_wins(node):
    agent = await node.up()
    await node.registered()
    node.kubelet.hold_checkpoint = True
    low = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 700)])], epoch=3), "main", GPU, 1)
    high = await node.kubelet.admit(await node.pod("b", [("main", APP, [(C0, 700)])], epoch=4), "main", GPU, 1)
    await node.kubelet.until(lambda: agent.pods.get(low.pod_uid) and agent.pods.get(high.pod_uid))
    node.kubelet.checkpoint()
    await node.kubelet.prestart(high)
    assert "needs 700 MiB" in await refusal(node, low)


async def test_the_number_of_slots_must_match(node):
    await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 2)
    assert "gave it 2 slots" in await refusal(node, given)


async def test_files_are_removed_when_api_and_kubelet_lost_the_pod(node):
    agent = await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    await node.kubelet.prestart(given)
    node.kubelet.forget("uid-a")
    await agent.core.pass_once()
    assert node.kubelet.create(given), "the API server still has the pod"
    await node.server.remove("pods", "default/a")
    await node.kubelet.until(lambda: not agent.core.records)
    assert not list(node.cdi_dir.iterdir())
    assert not list((node.state_dir / "containers").iterdir())
    assert node.vendor.released == ["main"]


async def test_an_ended_pods_devices_are_released_and_its_files_stay(node):
    """The scheduler gives its place to the next pod, also while the API server keeps it, as it keeps a Job's."""
    agent = await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    await node.kubelet.prestart(given)
    await agent.core.pass_once()
    assert node.vendor.released == []
    await node.pod("a", [("main", APP, [(C0, 1)])], phase="Succeeded")
    await node.kubelet.until(lambda: node.vendor.released)
    for _ in range(3):
        await agent.core.pass_once()
    assert node.vendor.released == ["main"]
    assert node.kubelet.create(given), "its files stay as long as the pod does"
    await node.down()
    await node.up()
    await node.kubelet.until(lambda: node.vendor.released == ["main"] * 2)


async def test_an_ended_pods_release_is_repeated_until_it_succeeds(node, monkeypatch):
    monkeypatch.setattr("hami_core.agent.container_files.RETRY_S", 0.05)
    release, tries = node.vendor.release, []

    def busy(container):
        tries.append(container.container)
        if len(tries) < 3:
            raise DeviceError("a process still uses it")
        release(container)

    node.vendor.release = busy
    await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    await node.kubelet.prestart(given)
    await node.pod("a", [("main", APP, [(C0, 1)])], phase="Failed")
    await node.kubelet.until(lambda: node.vendor.released == ["main"])


async def test_a_container_of_an_ended_pod_gets_no_devices(node):
    """Its preparation failed, and the pod ended. Nothing may be made for it later."""
    node.vendor.fail = DeviceError("no instance")
    agent = await node.up()
    await node.registered()
    await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    await node.kubelet.until(lambda: agent.core.records)
    await node.pod("a", [("main", APP, [(C0, 1)])], phase="Failed")
    await node.kubelet.until(lambda: node.vendor.released, seconds=10)
    node.vendor.fail = None
    for _ in range(3):
        await agent.core.pass_once()
    assert node.vendor.allocations == []


async def test_a_pass_handles_a_checkpoint_that_prestart_read_first(node):
    agent = await node.up()
    await node.registered()
    gone = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    stays = await node.kubelet.admit(await node.pod("b", [("main", APP, [(C1, 1)])]), "main", GPU, 1)
    await node.kubelet.prestart(gone)
    await node.kubelet.prestart(stays)
    await node.server.remove("pods", "default/a")
    await node.kubelet.until(lambda: agent.pods.get("uid-a") is None)
    await agent.core.pass_once()
    node.kubelet.forget("uid-a")
    await agent.core.prestart(GPU, stays.slots)  # at once, before a pass reads the checkpoint
    await node.kubelet.until(lambda: len(agent.core.records) == 1, seconds=5)


async def test_a_missing_name_makes_the_kubelet_write_again(node):
    agent = await node.up()
    await node.registered()
    node.kubelet.hold_checkpoint = True
    uid = await node.pod("a", [("main", APP, [(C0, 1)])])
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    lists = node.kubelet.lists
    await node.kubelet.until(lambda: node.kubelet.lists > lists)
    node.kubelet.hold_checkpoint = False
    await node.kubelet.until(lambda: agent.core.records)
    await node.kubelet.prestart(given)
    assert agent.actions.nudged >= 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"Data":{"PodDeviceEntries":[{"PodUID":1}]},"Checksum":1}',
        b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{},"New":1},"Checksum":1}',
        with_entry(ContainerName="../x"),
        with_entry(AllocResp="/////w=="),
        with_entry(AllocResp="not base64"),
        with_entry(Surprise=1),
    ],
)
async def test_a_checkpoint_of_unknown_form_starts_no_container(node, data):
    agent = await node.up(prestart_wait_s=2.0)
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    await node.kubelet.prestart(given)
    late = await node.kubelet.admit(await node.pod("b", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    node.kubelet.write_checkpoint(data)
    await node.kubelet.until(lambda: agent.core.checkpoint_problem)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(late)
    assert "checkpoint can't be used" in caught.value.details()
    assert node.kubelet.create(given), "existing specs are kept"
    node.kubelet.checkpoint()
    await node.kubelet.prestart(late)
    assert agent.core.checkpoint_problem == ""


async def test_another_plugins_slots_are_refused(node):
    agent = await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    del given.response.cdi_devices[:]
    node.kubelet.checkpoint()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert "another device plugin gave its slots" in caught.value.details()
    await agent.core.pass_once()


async def test_a_vendors_failure_is_reported_and_retried(node):
    agent = await node.up()
    await node.registered()
    node.vendor.fail = RuntimeError("card fell off the bus")
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    assert "card fell off the bus" in await refusal(node, given)
    node.vendor.fail = None
    await node.kubelet.until(lambda: agent.actions.touched)
    await node.kubelet.prestart(given)


async def test_the_agent_registers_again_after_a_kubelet_restart(node):
    agent = await node.up()
    await node.registered()
    given = await node.kubelet.admit(await node.pod("a", [("main", APP, [(C0, 1)])]), "main", GPU, 1)
    for _ in range(2):
        await node.kubelet.restart()
        await node.registered()
    assert node.kubelet.registrations == 3
    await node.kubelet.prestart(given)
    await node.kubelet.until(lambda: agent.link.is_connected)
