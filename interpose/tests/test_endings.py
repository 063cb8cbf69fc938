"""What is taken while another thread ends a context: the driver gives its memory and its handle to others at once."""

from __future__ import annotations

import pytest
from hami_interpose import sim

pytestmark = pytest.mark.each_machine

SLOW_END = {"HAMI_SIM_END_MS": "500"}  # between the end and the driver's coming back from it


def counted(container) -> list[int]:
    return [device.used_bytes for device in container.region().devices]


def in_use(container) -> list[int]:
    with sim.State(container.state) as state:
        return [device.memory_used for device in state.devices]


@pytest.mark.parametrize("what", ["large", "async", "pools", "green", "kept", "view", "handle"])
def test_what_is_counted_is_what_is_in_use(make_container, programs, what):
    container = make_container(4000, 4000)
    container.variables |= SLOW_END
    process = container.start(programs("ending"), what)
    for line in ("same\n", "freed\n"):
        assert process.stdout.readline() == line, process.stderr.read()
        assert counted(container) == in_use(container)
        process.stdin.write("\n")
        process.stdin.flush()
    assert process.wait() == 0
