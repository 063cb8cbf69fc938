"""Containers with devices of two device plugins that both mount a file at one path."""

from __future__ import annotations

import json

import grpc.aio
import pytest

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU
from hami_core.tests.agent.stub_kubelet import Given

OTHER = "other.io/npu"
LIMITS = "/usr/local/vgpu/limits"
THEIRS = "0123456789abcdef" * 2


async def admitted(node, answer: api.ContainerAllocateResponse) -> Given:
    """Admit a container with slots of ours and of another plugin, whose stored answer is this one."""
    uid = await node.pod("both", [("main", ContainerKind.APP, [("card-00000000", 100)])])
    node.kubelet.hold_checkpoint = True
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    node.kubelet.given += [
        Given(uid, "main", OTHER, ["npu-0"], answer),
        # Mounts of other containers do not matter.
        Given(uid, "side", OTHER, ["npu-1"], mounting(LIMITS, "/elsewhere")),
    ]
    node.kubelet.hold_checkpoint = False
    node.kubelet.checkpoint()
    return given


def mounting(path: str, host: str) -> api.ContainerAllocateResponse:
    answer = api.ContainerAllocateResponse()
    answer.mounts.add(container_path=path, host_path=host, read_only=True)
    return answer


def by_cdi(node, path: str, host: str) -> api.ContainerAllocateResponse:
    """The answer of another agent of ours, which has written its CDI spec."""
    node.cdi_dir.mkdir(exist_ok=True)
    edits = {"mounts": [{"containerPath": path, "hostPath": host}]}
    spec = {"kind": "other.hami.io/slot", "devices": [{"name": THEIRS, "containerEdits": edits}]}
    (node.cdi_dir / f"hami-{THEIRS}.json").write_text(json.dumps(spec))
    answer = api.ContainerAllocateResponse()
    answer.cdi_devices.add(name=f"other.hami.io/slot={THEIRS}")
    return answer


async def refusal(node, given: Given) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    return caught.value.details()


@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("cdi", [True, False])
async def test_two_files_at_one_path_start_no_container(node, serial, cdi):
    await node.up(serial=serial)
    await node.registered()
    answer = by_cdi(node, LIMITS, "/elsewhere") if cdi else mounting(LIMITS, "/elsewhere")
    given = await admitted(node, answer)
    assert f"{GPU} and {OTHER} both mount a file at {LIMITS}" in await refusal(node, given)
    assert {path.name for path in node.cdi_dir.glob("*.json")} <= {f"hami-{THEIRS}.json"}
    await node.down()
    await node.up(serial=serial)
    await node.registered()
    assert "both mount a file" in await refusal(node, given), "a restart changes nothing"


@pytest.mark.parametrize("cdi", [True, False])
async def test_mounts_at_other_paths_disturb_nobody(node, cdi):
    await node.up()
    await node.registered()
    given = await admitted(node, by_cdi(node, "/other", "/o") if cdi else mounting("/other", "/o"))
    await node.kubelet.prestart(given)
    assert node.kubelet.create(given)


async def test_unreadable_spec_of_the_other_agent_denies(node):
    await node.up()
    await node.registered()
    answer = by_cdi(node, LIMITS, "/elsewhere")
    (node.cdi_dir / f"hami-{THEIRS}.json").write_text('{"devices": []}')
    assert "unknown form" in await refusal(node, await admitted(node, answer))
