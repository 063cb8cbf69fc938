"""The long form: random faults for HAMI_SOAK_MINUTES."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.load import died_with_node, lost_by_runtime, start_cut_short
from tests.e2e.faults.strikes import CLUSTER, NODE, OURS, strike
from tests.e2e.faults.test_nodes import cut_off
from tests.e2e.faults.truth import emptied, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

MINUTES = float(os.environ.get("HAMI_SOAK_MINUTES", "22"))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_anything_breaks_for_long(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """Each round has one to three faults. After it, every pod has its slice; without pods, all memory is free."""
    rng = random.Random(seed)
    until, number = time.monotonic() + 60 * MINUTES, 0
    while time.monotonic() < until:
        number += 1
        load = loaded(live=rng.randrange(5, 12))
        time.sleep(rng.uniform(1, 5))
        done = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            done.append(anything(strained, load, rng))
            time.sleep(rng.uniform(0, 4))
        print(f"round {number} (seed {seed}): {'; '.join(done)}", flush=True)
        took = settled(strained, load, 240)
        emptied(strained, load, 180)
        print(f"  all well {took:.1f} s after; {load.summary()}", flush=True)
        ours.refreshed(strained)


def anything(system: System, load: Load, rng: random.Random) -> str:
    """Make one random fault. Returns a description of it."""
    what = rng.choice([*OURS, *OURS, *CLUSTER, *NODE, "cut", "reboot"])
    node = rng.choice(system.gpu_nodes)
    if what == "cut":
        seconds = rng.choice([1, 5, 30])
        cut_off(system, node, seconds)
        return f"{node} cut off for {seconds} s"
    if what == "reboot":
        load.explain.append(died_with_node)
        system.bed.reboot(node)
        return f"{node} rebooted"
    if what == "kubelet":
        load.explain.append(start_cut_short)
    if what == "containerd":
        load.explain.append(lost_by_runtime)
    return strike(system, what, rng)
