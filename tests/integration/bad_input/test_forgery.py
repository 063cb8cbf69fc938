"""Tenants who forge annotations of the system or bypass the scheduler get no devices by it."""

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


def bypassing_pod(name: str, node: str = "gpu-1") -> dict:
    """A pod that names its node and another scheduler, so that the webhook leaves it alone."""
    body = pod(name, [container("main", 5000)])
    body["spec"] |= {"nodeName": node, "schedulerName": "somebody-else"}
    return body


async def test_new_pod_with_system_annotations_is_refused(checked_scene):
    for key in SYSTEM_KEYS:
        for scheduler in ("", "somebody-else"):
            body = pod("forged", [container("main", 1000)])
            body["metadata"]["annotations"] = {key: "GPU-x,NVIDIA,80000,0:;"}
            body["spec"]["schedulerName"] = scheduler
            words = await checked_scene.submit_refused(body)
            assert f"metadata.annotations: {key} is set (only the scheduler sets it; remove it" in words


async def test_pod_that_is_privileged_or_names_its_node_is_refused(checked_scene):
    privileged = pod("privileged", [container("main", 1000)])
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert "container main is privileged" in await checked_scene.submit_refused(privileged)
    placed = pod("placed", [container("main", 1000)])
    placed["spec"]["nodeName"] = "gpu-1"
    assert "pod has node assigned" in await checked_scene.submit_refused(placed)


async def test_pod_that_bypasses_the_scheduler_gets_no_devices(checked_scene):
    await checked_scene.stage.submit(bypassing_pod("round"))
    await checked_scene.wait_for_event(
        "round", "DevicesRefused", "container main", "it was not placed by the HAMi scheduler", "somebody"
    )
    theirs = (await checked_scene.stage.pods())[NEIGHBOUR]["metadata"]["annotations"]
    claims = {key: theirs[key] for key in (ALLOCATED, "hami.io/vgpu-node")}
    await checked_scene.patch(f"{PODS}/round", {"metadata": {"annotations": claims}})
    await checked_scene.wait_for_event("round", "DevicesRefused", "its allocation is not signed")
    await checked_scene.patch(f"{PODS}/round", {"metadata": {"annotations": {SIGNATURE: theirs[SIGNATURE]}}})
    await checked_scene.wait_for_event("round", "DevicesRefused", "signature is not valid")
    await checked_scene.patch(f"{PODS}/round", {"metadata": {"annotations": {SIGNATURE: "v1:x:\u0000:" + "A" * 5000}}})
    await checked_scene.wait_for_event(
        "round", "DevicesRefused", "signature is not valid", "hami.io/allocation-signature"
    )
    await checked_scene.patch(f"{PODS}/round", {"metadata": {"annotations": {ALLOCATED: "GPU-1,NVIDIA,-5,0:;"}}})
    await checked_scene.wait_for_event("round", "DevicesRefused", "its allocation is malformed", ALLOCATED)
    assert await seen(checked_scene.stage, "round", "main") is None
    await checked_scene.delete("round")


async def test_privileged_pod_that_bypasses_the_scheduler_gets_none(checked_scene):
    body = bypassing_pod("sly")
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    await checked_scene.stage.submit(body)
    await checked_scene.wait_for_event(
        "sly", "DevicesRefused", "container main", "it was not placed by the HAMi scheduler"
    )
    assert await seen(checked_scene.stage, "sly", "main") is None
    await checked_scene.delete("sly")


async def test_pods_ignored_by_the_webhook_are_checked_later(checked_scene):
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
        await checked_scene.stage.submit(body)
    assert not await all_end(checked_scene.stage, {"forged-plain"}, 20)
    assert not await wrong_slices(checked_scene.stage, [forged])
    await checked_scene.wait_for_event("forged-privileged", "DevicesRefused", "container main", "it is privileged")
    assert await seen(checked_scene.stage, "forged-privileged", "main") is None
    await checked_scene.wait_for_event(
        "forged-amount", "FilteringFailed", "container main", "nvidia.com/gpumem", "-1 is negative"
    )
    await checked_scene.delete("forged-plain", "forged-privileged", "forged-amount")


async def test_altered_allocation_starts_nothing_until_restored(checked_scene):
    kubelet = checked_scene.stage.cluster.pid("kubelet:gpu-2")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        await checked_scene.stage.submit(tenant("altered", 2000, "gpu-2"))
        await checked_scene.wait_for_event("altered", "BindingSucceed")
        mine = (await checked_scene.stage.pods())["altered"]["metadata"]["annotations"]
        more = mine[ALLOCATED].replace(",2000,", ",20000,")
        assert more != mine[ALLOCATED]
        await checked_scene.patch(f"{PODS}/altered", {"metadata": {"annotations": {ALLOCATED: more}}})
        await checked_scene.wait_for_log("scheduler", "default/altered", "altered after it was bound")
    finally:
        os.kill(kubelet, signal.SIGCONT)
    await checked_scene.wait_for_event("altered", "DevicesRefused", "container main", "signature is not valid")
    (line,) = await checked_scene.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="altered"')
    assert float(line.split()[-1]) == 2000 * 2**20
    assert not await checked_scene.stage.log("altered", "main")
    await checked_scene.patch(f"{PODS}/altered", {"metadata": {"annotations": {ALLOCATED: mine[ALLOCATED]}}})
    await checked_scene.wait_for_result("altered", 0)
    await checked_scene.delete("altered")


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
async def test_annotations_of_a_running_pod_do_not_change_its_booking(checked_scene, claim):
    await checked_scene.stage.submit(pod("liar", [container("main", 3000, command=["cuda-probe", "look", "60"])]))

    async def running() -> bool:
        return bool(await seen(checked_scene.stage, "liar", "main"))

    await until("liar runs", running)
    before = await checked_scene.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="liar"')
    mine = booked((await checked_scene.stage.pods())["liar"])
    uuid = mine["main"][0][0]
    texts = {key: text and text.replace("{uuid}", uuid) for key, text in claim.items()}
    version = (await checked_scene.patch(f"{PODS}/liar", {"metadata": {"annotations": texts}}))["metadata"][
        "resourceVersion"
    ]
    # A pod created later proves that the scheduler has seen the change.
    await checked_scene.stage.submit(pod("later", [container("main", 1000)]))
    assert int((await checked_scene.stage.pods())["later"]["metadata"]["resourceVersion"]) > int(version)
    assert not await all_end(checked_scene.stage, {"later"}, 20)
    assert await checked_scene.metrics("scheduler", "hami_vgpu_memory_allocated_bytes", 'pod="liar"') == before
    assert await seen(checked_scene.stage, "liar", "main") == mine["main"]
    await checked_scene.delete("liar", "later")
