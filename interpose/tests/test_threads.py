"""Threads at once, under ThreadSanitizer."""

from __future__ import annotations

import json

import pytest

MIB = 1 << 20


@pytest.fixture
def watched(make_container, build_preset):
    """A container whose processes run libvgpu.so built with ThreadSanitizer."""
    container = make_container(2200)
    container.variables |= {
        "LD_PRELOAD": str(build_preset("tsan")),  # the programs bring the sanitizer's runtime
        "HAMI_SIM_ADDRESS_GIB": "64",  # the sanitizer needs most of the address space itself
        "TSAN_OPTIONS": "exitcode=66 halt_on_error=0 report_signal_unsafe=0",
    }
    return container


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_threads_that_race_for_memory_have_no_data_race(watched, programs, threads):
    racer = watched.start(programs("race", "-fsanitize=thread"), 3000, threads, threads)
    out, err = racer.communicate("go\n", timeout=170)
    assert (racer.returncode, err) == (0, ""), err[:4000]
    assert json.loads(out.splitlines()[1])["got"] > 0
    assert watched.region().devices[0].used_bytes == 0


def test_threads_that_do_different_things_have_no_data_race(watched, programs):
    worker = watched.start(programs("mixture", "-fsanitize=thread"), 400)
    out, err = worker.communicate(timeout=170)
    assert (worker.returncode, out, err) == (0, "done\n", ""), err[:4000]


@pytest.mark.parametrize("threads", [1, 8])
def test_threads_where_the_kernel_refuses_membarrier(make_container, programs, threads):
    """They take locks from the start then, and nothing else is different."""
    container = make_container(2200)
    racer = container.start(programs("forbid"), programs("race"), 3000, threads, threads)
    out, err = racer.communicate("go\n", timeout=170)
    assert (racer.returncode, err) == (0, "")
    found = container.region()
    assert json.loads(out.splitlines()[1])["got"] > 0
    assert found.devices[0].peak_bytes <= 2200 * MIB
    assert found.devices[0].used_bytes == 0
