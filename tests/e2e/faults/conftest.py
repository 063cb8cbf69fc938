"""Fixtures of the fault tests: the system, and the load on it."""

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
    """The shared system without pods. Each test repairs the fault that it makes."""
    system.clean()
    ours.available(system)
    return system


@pytest.fixture
def seed() -> int:
    """Seed of this test's random numbers. It is printed; HAMI_SEED in the environment sets it."""
    chosen = int(os.environ.get("HAMI_SEED", "") or random.SystemRandom().randrange(1 << 20))
    print(f"seed {chosen}")
    return chosen


@pytest.fixture
def loaded(strained: System, seed: int) -> Iterator[Callable[..., Load]]:
    """A function that starts a load on the system. Its pods are removed after the test."""
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
