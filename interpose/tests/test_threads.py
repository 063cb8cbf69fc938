"""Threads at once, under ThreadSanitizer."""

from __future__ import annotations

import json
import os
import time

import pytest
from hami_interpose import turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
STRICT = "exitcode=66 halt_on_error=0 report_signal_unsafe=0 io_sync=0"  # two that use a file are not in step by that


MIXTURE = (20_000, 1000, 12, "mpcassxxrooq")  # room for all: what is refused does nothing


@pytest.fixture
def watched(make_container, build_preset):
    """A container whose processes run libvgpu.so built with ThreadSanitizer."""
    container = make_container(2200)
    container.variables |= {
        "LD_PRELOAD": str(build_preset("tsan")),  # the programs bring the sanitizer's runtime
        "HAMI_SIM_ADDRESS_GIB": "64",  # the sanitizer needs most of the address space itself
        "TSAN_OPTIONS": STRICT,
    }
    return container


@pytest.mark.here_only("ThreadSanitizer is this machine's")
@pytest.mark.parametrize(("mib", "rounds", "threads", "kinds"), [(2200, 3000, 2, "m"), (2200, 3000, 16, "m"), MIXTURE])
def test_threads_that_race_have_no_data_race(watched, make_container, programs, mib, rounds, threads, kinds):
    container = make_container(mib, mib)
    container.variables |= watched.variables
    racer = container.start(programs("race", "-fsanitize=thread"), rounds, threads, threads, kinds)
    out, err = racer.communicate("go\n", timeout=170)
    assert (racer.returncode, err) == (0, ""), err[:4000]
    assert json.loads(out.splitlines()[1])["got"] > 0
    assert [device.used_bytes for device in container.region().devices] == [0, 0]


@pytest.mark.here_only("ThreadSanitizer is this machine's")
def test_threads_whose_limits_are_away_read_none_half_written(watched, programs):
    """Each refusal looks for the file again; what others hold meanwhile stays as it is."""
    path = watched.root / "limits/limits"
    racer = watched.start(programs("race", "-fsanitize=thread"), 20000, 1, 8)
    assert racer.stdout.readline() == "ready\n", racer.stderr.read()[:4000]
    path.rename(path.with_name("away"))
    time.sleep(0.4)  # as often as the file is looked at
    racer.stdin.write("go\n")
    out, err = racer.communicate(timeout=170)
    assert (racer.returncode, err) == (0, ""), err[:4000]
    assert json.loads(out)["refused"] > 0
    assert watched.region().devices[0].used_bytes == 0


class Sharer:
    """A container with a share of the first device's time and its turn page."""

    def __init__(self, container, page, cores):
        self.container = container
        [device] = container.limits.devices
        self.uuid = device.uuid
        self.limit(cores)
        turns = container.root / "turns"
        turns.mkdir()
        os.link(page, turns / self.uuid)

    def limit(self, cores):
        generation = self.container.limits.generation + 1
        device = DeviceLimit(self.uuid, 0, 0, cores)
        self.container.write_limits(Limits((device,), generation, core_policy=CorePolicy.FORCE))
        return generation

    def compute(self):
        return self.container.region().devices[0].compute


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page"
    path.write_bytes(turn.initial())
    return path


@pytest.mark.here_only("ThreadSanitizer is this machine's")
@pytest.mark.timeout(600)
def test_threads_that_share_a_device_have_no_data_race(watched, make_container, programs, page, wait_until):
    """Launches of all kinds beside another tenant, while limits are replaced and the page comes and goes."""
    ours, other = Sharer(watched, page, 40), Sharer(make_container(0), page, 40)
    beside = other.container.start(programs("work"), "kernels=a_2ms", "seconds=1000")
    crowd = ours.container.start(programs("crowd", "-fsanitize=thread"), 10)
    assert crowd.stdout.readline() == "ready\n", crowd.stderr.read()[:4000]
    both = (crowd, beside)
    for cores in (60, 0, 100, 30):
        generation = ours.limit(cores)
        wait_until(lambda read=generation: watched.region().generation == read, *both)
    for _ in range(2):
        before = ours.compute()
        wait_until(lambda turns=before.turns: ours.compute().turns > turns + 2, *both)
        with page.open("r+b") as file:  # cut off, and made anew in place
            file.truncate(0)
            wait_until(lambda grants=before.grants: ours.compute().grants > grants + 5, *both)
            file.truncate(turn.SIZE)
            os.pwrite(file.fileno(), turn.initial(), 0)
    out, err = crowd.communicate(timeout=300)
    assert (crowd.returncode, err) == (0, ""), err[:8000]
    found = json.loads(out.splitlines()[-1])
    assert min(found.values()) > 0, found
    assert watched.region().devices[0].used_bytes == 0


@pytest.mark.here_only("qemu-user has no membarrier to refuse, and its program cannot become another")
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


@pytest.mark.parametrize(
    ("kind", "rounds", "threads"), [("memory", 60_000, 6), ("contexts", 6_000, 6), ("handed", 1, 1)]
)
def test_handle_given_to_another_thread_at_once_is_its_own(make_container, programs, kind, rounds, threads):
    """What a thread has just given back is not what another one has just got by the same name."""
    process = make_container(20000, 20000).start(programs("handles"), kind, rounds, threads)
    assert process.communicate(timeout=170) == ("0\n", "")


def test_thread_that_looks_for_the_dead_knows_its_process(make_container, programs, wait_until):
    """To a program that qemu-user runs /proc/self/stat tells each thread another start; nobody may go by that."""
    container = make_container(600)
    racer = container.start(programs("race"), 1_000_000_000, 1, 4)
    assert racer.stdout.readline() == "ready\n"
    (before,) = container.region().processes
    time.sleep(0.1)  # threads that start later
    racer.stdin.write("go\n")
    wait_until(lambda: container.region().devices[0].denied >= 20)  # who is refused has looked
    assert [process.pid for process in container.region().processes] == [before.pid]
