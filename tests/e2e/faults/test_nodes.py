"""Faults of nodes: one is disconnected, one loses its power, one loses its node object."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.load import died_with_node
from tests.e2e.faults.truth import emptied, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System


def scheduler_node(system: System) -> str:
    """Name of the node on which our scheduler runs."""
    return str(ours.pod_of(system, ours.SCHEDULER)["spec"]["nodeName"])


def cut_off(system: System, node: str, seconds: float) -> None:
    """Disconnect a node from the network for some seconds."""
    system.bed.cut(node)
    try:
        time.sleep(seconds)
    finally:
        system.bed.join(node)


@pytest.mark.parametrize(("seconds", "whose"), [(1, "the scheduler's node"), (30, "another node")])
def test_cut_off_from_the_api_server(
    strained: System, loaded: Callable[..., Load], seed: int, seconds: float, whose: str
) -> None:
    """Containers run on with their slices. Pods that were bound to the node start once it is back."""
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    home = scheduler_node(strained)
    node = home if whose == "the scheduler's node" else next(n for n in strained.gpu_nodes if n != home)
    cut_off(strained, node, seconds)
    took = settled(strained, load)
    emptied(strained, load)
    print(f"{node} cut off for {seconds} s: all well {took:.1f} s after; {load.summary()}")


@pytest.mark.soak
def test_cut_off_for_five_minutes(strained: System, loaded: Callable[..., Load]) -> None:
    """The time is long enough to mark the node as not ready, but too short to evict its pods."""
    load = loaded()
    time.sleep(3)
    home = scheduler_node(strained)
    node = next(n for n in strained.gpu_nodes if n != home)
    cut_off(strained, node, 300)
    took = settled(strained, load, 240)
    emptied(strained, load)
    print(f"{node} cut off for 300 s: all well {took:.1f} s after; {load.summary()}")


@pytest.mark.parametrize("whose", ["the scheduler's node", pytest.param("another node", marks=pytest.mark.soak)])
def test_reboot(strained: System, loaded: Callable[..., Load], seed: int, whose: str) -> None:
    """All processes end at once, /run is empty, and the disk is kept.

    Pods that may restart run again with their slices. If the kubelet is back before the agent, it rejects them. Then
    the load creates them again.
    """
    rng = random.Random(seed)
    load = loaded()
    load.explain.append(died_with_node)
    time.sleep(rng.uniform(2, 4))
    home = scheduler_node(strained)
    node = home if whose == "the scheduler's node" else next(n for n in strained.gpu_nodes if n != home)
    there = strained.bed.wait(f"pods on {node}", lambda: load.on(node), 60)
    strained.bed.reboot(node)
    took = settled(strained, load, 180)
    emptied(strained, load)
    print(f"{node} rebooted with {there} pods: all well {took:.1f} s after; {load.summary()}")


def test_node_object_deleted_and_made_again(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """The agent writes its register into the new object."""
    rng = random.Random(seed)
    load = loaded()
    load.gone = "its node object was deleted"
    load.explain.append(died_with_node)
    time.sleep(rng.uniform(2, 4))
    node = rng.choice(strained.gpu_nodes)
    path = f"/api/v1/nodes/{node}"
    old = strained.bed.call("GET", path)["metadata"]["uid"]
    strained.bed.call("DELETE", path)
    strained.bed.restart(f"kubelet:{node}")  # a kubelet creates its node object at its start
    strained.bed.wait("a new node object", lambda: strained.bed.call("GET", path)["metadata"]["uid"] != old, 60)
    strained.bed.kubectl("label", "node", node, "gpu=on", "--overwrite")
    took = settled(strained, load)
    emptied(strained, load)
    print(f"{node}'s object deleted and made again: all well {took:.1f} s after; {load.summary()}")
