"""Faults of hardware: a card is lost and comes back; a disk is full; a card is cordoned."""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hami_gpusim import State

from tests.e2e.faults import ours
from tests.e2e.faults.truth import emptied, settled, wait_for_none
from tests.e2e.pods import container, pod
from tests.e2e.slices import booked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

STATE = "/var/lib/hami"
ROOM = "2g"
"""Size of the agent's file system: more than a test's containers need. A tmpfs uses only what it stores."""


def slots(system: System, node: str) -> int:
    """Number of slots that the node offers."""
    status = system.bed.call("GET", f"/api/v1/nodes/{node}")["status"]
    return int(status.get("allocatable", {}).get("nvidia.com/gpu", 0))


def test_a_card_is_lost_and_returns(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """Its slots vanish and return. Until then new pods get the node's other card."""
    rng = random.Random(seed)
    node, index = rng.choice(strained.gpu_nodes), rng.randrange(2)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    all_slots = slots(strained, node)
    with State(strained.bed.root(node) / "opt/nvidia-sim/state") as state:
        lost = state.devices[index].uuid
        load.explain.append(lambda now: "its card was lost" if lost in cards_of(now) else "")
        state.lose(index)
        began = time.monotonic()
        try:
            strained.bed.wait("half of the slots are gone", lambda: slots(strained, node) == all_slots // 2, 60)
            gone = time.monotonic() - began
            names = [f"beside-{number}" for number in range(3)]
            strained.submit(*[pod(name, container(memory=1000), node=node) for name in names])
            placed = strained.running(*names)
            assert all(lost not in cards_of(now) for now in placed), "placed on a card that is lost"
            assert strained.problems(*names) == []
            strained.delete(*names)
        finally:
            state.restore(index)
    began = time.monotonic()
    # By default a card with a critical error stays unhealthy until the agent restarts.
    name = ours.pod_of(strained, ours.AGENT, node)["metadata"]["name"]
    strained.bed.kubectl("delete", "pod", "-n", "hami-system", name)
    strained.bed.wait("all slots are back", lambda: slots(strained, node) == all_slots, 60)
    back = time.monotonic() - began
    took = settled(strained, load)
    emptied(strained, load)
    print(f"{node}'s card {index} lost ({gone:.1f} s) and back ({back:.1f} s): all well {took:.1f} s after")


def cards_of(now: dict[str, Any]) -> set[str]:
    """UUIDs of the cards booked for a pod."""
    return {card for pieces in booked(now).values() for card, _ in pieces}


@contextmanager
def own_disk(system: System, node: str) -> Iterator[None]:
    """Put the agent's state folder on a file system of its own, so that a test can fill it."""
    system.clean()

    def again() -> None:
        name = ours.pod_of(system, ours.AGENT, node)["metadata"]["name"]
        system.bed.kubectl("delete", "pod", "-n", "hami-system", name)
        ours.available(system)

    system.bed.run(node, "mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=755", "state", STATE)
    try:
        again()
        yield
    finally:
        system.bed.run(node, "umount", "-l", STATE)
        system.clean()
        again()


def fill(system: System, node: str) -> None:
    """Fill the agent's disk: shrink it to the size of its content, so that no block is free."""
    state = system.bed.root(node) / STATE.lstrip("/")

    def full() -> bool:
        now = os.statvfs(state)
        used = (now.f_blocks - now.f_bfree) * now.f_frsize
        resized = system.bed.run(node, "mount", "-o", f"remount,size={used}", STATE, check=False)  # refused if it grew
        return resized.returncode == 0 and os.statvfs(state).f_bfree == 0

    system.bed.wait(f"{STATE} on {node} is full", full, 20)


def give_room(system: System, node: str) -> None:
    """Undo `fill`."""
    system.bed.run(node, "mount", "-o", f"remount,size={ROOM}", STATE)


def test_the_agents_disk_is_full(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """New pods wait and their events say why. Running pods run on. Once there is room, the waiting pods start."""
    rng = random.Random(seed)
    node = rng.choice(strained.gpu_nodes)
    with own_disk(strained, node):
        strained.submit(pod("before", container(memory=1500), node=node))
        strained.running("before")
        fill(strained, node)
        names = [f"full-{number}" for number in range(3)]
        strained.submit(*[pod(name, container(memory=1000 + len(name)), node=node) for name in names])
        load = loaded(live=4)
        for name in names:
            strained.bed.wait(
                f"{name} says why it waits",
                lambda name=name: "No space left on device" in strained.bed.kubectl("describe", "pod", name),
                60,
            )
        assert {strained.pod(name)["status"]["phase"] for name in names} == {"Pending"}
        ours.kill(strained, ours.AGENT, ours.PLUGIN, node)  # the agent must also start on a full disk
        time.sleep(rng.uniform(2, 4))
        wait_for_none("the running pod keeps its slice", lambda: strained.problems("before"), strained, 20)
        give_room(strained, node)
        began = time.monotonic()
        strained.running(*names, timeout=90)
        took = time.monotonic() - began
        wait_for_none("each has its slice", lambda: strained.problems(*names), strained, 20)
        strained.delete("before", *names)
        settled(strained, load)
        emptied(strained, load)
    print(f"{node}'s state folder full: pods waited, and ran {took:.1f} s after there was room; {load.summary()}")


@pytest.mark.soak
def test_an_agent_that_finds_its_disk_full_at_its_start(strained: System, loaded: Callable[..., Load]) -> None:
    """The agent reads its records, and new pods wait."""
    node = strained.gpu_nodes[0]
    with own_disk(strained, node):
        load = loaded(node=node, live=3)
        time.sleep(6)
        fill(strained, node)
        for _ in range(2):
            ours.kill(strained, ours.AGENT, ours.PLUGIN, node)
            time.sleep(4)
        give_room(strained, node)
        settled(strained, load)
        emptied(strained, load)


def test_a_card_is_uncordoned(strained: System) -> None:
    """Pods that waited for the card start at once.

    Before Kubernetes 1.32, a change of a node wakes no pod in kube-scheduler. It retries unschedulable pods after five
    minutes.
    """
    bed = strained.bed
    cards = {
        node: ",".join(card["id"] for card in json.loads(annotations["hami.io/node-nvidia-register"]))
        for node in strained.gpu_nodes
        if (annotations := bed.call("GET", f"/api/v1/nodes/{node}")["metadata"]["annotations"])
    }
    try:
        for node, ids in cards.items():
            bed.kubectl("annotate", "node", node, f"hami.io/device-cordon={ids}", "--overwrite")
        strained.submit(pod("patient", container(memory=1000)))
        bed.wait("its event says why", lambda: "CardCordoned" in bed.kubectl("describe", "pod", "patient"), 60)
        # After 5 s the pod's back-off (at most 3 s) is over, so it can only wait for an event.
        time.sleep(5)
        assert strained.pod("patient")["status"]["phase"] == "Pending"
    finally:
        began = time.monotonic()
        for node in cards:
            bed.kubectl("annotate", "node", node, "hami.io/device-cordon-")
    strained.running("patient", timeout=60)
    print(f"running {time.monotonic() - began:.1f} s after its card was uncordoned")
    strained.delete("patient")
