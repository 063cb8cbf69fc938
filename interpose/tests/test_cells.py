"""The charge protocol by itself: whoever dies wherever, the counter says what the living hold."""

from __future__ import annotations

import subprocess
from random import SystemRandom

import pytest


def run(program, *arguments: object) -> None:
    found = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=1800)
    assert (found.returncode, found.stdout) == (0, "")


def test_in_many_orders_the_counter_says_what_the_living_hold(programs):
    """Threads of processes take turns at each access to memory; some die, also of tidying up after others."""
    run(programs("cells"), 10_000, 1)


def test_a_number_that_comes_again_is_not_taken_for_one_noted_before(programs):
    run(programs("cells"), "again")


@pytest.mark.soak
@pytest.mark.timeout(1900)
def test_in_a_million_orders(programs):
    run(programs("cells"), 1_000_000, SystemRandom().getrandbits(40))
