"""The hook ``tend``: called before a container starts, and never a reason that one does not."""

from __future__ import annotations

from hami_core.errors import DeviceError
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU

APP = ContainerKind.APP
CARD = "card-00000000"


async def start(node, name: str) -> None:
    """Run a pod's container as the kubelet does, until it may start."""
    uid = await node.pod(name, [("main", APP, [(CARD, 100)])], signed=False)
    await node.kubelet.prestart(await node.kubelet.admit(uid, "main", GPU, 1))


def tended(node) -> list[str]:
    return sorted(pod for pod, _, _ in node.vendor.tended.values())


async def test_containers_are_tended_before_they_start(node, live):
    await live().says("ready")
    await start(node, "a")
    assert tended(node) == ["a"]
    await start(node, "b")
    assert tended(node) == ["a", "b"]


async def test_a_container_starts_though_tending_fails(node, live):
    await live().says("ready")
    node.vendor.fail_to_tend = DeviceError("no")
    await start(node, "a")
    node.vendor.fail_to_tend = None
    await start(node, "b")
    assert tended(node) == ["a", "b"]


async def test_a_container_starts_though_tending_hangs(node, live):
    await live().says("ready")
    node.vendor.tends.clear()
    try:
        await start(node, "a")
        assert not node.vendor.tended
    finally:
        node.vendor.tends.set()
    await node.kubelet.until(lambda: node.vendor.tended)
    assert tended(node) == ["a"]
