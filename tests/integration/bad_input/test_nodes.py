"""Bad registers and bad kubelet state do not affect other nodes, and a repair is enough."""

from __future__ import annotations

import json

import pytest

from tests.integration.bad_input.scene import until
from tests.integration.bed import all_end, container, pod, wrong_slices

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

REGISTER = "hami.io/node-nvidia-register"
NODES = "/api/v1/nodes"
CARD = {"id": "GPU-far", "count": 10, "devmem": 40_000, "devcore": 100, "type": "NVIDIA-T4", "health": True}
GOOD = json.dumps([CARD])
REGISTERS = {
    "half": GOOD[: len(GOOD) // 2],
    "words": "it works on my machine \u202e\u0000",
    "object": json.dumps(CARD),
    "negative": json.dumps([CARD | {"devmem": -1}]),
    "huge": json.dumps([CARD | {"devmem": 10**30}]),
    "float": json.dumps([CARD | {"count": 2.5}]),
    "twice": json.dumps([CARD, CARD]),
    "nameless": json.dumps([CARD | {"id": ""}]),
    "deep": "[" * 50_000,
    # An annotation may have 256 KiB, so each of the many entries is short.
    "crowd": json.dumps([{"id": f"{n}", "count": 1, "devmem": 1, "type": "T"} for n in range(4500)]).replace(" ", ""),
    "csv": "GPU-far,10,40000,100,NVIDIA-T4,0,true:",
}


def node(name: str, register: str) -> dict:
    """A node without kubelet and agent, so that nothing repairs its annotation."""
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {REGISTER: register},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def test_unreadable_register_closes_its_node_until_repaired(checked_scene):
    names = {f"far-{what}": text for what, text in REGISTERS.items()}
    for name, text in names.items():
        await checked_scene.stage.call("POST", NODES, node(name, text))
    for name in names:
        await checked_scene.wait_for_log("scheduler", f'"{name}"', '"NVIDIA"', REGISTER)
    wanting = pod("wanting", [container("main", 1000)])
    wanting["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "far-half"}
    await checked_scene.stage.submit(wanting)
    await checked_scene.wait_for_event("wanting", "FilteringFailed", "far-half")
    await checked_scene.check_unaffected()
    await checked_scene.patch(f"{NODES}/far-half", {"metadata": {"annotations": {REGISTER: GOOD}}})

    async def bound() -> bool:
        return (await checked_scene.stage.pods())["wanting"]["spec"].get("nodeName") == "far-half"

    await until("the pod is bound to the repaired node", bound)
    await checked_scene.delete("wanting")
    for name in names:
        await checked_scene.stage.call("DELETE", f"{NODES}/{name}")


@pytest.mark.parametrize("text", [REGISTERS["half"], None, "[]", REGISTERS["deep"], "x" * 200_000])
async def test_running_agent_repairs_its_nodes_register(checked_scene, text):
    path = f"{NODES}/gpu-2"
    before = (await checked_scene.stage.call("GET", path))["metadata"]["annotations"][REGISTER]
    await checked_scene.patch(path, {"metadata": {"annotations": {REGISTER: text}}})

    async def repaired() -> bool:
        return (await checked_scene.stage.call("GET", path))["metadata"]["annotations"].get(REGISTER) == before

    await until("the repaired register", repaired)
    body = pod("on-two", [container("main", 1700)])
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-2"}
    await checked_scene.stage.submit(body)
    assert not await all_end(checked_scene.stage, {"on-two"}, 20)
    assert not await wrong_slices(checked_scene.stage, [body])
    await checked_scene.delete("on-two")


@pytest.mark.parametrize("damage", ["half", "empty", "noise", "foreign", "unknown", "folder"])
async def test_corrupt_checkpoint_is_reported_until_the_next_write(checked_scene, damage):
    path = checked_scene.stage.cluster.node("gpu-2").plugin_dir / "kubelet_internal_checkpoint"
    good = path.read_bytes()
    unknown = json.loads(good)
    unknown["Data"]["Invented"] = 1
    damaged = {
        "half": good[: len(good) // 2],
        "empty": b"",
        "noise": bytes(range(256)) * 100,
        "foreign": b'{"apiVersion": "v1", "kind": "Pod"}',
        "unknown": json.dumps(unknown).encode(),
    }
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(damaged[damage])

    async def unready() -> str:
        async with checked_scene.stage.session.get(f"{checked_scene.url('agent:gpu-2')}/readyz") as answer:
            return await answer.text() if answer.status == 503 else ""

    assert "checkpoint: " in str(await until("the agent of gpu-2 is not ready", unready))
    await checked_scene.wait_for_log(
        "agent:gpu-2", "the kubelet's device checkpoint can't be used", "kubelet_internal_checkpoint"
    )
    if damage == "folder":
        path.rmdir()
    body = pod("after", [container("main", 1900)])
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-2"}
    await checked_scene.stage.submit(body)
    assert not await all_end(checked_scene.stage, {"after"}, 20)
    assert not await wrong_slices(checked_scene.stage, [body])

    async def ready() -> bool:
        return not await unready()

    await until("the agent of gpu-2 is ready again", ready)
    await checked_scene.delete("after")
