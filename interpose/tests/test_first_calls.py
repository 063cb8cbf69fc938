"""Threads, forks, loaders and cancellations in the library's first moments: nobody waits for ever."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
ROUNDS = 300


@pytest.fixture
def plugin(programs):
    return programs("plugin", "-shared", "-fPIC")


def test_a_library_that_looks_up_while_it_is_loaded_does_not_stop_another_threads_first_call(
    make_container, programs, plugin
):
    """It holds the loader's lock, which the other needs for each name."""
    make_container(4000).run(programs("first"), "load", ROUNDS, plugin)


def test_a_library_that_makes_a_context_while_it_is_loaded_waits_for_nobody_who_waits_for_the_loader(
    make_container, programs
):
    """Others make contexts and allocate at once: what they hold meanwhile must not depend on the loader's lock."""
    plugin = programs("plugin", "-shared", "-fPIC", "-DCONTEXT")
    container = make_container(70000)
    container.run(programs("first"), "construct", 40, plugin)
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.skipif(
    bool(os.environ.get("HAMI_INTERPOSE_SANITIZE")),
    reason="AddressSanitizer's own locks stay locked in a child that meets another thread's",
)
@pytest.mark.here_only("qemu-user's own lock of paths stays locked in a child that meets another thread's")
@pytest.mark.parametrize("first", ["fork", "start"])
def test_a_child_made_while_another_thread_makes_its_first_call_uses_cuda(make_container, programs, first):
    """The other is looking functions up, or at the limits and the region."""
    container = make_container(4000)
    container.run(programs("first"), first, ROUNDS)
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.here_only("pthread_cancel wants libgcc_s, which libc6-arm64-cross does not bring")
def test_a_thread_that_is_cancelled_in_our_calls_leaves_the_others_at_work(make_container, programs):
    """Also one that has just begun to read new limits: they come into force."""
    container = make_container(4000)
    process = container.start(programs("first"))
    assert process.stdout.readline() == f"{4000 * MIB}\n"
    device = replace(container.limits.devices[0], memory_bytes=3000 * MIB, physical_bytes=3000 * MIB)
    container.write_limits(replace(container.limits, devices=(device,), generation=2))
    out, err = process.communicate("changed\nagain\n", timeout=120)
    assert (process.returncode, out, err) == (0, f"{3000 * MIB}\n" * 2, "")
