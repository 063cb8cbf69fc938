"""The ledger by itself: whoever dies, stops or is suspended wherever, no more is on a device than its limit."""

from __future__ import annotations

import subprocess
from random import SystemRandom

import pytest


def run(programs, *arguments: int) -> None:
    command = [programs("ledger", "-O2"), *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert (found.returncode, found.stdout) == (0, "")


def test_limit_holds_in_many_orders(programs):
    """Processes take turns at each access to memory; at the end the sum is what is on the device."""
    run(programs, 10_000, 1)


@pytest.mark.soak
@pytest.mark.timeout(1900)
def test_limit_holds_in_a_million_orders(programs):
    run(programs, 1_000_000, SystemRandom().getrandbits(40))
