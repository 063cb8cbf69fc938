"""The system the faults are tried on, and the load on it."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.load import Load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.system import System


@pytest.fixture(scope="package")
def strained(system: System) -> System:
    """The shared system, with nothing on it; each fault leaves it whole."""
    system.clean()
    ours.available(system)
    return system


@pytest.fixture
def seed() -> int:
    """Where this test's randomness comes from; printed, and HAMI_SEED in the environment gives it again."""
    chosen = int(os.environ.get("HAMI_SEED", "") or random.SystemRandom().randrange(1 << 20))
    print(f"seed {chosen}")
    return chosen


@pytest.fixture
def loaded(strained: System, seed: int) -> Iterator[Callable[..., Load]]:
    """Start a load on the system; what it leaves is taken away."""
    made: list[Load] = []

    def start(**how: object) -> Load:
        load = Load(strained, seed + len(made), **how)
        made.append(load)
        load.start()
        return load

    ours.refreshed(strained)
    yield start
    for load in made:
        load.stop()
    strained.clean()
