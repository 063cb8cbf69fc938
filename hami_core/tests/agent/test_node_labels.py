"""Labels of the node object: vendors read them, and write and remove their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hami_core.agent.options import NodeLabels, from_settings
from hami_core.agent.process import Agent
from hami_core.agent.registration import NodeWriter
from hami_core.errors import ConfigError
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES
from hami_core.model import Advertisement
from hami_core.tests.agent.node import agent_settings


@pytest.fixture
async def labelled(node):
    """The node's labels in the API server."""
    meta = {"name": "n1", "uid": "n1", "resourceVersion": "1", "labels": {"pool": "a", "theirs": "1"}}
    node.server.objects["nodes"]["n1"] = {"metadata": meta}
    return lambda: node.server.objects["nodes"]["n1"]["metadata"]["labels"]


async def until(condition):
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture
async def writer(node, labelled):
    """A running writer of the node object."""
    writer = NodeWriter(node.api, "n1")
    tasks = [asyncio.create_task(work) for work in (writer.informer.run(), writer.run())]
    yield writer
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_label_of_none_is_removed_and_nothing_is_written_twice(writer, labelled):
    writer.want_labels("acme", {"model": "x", "theirs": None, "absent": None})
    await until(lambda: writer.is_current)
    assert labelled() == {"pool": "a", "model": "x"}
    writer.want_labels("acme", {"model": "x", "theirs": None, "absent": None})
    assert writer.is_current
    assert writer.written == 1


async def test_a_label_that_a_vendor_no_longer_mentions_belongs_to_others(node, writer, labelled):
    writer.want_labels("acme", {"model": "x", "gone": None})
    await until(lambda: writer.is_current)
    writer.want_labels("acme", {})
    writer.want_labels("other", {"slots": "4"})
    await until(lambda: writer.is_current)
    await node.api.patch(NODES, "n1", metadata_patch(labels={"model": "theirs", "gone": "back"}))
    writer.want_labels("other", {"slots": "5"})
    await until(lambda: labelled().get("slots") == "5")
    assert labelled() == {"pool": "a", "theirs": "1", "model": "theirs", "gone": "back", "slots": "5"}


@pytest.fixture
def run(node):
    """Run the whole agent, with labels for its vendor."""

    def start(labels):
        options = replace(from_settings(agent_settings(node)), lease_namespace="")
        stop = asyncio.Event()
        return stop, asyncio.ensure_future(Agent(node.api, [node.vendor], options, labels=labels).run(stop))

    return start


async def test_a_vendor_reads_the_labels_before_its_first_discovery(node, run, labelled, monkeypatch):
    labels, seen = NodeLabels(), []
    discover = type(node.vendor).discover
    monkeypatch.setattr(type(node.vendor), "discover", lambda self: seen.append(labels()) or discover(self))
    said = Advertisement(labels={"acme.example/model": "x", "theirs": None})
    monkeypatch.setattr(type(node.vendor), "advertise", lambda self, devices: said)
    stop, task = run(labels)
    await until(lambda: labelled().get("acme.example/model") == "x" or task.done())
    assert seen[0] == {"pool": "a", "theirs": "1"}
    assert "theirs" not in labelled()
    stop.set()
    await task


async def test_what_an_administrator_must_correct_ends_the_agent(node, run, labelled, monkeypatch):
    def discover(self):
        raise ConfigError("config.json: nodeconfig[0]", "is wrong", "write it right")

    monkeypatch.setattr(type(node.vendor), "discover", discover)
    _, task = run(NodeLabels())
    with pytest.raises(ConfigError, match=r"config.json: nodeconfig\[0\]: is wrong"):
        async with asyncio.timeout(15):
            await task
