"""Tenants who write what only the system may write, or who come round the scheduler: nobody gets what was not given."""

from __future__ import annotations

import os
import signal

import pytest

from tests.integration.bad_input.scene import NEIGHBOUR, PODS, tenant, until
from tests.integration.bed import ALLOCATED, all_end, booked, container, pod, seen, wrong_slices

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

SIGNATURE = "hami.io/allocation-signature"
SYSTEM_KEYS = [
    ALLOCATED,
    SIGNATURE,
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-time",
    "hami.io/bind-phase",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-mig-allocations",
    "hami.io/raiser-allocated",
]


def came_round(name: str, node: str = "gpu-1") -> dict:
    """A pod that the webhook leaves to another scheduler, on a node of its own choice."""
    body = pod(name, [container("main", 5000)])
    body["spec"] |= {"nodeName": node, "schedulerName": "somebody-else"}
    return body


async def test_system_annotations_are_refused_at_creation_whoever_schedules(well):
    for key in SYSTEM_KEYS:
        for scheduler in ("", "somebody-else"):
            body = pod("forged", [container("main", 1000)])
            body["metadata"]["annotations"] = {key: "GPU-x,NVIDIA,80000,0:;"}
            body["spec"]["schedulerName"] = scheduler
            words = await well.refused(body)
            assert f"metadata.annotations: {key} is set (only the scheduler sets it; remove it" in words


async def test_privileged_pods_and_chosen_nodes_are_refused(well):
    privileged = pod("privileged", [container("main", 1000)])
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert "container main is privileged" in await well.refused(privileged)
    placed = pod("placed", [container("main", 1000)])
    placed["spec"]["nodeName"] = "gpu-1"
    assert "pod has node assigned" in await well.refused(placed)


async def test_a_pod_that_came_round_the_scheduler_gets_nothing_whatever_it_then_claims(well):
    await well.stage.submit(came_round("round"))
    await well.told("round", "DevicesRefused", "container main", "it was not placed by the HAMi scheduler", "somebody")
    theirs = (await well.stage.pods())[NEIGHBOUR]["metadata"]["annotations"]
    claims = {key: theirs[key] for key in (ALLOCATED, "hami.io/vgpu-node")}
    await well.patch(f"{PODS}/round", {"metadata": {"annotations": claims}})
    await well.told("round", "DevicesRefused", "its allocation is not signed")
    await well.patch(f"{PODS}/round", {"metadata": {"annotations": {SIGNATURE: theirs[SIGNATURE]}}})
    await well.told("round", "DevicesRefused", "signature is not valid")
    await well.patch(f"{PODS}/round", {"metadata": {"annotations": {SIGNATURE: "v1:x:\u0000:" + "A" * 5000}}})
    await well.told("round", "DevicesRefused", "signature is not valid", "hami.io/allocation-signature")
    await well.patch(f"{PODS}/round", {"metadata": {"annotations": {ALLOCATED: "GPU-1,NVIDIA,-5,0:;"}}})
    await well.told("round", "DevicesRefused", "its allocation is malformed", ALLOCATED)
    assert await seen(well.stage, "round", "main") is None
    await well.delete("round")


async def test_a_privileged_pod_that_came_round_gets_nothing(well):
    body = came_round("sly")
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    await well.stage.submit(body)
    await well.told("sly", "DevicesRefused", "container main", "it was not placed by the HAMi scheduler")
    assert await seen(well.stage, "sly", "main") is None
    await well.delete("sly")


async def test_pods_that_the_webhook_was_told_to_ignore_are_judged_again_by_scheduler_and_agent(well):
    def ignored(name: str, memory: object) -> dict:
        body = pod(name, [container("main", memory)])
        body["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
        body["spec"]["schedulerName"] = "hami-scheduler"
        return body

    forged = ignored("forged-plain", 1100)
    forged["metadata"]["annotations"] = {ALLOCATED: "GPU-x,NVIDIA,80000,0:;", SIGNATURE: "v1:9:x:y"}
    privileged = ignored("forged-privileged", 1200)
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    negative = ignored("forged-amount", -1)
    for body in (forged, privileged, negative):
        await well.stage.submit(body)
    assert not await all_end(well.stage, {"forged-plain"}, 20)
    assert not await wrong_slices(well.stage, [forged])
    await well.told("forged-privileged", "DevicesRefused", "container main", "it is privileged")
    assert await seen(well.stage, "forged-privileged", "main") is None
    await well.told("forged-amount", "FilteringFailed", "container main", "nvidia.com/gpumem", "-1 is negative")
    await well.delete("forged-plain", "forged-privileged", "forged-amount")


async def test_an_allocation_altered_before_the_start_starts_nothing_until_it_is_as_signed(well):
    kubelet = well.stage.cluster.pid("kubelet:gpu-2")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        await well.stage.submit(tenant("altered", 2000, "gpu-2"))
        await well.told("altered", "BindingSucceed")
        mine = (await well.stage.pods())["altered"]["metadata"]["annotations"]
        more = mine[ALLOCATED].replace(",2000,", ",20000,")
        assert more != mine[ALLOCATED]
        await well.patch(f"{PODS}/altered", {"metadata": {"annotations": {ALLOCATED: more}}})
        await well.logged("scheduler", "default/altered", "altered after it was bound")
    finally:
        os.kill(kubelet, signal.SIGCONT)
    await well.told("altered", "DevicesRefused", "container main", "signature is not valid")
    (line,) = await well.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="altered"')
    assert float(line.split()[-1]) == 2000 * 2**20
    assert not await well.stage.log("altered", "main")
    await well.patch(f"{PODS}/altered", {"metadata": {"annotations": {ALLOCATED: mine[ALLOCATED]}}})
    await well.lasting("altered", 0)
    await well.delete("altered")


@pytest.mark.parametrize(
    "claim",
    [
        {ALLOCATED: "{uuid},NVIDIA,79000,100:;"},
        {ALLOCATED: "{uuid},NVIDIA,0,0:;"},
        {ALLOCATED: "{uuid},NVIDIA,2147483647,2147483647:" * 500 + ";"},
        {ALLOCATED: ";;;;"},
        {ALLOCATED: None},
        {ALLOCATED: "garbage \u202e"},
        {SIGNATURE: "v1:999999999:x:AAAA"},
        {"hami.io/vgpu-node": "gpu-2"},
    ],
    ids=["more", "nothing", "all", "empty", "removed", "garbage", "epoch", "node"],
)
async def test_what_a_running_pod_writes_on_itself_moves_no_booking(well, claim):
    await well.stage.submit(pod("liar", [container("main", 3000, command=["cuda-probe", "look", "60"])]))

    async def running() -> bool:
        return bool(await seen(well.stage, "liar", "main"))

    await until("liar runs", running)
    before = await well.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="liar"')
    mine = booked((await well.stage.pods())["liar"])
    uuid = mine["main"][0][0]
    texts = {key: text and text.replace("{uuid}", uuid) for key, text in claim.items()}
    version = (await well.patch(f"{PODS}/liar", {"metadata": {"annotations": texts}}))["metadata"]["resourceVersion"]
    # A pod that comes later proves that the scheduler has seen the change.
    await well.stage.submit(pod("later", [container("main", 1000)]))
    assert int((await well.stage.pods())["later"]["metadata"]["resourceVersion"]) > int(version)
    assert not await all_end(well.stage, {"later"}, 20)
    assert await well.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="liar"') == before
    assert await seen(well.stage, "liar", "main") == mine["main"]
    await well.delete("liar", "later")
