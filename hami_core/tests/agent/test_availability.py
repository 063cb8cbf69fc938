"""The availability label, and the drain of a stopping agent."""

from __future__ import annotations

import asyncio

import pytest

from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU
from hami_core.tests.kube.apiserver import Fault

APP = ContainerKind.APP


async def test_label_is_ready_once_the_kubelet_has_the_list(node, live):
    await node.kubelet.stop()
    one = live()
    await one.says("unregistered")
    await node.kubelet.start()
    await one.says("ready")
    assert node.kubelet.slots[GPU]


async def test_label_is_ready_only_after_the_kubelets_checkpoint(node, live):
    """Without a checkpoint the label becomes ready after two seconds."""
    node.kubelet.hold_checkpoint = True
    one = live()
    await node.registered()
    await one.says("unregistered")
    node.kubelet.checkpoint()
    await one.says("ready")
    node.kubelet.hold_checkpoint = True
    await node.kubelet.restart()
    await node.registered()
    await one.says("ready")


async def test_label_is_unregistered_without_a_kubelet(node, live):
    one = live()
    await one.says("ready")
    await node.kubelet.stop()
    await one.says("unregistered")
    await node.kubelet.start()
    await one.says("ready")


async def test_label_is_stopping_before_the_agent_stops_serving(node, live):
    one = live()
    await one.says("ready")
    ending = asyncio.ensure_future(one.end())
    await one.says("stopping")
    given = await node.kubelet.admit("uid-late", "main", GPU, 1)
    assert given.response.cdi_devices, "the agent serves while bound pods may still arrive"
    await ending
    assert one.label() == "stopping", "the label stays until the next agent runs"
    assert not one.agent.endpoints[GPU].serves
    two = live()
    await two.says("ready")


async def test_agent_drains_until_all_bound_pods_have_devices(node, live):
    """An init container with devices is not enough: every container of the pod must have its devices."""
    one = live(handover_time=120.0)
    await one.says("ready")
    await node.pod(
        "a", [("first", ContainerKind.INIT, [("card-00000000", 100)]), ("main", APP, [("card-00000000", 100)])]
    )
    ending = asyncio.ensure_future(one.end())
    await one.says("stopping")
    first = await node.kubelet.admit("uid-a", "first", GPU, 1)
    done, _ = await asyncio.wait({ending}, timeout=3.0)
    assert not done, "the main container has no devices yet"
    await node.pod("b", [("main", APP, [("card-00000001", 100)])])
    await node.kubelet.admit("uid-a", "main", GPU, 1, reuse=first.slots)
    done, _ = await asyncio.wait({ending}, timeout=3.0)
    assert not done, "another pod arrived meanwhile"
    await node.kubelet.admit("uid-b", "main", GPU, 1)
    await asyncio.wait_for(ending, 60)


@pytest.mark.parametrize("how", ["deleted", "rejected", "none of ours", "running"])
async def test_drain_ignores_pods_that_need_no_devices(node, live, how):
    one = live(handover_time=300.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [] if how == "none of ours" else [("card-00000000", 100)])])
    body = node.server.objects["pods"]["default/a"]
    if how == "deleted":
        await node.server.remove("pods", "default/a")
    elif how in {"rejected", "running"}:
        phase = "Failed" if how == "rejected" else "Running"
        await node.server.put("pods", {**body, "status": {"phase": phase}})
    await asyncio.wait_for(one.end(), 60)


async def test_drain_ends_after_the_handover_time(node, live):
    one = live(handover_time=1.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "stopping"


async def test_agent_stops_without_an_api_server(node, live):
    one = live(handover_time=300.0)
    await one.says("ready")
    node.server.faults.append(lambda *_: Fault(drop=True))
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "ready", "the label could not be written"


async def test_drain_ends_at_once_without_a_kubelet(node, live):
    one = live(handover_time=300.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await node.server.remove("pods", "default/a")
    await node.kubelet.stop()
    await one.says("unregistered")
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "stopping"


async def test_handover_time_zero_skips_the_drain(node, live):
    one = live(handover_time=0.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "ready"


async def test_label_is_stale_after_a_kill_until_the_next_agent_runs(node, live):
    one = live()
    await one.says("ready")
    await one.die()
    assert one.label() == "ready"
    await node.kubelet.stop()
    two = live()
    await two.says("unregistered")
    await node.kubelet.start()
    await two.says("ready")


async def test_a_removed_label_is_written_again(node, live):
    one = live()
    await one.says("ready")
    now = node.server.objects["nodes"]["n1"]
    await node.server.put("nodes", {**now, "metadata": {**now["metadata"], "labels": {}}})
    await one.says("ready")
