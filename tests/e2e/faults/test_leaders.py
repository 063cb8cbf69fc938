"""Two schedulers: one takes over, a frozen one wakes up late, or the Lease names the one that does not bind."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.truth import emptied, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

LEASE_S = 15
"""kube-scheduler's lease duration."""


@pytest.fixture(scope="module")
def pair(strained: System) -> Iterator[System]:
    """The system with two replicas of our scheduler."""
    strained.install(scheduler={"replicas": 2})
    strained.bed.wait("two schedulers", lambda: len(strained.ours(ours.SCHEDULER)) == 2, 60)
    ours.available(strained)
    yield strained
    strained.install()
    strained.bed.wait("one scheduler", lambda: len(strained.ours(ours.SCHEDULER)) == 1, 90)
    ours.available(strained)


def replica(system: System, name: str) -> dict:
    """The scheduler pod with this name."""
    return next(now for now in system.ours(ours.SCHEDULER) if now["metadata"]["name"] == name)


def follower(system: System, leader: str) -> str:
    """Name of the scheduler pod that does not lead."""
    return next(now["metadata"]["name"] for now in system.ours(ours.SCHEDULER) if now["metadata"]["name"] != leader)


@pytest.mark.parametrize(
    "frozen",
    [
        pytest.param((ours.KUBE_SCHEDULER, ours.EXTENDER), id="leader"),
        pytest.param((ours.KUBE_SCHEDULER,), id="kube-scheduler of the leader"),
        pytest.param((ours.EXTENDER,), id="extender of the leader", marks=pytest.mark.soak),
    ],
)
def test_leader_frozen_and_woken(pair: System, loaded: Callable[..., Load], seed: int, frozen: tuple[str, ...]) -> None:
    """A leader is frozen for longer than its lease. For a moment after that it still believes that it leads.

    In that time it must not book a slice twice.
    """
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    first = ours.leader(pair)
    with ours.frozen(replica(pair, first), *frozen):
        if ours.KUBE_SCHEDULER in frozen:
            pair.bed.wait("the other one leads", lambda: ours.leader(pair) not in {"", first}, 60)
            time.sleep(rng.uniform(1, 3))
        else:
            time.sleep(LEASE_S + rng.uniform(0, 3))
    time.sleep(rng.uniform(1, 3))
    took = settled(pair, load)
    emptied(pair, load)
    print(f"{first} frozen and woken, {ours.leader(pair)} leads: all well {took:.1f} s after; {load.summary()}")


def test_lease_names_another_than_the_one_that_binds(pair: System, loaded: Callable[..., Load], seed: int) -> None:
    """The test writes the follower's name into the Lease while the leader's kube-scheduler still works."""
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    for _ in range(3):
        first = ours.leader(pair)
        if first:
            body = {"spec": {"holderIdentity": f"{follower(pair, first)}_somebody-else"}}
            pair.bed.call("PATCH", ours.LEASE, body, "application/merge-patch+json")
        time.sleep(rng.uniform(2, 5))
    pair.bed.wait(
        "a real kube-scheduler leads",
        lambda: "somebody-else" not in pair.bed.call("GET", ours.LEASE)["spec"].get("holderIdentity", ""),
        60,
    )
    took = settled(pair, load)
    emptied(pair, load)
    print(f"the Lease rewritten three times: all well {took:.1f} s after; {load.summary()}")
