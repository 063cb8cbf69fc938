"""What is taken while another thread ends a context: the driver gives its memory and its handle to others at once."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
SLOW_END = {"HAMI_SIM_END_MS": "500"}  # between the end and the driver's coming back from it


@pytest.mark.parametrize("what", ["large", "async", "pools", "green", "kept", "view"])
def test_what_is_counted_is_what_is_in_use(make_container, programs, what):
    container = make_container(4000, 4000)
    container.variables |= SLOW_END
    process = container.start(programs("ending"), what)
    for line in ("same\n", "freed\n"):
        assert process.stdout.readline() == line, process.stderr.read()
        container.agreed(0)  # by the driver as well
        container.agreed(1)
        process.stdin.write("\n")
    assert process.wait() == 0


def test_opened_memory_is_known_where_an_ending_context_had(started, programs, shells):
    """It counts as long as it is open here, whoever took it."""
    container, taker = started(4000, 4000, variables=SLOW_END)
    things = [taker("alloc", 4 * MIB)[1] for _ in range(2)]
    handles = [taker.line("ipc_get", thing).split()[1] for thing in things]
    process = container.start(programs("ending"), "shared", *handles)
    assert process.stdout.readline() == "same\n", process.stderr.read()
    taker.kill()
    for line in ("freed\n", ""):
        assert shells(container, device=None).status("use", 0) == 0  # who starts looks for the dead
        container.agreed(0)  # by the driver as well
        container.agreed(1)
        process.stdin.write("\n")
        assert process.stdout.readline() == line, process.stderr.read()
    assert process.wait() == 0
