"""How an agent says that it comes and goes, and that it goes only when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hami_core.agent.options import from_settings
from hami_core.agent.process import Agent
from hami_core.model import ContainerKind
from hami_core.settings import AgentSettings
from hami_core.tests.agent.node import GPU
from hami_core.tests.kube.apiserver import Fault
from hami_core.wire import keys

LABEL = keys.agent_label("acme")
APP = ContainerKind.APP


class Life:
    """One life of the whole agent on the node under test."""

    def __init__(self, node, **how) -> None:
        node.server.objects["nodes"].setdefault("n1", {"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}})
        settings = AgentSettings(
            node_name="n1",
            mode="trust:hami-scheduler",
            kubelet_plugin_dir=node.plugin_dir,
            cdi_dir=node.cdi_dir,
            state_dir=node.state_dir,
            metrics_bind_address="",
            **how,
        )
        options = replace(from_settings(settings), lease_namespace="")
        self.node = node
        self.agent = Agent(node.api, [node.vendor], options)
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self.agent.run(self.stop))

    def label(self) -> str:
        return self.node.server.objects["nodes"]["n1"]["metadata"].get("labels", {}).get(LABEL, "")

    async def says(self, word: str) -> None:
        await self.node.kubelet.until(lambda: self.label() == word or self.task.done())
        assert self.label() == word

    async def end(self) -> None:
        """SIGTERM, and wait."""
        self.stop.set()
        await self.task

    async def die(self) -> None:
        """As SIGKILL leaves it: nothing is said; the sockets are gone."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def live(node):
    lives: list[Life] = []

    def begin(**how) -> Life:
        lives.append(Life(node, **how))
        return lives[-1]

    yield begin
    for life in lives:
        await life.die()


async def test_it_is_ready_once_the_kubelet_has_its_list(node, live):
    await node.kubelet.stop()
    one = live()
    await one.says("unregistered")
    await node.kubelet.start()
    await one.says("ready")
    assert node.kubelet.slots[GPU]


async def test_ready_waits_for_the_checkpoint_that_says_the_list_was_taken(node, live):
    """Or for two seconds, should this kubelet not write one."""
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


async def test_a_kubelet_that_goes_is_told_of(node, live):
    one = live()
    await one.says("ready")
    await node.kubelet.stop()
    await one.says("unregistered")
    await node.kubelet.start()
    await one.says("ready")


async def test_it_says_that_it_goes_before_it_goes(node, live):
    one = live()
    await one.says("ready")
    ending = asyncio.ensure_future(one.end())
    await one.says("stopping")
    given = await node.kubelet.admit("uid-late", "main", GPU, 1)
    assert given.response.cdi_devices, "it serves as long as pods may be on their way"
    await ending
    assert one.label() == "stopping", "until the next one is there"
    assert not one.agent.endpoints[GPU].serves
    two = live()
    await two.says("ready")


async def test_it_waits_for_pods_bound_here(node, live):
    """Each container of them: an init container that has its devices does not speak for the others."""
    one = live(handover_time=120.0)
    await one.says("ready")
    await node.pod(
        "a", [("first", ContainerKind.INIT, [("card-00000000", 100)]), ("main", APP, [("card-00000000", 100)])]
    )
    ending = asyncio.ensure_future(one.end())
    await one.says("stopping")
    first = await node.kubelet.admit("uid-a", "first", GPU, 1)
    done, _ = await asyncio.wait({ending}, timeout=3.0)
    assert not done, "its main container has nothing yet"
    await node.pod("b", [("main", APP, [("card-00000001", 100)])])
    await node.kubelet.admit("uid-a", "main", GPU, 1, reuse=first.slots)
    done, _ = await asyncio.wait({ending}, timeout=3.0)
    assert not done, "another one arrived meanwhile"
    await node.kubelet.admit("uid-b", "main", GPU, 1)
    await asyncio.wait_for(ending, 60)


@pytest.mark.parametrize("how", ["deleted", "rejected", "none of ours", "running"])
async def test_it_does_not_wait_for_others(node, live, how):
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


async def test_its_patience_has_an_end(node, live):
    one = live(handover_time=1.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "stopping"


async def test_without_an_api_server_it_goes_all_the_same(node, live):
    one = live(handover_time=300.0)
    await one.says("ready")
    node.server.faults.append(lambda *_: Fault(drop=True))
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "ready", "nobody could be told"


async def test_without_a_kubelet_nobody_is_waited_for(node, live):
    one = live(handover_time=300.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await node.server.remove("pods", "default/a")
    await node.kubelet.stop()
    await one.says("unregistered")
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "stopping"


async def test_told_to_it_goes_at_once_and_says_nothing(node, live):
    one = live(handover_time=0.0)
    await one.says("ready")
    await node.pod("a", [("main", APP, [("card-00000000", 100)])])
    await asyncio.wait_for(one.end(), 60)
    assert one.label() == "ready"


async def test_killed_it_says_nothing_and_the_next_one_says_so_until_it_is_registered(node, live):
    one = live()
    await one.says("ready")
    await one.die()
    assert one.label() == "ready"
    await node.kubelet.stop()
    two = live()
    await two.says("unregistered")
    await node.kubelet.start()
    await two.says("ready")


async def test_who_takes_the_label_away_finds_it_put_right(node, live):
    one = live()
    await one.says("ready")
    now = node.server.objects["nodes"]["n1"]
    await node.server.put("nodes", {**now, "metadata": {**now["metadata"], "labels": {}}})
    await one.says("ready")
