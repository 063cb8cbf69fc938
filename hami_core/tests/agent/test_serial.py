"""Serial mode, for a runtime without CDI and pods bound one at a time; and refusals that both modes share."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU
from hami_core.wire import keys

APP, INIT = ContainerKind.APP, ContainerKind.INIT
C0, C1 = "card-00000000", "card-00000001"
ALLOCATING = {keys.BIND_PHASE: keys.PHASE_ALLOCATING}


def mounted(given) -> dict[str, Path]:
    return {m.container_path: Path(m.host_path) for m in given.response.mounts}


def limits(given) -> Path:
    return mounted(given)["/usr/local/vgpu/limits"] / "limits"


async def test_allocate_gives_the_devices_and_prestart_the_limits(node):
    agent = await node.up(serial=True)
    await node.registered()
    uid = await node.pod(
        "a", [("prep", INIT, [(C1, 100)]), ("main", APP, [(C0, 200), (C1, 300)])], annotations=ALLOCATING
    )
    first = await node.kubelet.admit(uid, "prep", GPU, 1)
    assert agent.actions.complete == []
    second = await node.kubelet.admit(uid, "main", GPU, 2, reuse=first.slots)
    assert [d.container_path for d in first.response.devices] == [f"/dev/{C1}"]
    assert [d.container_path for d in second.response.devices] == [f"/dev/{C0}", f"/dev/{C1}"]
    assert not first.response.cdi_devices
    assert mounted(first)["/usr/local/vgpu/limits"] != mounted(second)["/usr/local/vgpu/limits"]
    await node.kubelet.prestart(first)
    await node.kubelet.prestart(second)
    assert limits(first).read_text() == f"{uid} prep {C1} 100"
    assert limits(second).read_text() == f"{uid} main {C0} 200\n{uid} main {C1} 300"
    assert (mounted(second)["/usr/local/vgpu/region"] / "vgpu.cache").stat().st_size == 4096
    await node.kubelet.until(lambda: agent.actions.complete == ["default/a"])
    assert not node.cdi_dir.exists()


async def test_a_pod_with_another_containers_answer_is_evicted(node):
    agent = await node.up(serial=True)
    await node.registered()
    await node.pod("a", [("main", APP, [(C0, 100)])], annotations={"hami.io/bind-time": "1"})
    other = await node.pod("b", [("main", APP, [(C1, 500)])], annotations={"hami.io/bind-time": "2"})
    given = await node.kubelet.admit(other, "main", GPU, 1)
    assert [d.container_path for d in given.response.devices] == [f"/dev/{C0}"], "pod a was bound first"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert f"was given /dev/{C0} and holds /dev/{C1}" in caught.value.details()
    assert f"holds /dev/{C1}" in agent.actions.evicted["default/b"]
    assert not limits(given).exists(), "an empty limits folder denies"


async def test_an_unsigned_pod_gets_no_devices(node):
    agent = await node.up(serial=True)
    await node.registered()
    unsigned = await node.pod("a", [("main", APP, [(C0, 1)])], signed=False, annotations=ALLOCATING)
    given = await node.kubelet.admit(unsigned, "main", GPU, 1)
    assert not given.response.devices
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert "is not signed" in caught.value.details()
    assert not limits(given).exists()
    assert agent.actions.hopeless == ["default/a"], "the next pod need not wait for this one"


OWN = [
    ([{"name": "ACME_VISIBLE", "value": "all"}], True),
    ([{"name": "ACME_VISIBLE", "value": ""}], True),
    ([{"name": "ACME_VISIBLE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], True),
    ([{"name": "ACME_VISIBLE", "value": "void"}, {"name": "ACME_VISIBLE", "value": "0"}], True),
    ([{"name": "ACME_VISIBLE", "value": "void"}], False),
    ([{"name": "OTHER", "value": "all"}], False),
]


@pytest.mark.parametrize(("kind", "serial"), [(APP, True), (INIT, True), (ContainerKind.SIDECAR, True), (APP, False)])
async def test_variables_that_override_ours_are_refused_without_cdi(node, kind, serial, monkeypatch):
    monkeypatch.setattr("hami_core.agent.serial_allocate.CANDIDATE_WAIT_S", 0.1)
    agent = await node.up(serial=serial)
    await node.registered()
    for number, (env, refused) in enumerate(OWN):
        parts = [("it", kind, [(C0, 100)]), *([] if kind is APP else [("main", APP, [])])]
        uid = await node.pod(f"p{number}", parts, written={"it": {"env": env}})
        await node.kubelet.until(lambda uid=uid: agent.pods.get(uid))
        given = await node.kubelet.admit(uid, "it", GPU, 1)
        if not (refused and serial):
            await node.kubelet.prestart(given)
            continue
        assert not given.response.devices, "Allocate gives no device"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await node.kubelet.prestart(given)
        assert (
            f"pod default/p{number}, container it: its variable ACME_VISIBLE would override" in caught.value.details()
        )
        assert not limits(given).exists()
        assert agent.actions.refusals[-1][:2] == (f"default/p{number}", "it")


COVERING = ["/usr/local/vgpu/limits", "/usr/local/vgpu/limits/limits", "/usr/local/vgpu/", "/etc/ld.so.preload",
            "usr/local/vgpu/libvgpu.so", "//etc/x/../ld.so.preload"]  # fmt: skip


@pytest.mark.parametrize("serial", [True, False])
async def test_a_volume_over_our_files_is_refused_in_both_modes(node, serial, monkeypatch):
    monkeypatch.setattr("hami_core.agent.serial_allocate.CANDIDATE_WAIT_S", 0.1)
    agent = await node.up(serial=serial)
    await node.registered()
    for number, path in enumerate(["/usr/local/vgpus", "/etc", "/data", *COVERING]):
        mounts = {"main": {"volumeMounts": [{"name": "v", "mountPath": path}]}}
        uid = await node.pod(f"p{number}", [("main", APP, [(C0, 10)])], written=mounts)
        await node.kubelet.until(lambda uid=uid: agent.pods.get(uid))
        given = await node.kubelet.admit(uid, "main", GPU, 1)
        if path not in COVERING:
            await node.kubelet.prestart(given)
            continue
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await node.kubelet.prestart(given)
        assert f"container main: it mounts a volume at {path}, over files that limit it" in caught.value.details()


@pytest.mark.parametrize("serial", [True, False])
async def test_a_privileged_container_is_refused_in_both_modes(node, serial, monkeypatch):
    monkeypatch.setattr("hami_core.agent.serial_allocate.CANDIDATE_WAIT_S", 0.1)
    await node.up(serial=serial)
    await node.registered()
    written = {"main": {"securityContext": {"privileged": True}}}
    uid = await node.pod("p", [("main", APP, [(C0, 10)])], written=written)
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    assert not given.response.devices
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.kubelet.prestart(given)
    assert "it is privileged and would see every device" in caught.value.details()


async def test_restart_and_removal(node):
    await node.up(serial=True)
    await node.registered()
    uid = await node.pod("a", [("main", APP, [(C0, 100)])])
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    await node.kubelet.prestart(given)
    await node.down()
    agent = await node.up(serial=True, boot_id="boot-2")
    await node.kubelet.until(lambda: agent.link.is_connected)
    await node.kubelet.prestart(given)
    assert limits(given).read_text() == f"{uid} main {C0} 100"
    await node.server.remove("pods", "default/a")
    node.kubelet.forget(uid)
    await node.kubelet.until(lambda: not agent.core.records)
    assert not list((node.state_dir / "serial").iterdir())
