"""How pods share an NPU is known after a restart, and editing annotations after the Bind gains nothing."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hami_ascend import Ascend

from hami_core.plugins import load as configured
from hami_core.sim.patch import json_patch
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.conftest import load
from hami_core.wire.signature import generate_private_key

if TYPE_CHECKING:
    from collections.abc import Mapping

WORD = "Ascend910B3"
COUNT = f"huawei.com/{WORD}"
MODE = f"hami.io/{WORD}-mode-allocated"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
HARD: Mapping[str, str] = {}


def node(name: str = "n1", **annotations: str) -> dict[str, Any]:
    npu = {"id": f"{name}-0", "count": 4, "devmem": 65536, "devcore": 20, "type": WORD, "health": True}
    meta = {f"hami.io/node-register-{WORD}": json.dumps([npu]), "hami-vnpu-core": "true", **annotations}
    room = {"cpu": "4", COUNT: "4"}
    return {"metadata": {"name": name, "annotations": meta}, "status": {"capacity": room, "allocatable": room}}


def pod(name: str, annotations: Mapping[str, str], **more: Any) -> dict[str, Any]:
    limits = {COUNT: "1", f"{COUNT}-memory": "16384"}
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    spec = {"containers": containers, **more.pop("spec", {})}
    return plain_pod(name, spec=spec, metadata={"annotations": dict(annotations)}, **more)


async def refusal(client, server, annotations: Mapping[str, str]) -> str:
    """Why node n1 refuses a pod that shares in this way; empty: it does not."""
    asked = await server.put("pods", pod("asked", annotations))
    answer = await client.filter(asked, ["n1"])
    assert answer["Error"] == ""
    await server.remove("pods", "default/asked")
    return (answer["FailedNodes"] or {}).get("n1", "")


async def edit(server, name: str, **annotations: str | None) -> None:
    """Edit a pod's annotations as its owner can."""
    found = json.loads(json.dumps(server.objects["pods"][f"default/{name}"]))
    there = found["metadata"]["annotations"]
    for key, value in annotations.items():
        if value is None:
            there.pop(key, None)
        else:
            there[key] = value
    await server.put("pods", found)


@pytest.fixture
async def bound(server, start, request):
    """A scheduler that has bound one pod, which shares in the way of the test's parameter."""
    await server.put("nodes", node())
    client = await start(loaded=load(Ascend))
    assert await client.bind(await server.put("pods", pod("first", request.param)), "n1") == ""
    return client


@pytest.mark.parametrize(
    ("bound", "same", "other", "word"),
    [(HARD, HARD, SOFT, "vnpu"), (SOFT, SOFT, HARD, "hami-core")],
    indirect=["bound"],
)
async def test_mode_is_known_before_and_after_a_restart(server, start, bound, same, other, word):
    assert server.objects["pods"]["default/first"]["metadata"]["annotations"][MODE] == word
    for client in (bound, await start(loaded=load(Ascend))):
        assert await refusal(client, server, same) == ""
        assert await refusal(client, server, other) == "1/1 ModeNotFit"


EDITS = {
    "pod asks for the other mode": {"huawei.com/vnpu-mode": "hami-core"},
    "mode is changed": {MODE: "hami-core"},
    "mode is removed": {MODE: None},
    "mode is emptied": {MODE: ""},
}


@pytest.mark.parametrize("bound", [HARD], indirect=True)
@pytest.mark.parametrize("changes", EDITS.values(), ids=EDITS)
async def test_edited_annotations_let_nobody_else_on_the_npu(server, start, bound, changes):
    await edit(server, "first", **changes)
    await server.put("nodes", node(seen="1"))
    assert await refusal(bound, server, SOFT) == "1/1 ModeNotFit"
    assert await refusal(bound, server, HARD) == "", "the running scheduler keeps what it bound"
    restarted = await start(loaded=load(Ascend))
    assert await refusal(restarted, server, SOFT) == "1/1 ModeNotFit"


async def test_unsigned_pods_npu_takes_no_other_pod(server, start):
    """HAMi's scheduler neither signs nor says how a pod shares its NPU."""
    await server.put("nodes", node())
    allocated = {f"hami.io/{WORD}-devices-allocated": f"n1-0,{WORD},16384,0:;", "hami.io/vgpu-node": "n1"}
    await server.put("pods", pod("old", allocated, spec={"nodeName": "n1"}, status={"phase": "Running"}))
    client = await start(loaded=load(Ascend))
    assert await refusal(client, server, SOFT) == "1/1 ModeNotFit"
    assert await refusal(client, server, HARD) == "1/1 ModeNotFit"
    await server.remove("pods", "default/old")
    async with asyncio.timeout(5):
        while await refusal(client, server, HARD):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("bound", [HARD], indirect=True)
async def test_mode_under_a_foreign_signature_is_unknown(server, start, bound):
    other = await start(loaded=load(Ascend), signing_key=generate_private_key())
    assert await refusal(other, server, HARD) == "1/1 ModeNotFit"


async def test_user_cannot_set_the_mode_of_an_allocation(server, start):
    await server.put("nodes", node())
    client = await start(loaded=load(Ascend))
    answer = await client.admit(pod("forged", {MODE: "vnpu"}))
    assert answer["allowed"] is False
    assert MODE in answer["status"]["message"]


async def test_node_whose_plugin_stopped_takes_no_pods(server, start):
    """A stopped device plugin leaves its register; the kubelet then offers none of its devices."""
    stopped = node()
    stopped["status"]["allocatable"] = {"cpu": "4", COUNT: "0"}
    await server.put("nodes", stopped)
    client = await start(loaded=load(Ascend))
    assert await refusal(client, server, HARD) == "1/1 CardNotHealth"
    await server.put("nodes", node())
    async with asyncio.timeout(5):
        while await refusal(client, server, HARD):
            await asyncio.sleep(0.01)


async def test_quota_counts_what_is_booked_in_units_of_2_mib(server, start):
    """A request for 5000 units (10000 MiB) books a vNPU of 16384 MiB, which is 8192 units of the quota."""
    chip = {"commonWord": WORD, "resourceName": COUNT, "resourceMemoryName": f"{COUNT}-memory", "memoryFactor": 2}
    chip |= {"memoryAllocatable": 65536, "templates": [{"name": "vir05_1c_16g", "memory": 16384}]}
    served = node()
    served["metadata"]["labels"] = {"hami.io/agent-ascend": "ready"}  # our agent needs no lock, so no Bind waits
    await server.put("nodes", served)
    hard = {f"limits.{COUNT}-memory": "20000"}
    await server.put("resourcequotas", {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
    client = await start(loaded=configured({"vnpus": {"configs": [chip]}}, only=["ascend"]))
    admitted, bound = [], []
    for name in ("a", "b", "c"):
        asked = pod(name, HARD)
        asked["spec"]["containers"][0]["resources"]["limits"][f"{COUNT}-memory"] = "5000"
        changes = json.loads(base64.b64decode((await client.admit(asked))["patch"]))
        admitted.append(await server.put("pods", json_patch(asked, changes)))
    for made in admitted:
        answer = await client.filter(made, ["n1"])
        bound.append((answer["FailedNodes"] or {}).get("n1", "") or await client.bind(made, "n1"))
    assert bound == ["", "", "1/1 ResourceQuotaNotFit"]
    written = server.objects["pods"]["default/a"]["metadata"]["annotations"]
    assert written[f"hami.io/{WORD}-devices-allocated"] == f"n1-0,{WORD},16384,0:;"
    assert json.loads(written[COUNT]) == [{"UUID": "n1-0", "temp": "vir05_1c_16g", "memory": 16384}]


async def test_binds_on_hamis_nodes_take_the_node_lock(server, start):
    await server.put("nodes", node())
    client = await start(loaded=load(Ascend))
    assert await client.bind(await server.put("pods", pod("first", HARD)), "n1") == ""
    written = server.objects["pods"]["default/first"]["metadata"]["annotations"]
    assert ",default,first" in server.objects["nodes"]["n1"]["metadata"]["annotations"]["hami.io/mutex.lock"]
    assert written["hami.io/bind-phase"] == "allocating"
    assert json.loads(written[COUNT]) == [{"UUID": "n1-0", "temp": "vir05_1c_16g", "memory": 16384}]
    assert written["predicate-time"] == written["hami.io/vgpu-time"]
