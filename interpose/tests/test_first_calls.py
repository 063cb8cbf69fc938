"""Threads, forks, loaders and cancellations in the library's first moments: nobody waits for ever."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
ROUNDS = 300


@pytest.mark.parametrize(("how", "rounds", "flags"), [("load", ROUNDS, ()), ("construct", 40, ("-DCONTEXT",))])
def test_library_that_calls_us_while_loaded_stops_nobody(make_container, programs, how, rounds, flags):
    """
    It holds the loader's lock, which other threads need for the name of each function that they look up. So what they
    hold meanwhile must not be needed for what the library does: it looks a function up, or makes a context.
    """
    container = make_container(70000)
    container.run(programs("first"), how, rounds, programs("plugin", "-shared", "-fPIC", *flags))
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.skipif(
    bool(os.environ.get("HAMI_INTERPOSE_SANITIZE")),
    reason="AddressSanitizer's own locks stay locked in a child that meets another thread's",
)
@pytest.mark.here_only("qemu-user's own lock of paths stays locked in a child that meets another thread's")
@pytest.mark.parametrize("first", ["fork", "start"])
def test_child_made_during_another_threads_first_call_works(make_container, programs, first):
    """The other is looking functions up, or at the limits and the region."""
    container = make_container(4000)
    container.run(programs("first"), first, ROUNDS)
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.here_only("pthread_cancel wants libgcc_s, which libc6-arm64-cross does not bring")
def test_thread_cancelled_in_our_calls_stops_no_other(make_container, programs):
    """Also one that has just begun to read new limits: they come into force."""
    container = make_container(4000)
    process = container.start(programs("first"))
    assert process.stdout.readline() == f"{4000 * MIB}\n"
    device = replace(container.limits.devices[0], memory_bytes=3000 * MIB, physical_bytes=3000 * MIB)
    container.write_limits(replace(container.limits, devices=(device,), generation=2))
    out, err = process.communicate("changed\nagain\n", timeout=120)
    assert (process.returncode, out, err) == (0, f"{3000 * MIB}\n" * 2, "")
