"""Node registers and kubelet state that make no sense: other nodes go on, and a repair is enough."""

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
    # An annotation may have 256 KiB, so each of the many says little.
    "crowd": json.dumps([{"id": f"{n}", "count": 1, "devmem": 1, "type": "T"} for n in range(4500)]).replace(" ", ""),
    "csv": "GPU-far,10,40000,100,NVIDIA-T4,0,true:",
}


def node(name: str, register: str) -> dict:
    """A node without kubelet, whose annotation nobody puts right."""
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


async def test_registers_that_cannot_be_read_close_their_own_node_and_open_it_when_repaired(well):
    names = {f"far-{what}": text for what, text in REGISTERS.items()}
    for name, text in names.items():
        await well.stage.call("POST", NODES, node(name, text))
    for name in names:
        await well.logged("scheduler", f'"{name}"', '"NVIDIA"', REGISTER)
    wanting = pod("wanting", [container("main", 1000)])
    wanting["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "far-half"}
    await well.stage.submit(wanting)
    await well.told("wanting", "FilteringFailed", "far-half")
    await well.all_well()
    await well.patch(f"{NODES}/far-half", {"metadata": {"annotations": {REGISTER: GOOD}}})

    async def bound() -> bool:
        return (await well.stage.pods())["wanting"]["spec"].get("nodeName") == "far-half"

    await until("the pod is bound to the repaired node", bound)
    await well.delete("wanting")
    for name in names:
        await well.stage.call("DELETE", f"{NODES}/{name}")


@pytest.mark.parametrize("text", [REGISTERS["half"], None, "[]", REGISTERS["deep"], "x" * 200_000])
async def test_a_living_nodes_register_is_put_right_by_its_agent(well, text):
    path = f"{NODES}/gpu-2"
    before = (await well.stage.call("GET", path))["metadata"]["annotations"][REGISTER]
    await well.patch(path, {"metadata": {"annotations": {REGISTER: text}}})

    async def repaired() -> bool:
        return (await well.stage.call("GET", path))["metadata"]["annotations"].get(REGISTER) == before

    await until("the register is as it was", repaired)
    body = pod("on-two", [container("main", 1700)])
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-2"}
    await well.stage.submit(body)
    assert not await all_end(well.stage, {"on-two"}, 20)
    assert not await wrong_slices(well.stage, [body])
    await well.delete("on-two")


@pytest.mark.parametrize("damage", ["half", "empty", "noise", "foreign", "unknown", "folder"])
async def test_a_corrupted_checkpoint_is_named_and_over_with_the_kubelets_next_write(well, damage):
    path = well.stage.cluster.node("gpu-2").plugin_dir / "kubelet_internal_checkpoint"
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
        async with well.stage.session.get(f"{well.url('agent:gpu-2')}/readyz") as answer:
            return await answer.text() if answer.status == 503 else ""

    assert "checkpoint: " in str(await until("the agent of gpu-2 says so", unready))
    await well.logged("agent:gpu-2", "the kubelet's device checkpoint can't be used", "kubelet_internal_checkpoint")
    if damage == "folder":
        path.rmdir()
    body = pod("after", [container("main", 1900)])
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-2"}
    await well.stage.submit(body)
    assert not await all_end(well.stage, {"after"}, 20)
    assert not await wrong_slices(well.stage, [body])

    async def ready() -> bool:
        return not await unready()

    await until("the agent of gpu-2 is ready again", ready)
    await well.delete("after")
