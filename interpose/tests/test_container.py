"""Several processes and several containers on one card."""

from __future__ import annotations

import fcntl
import json
import time

import hami_gpusim as sim
import pytest
from hami_interpose import _region_layout as at

MIB = 1 << 20
OUT_OF_MEMORY = 2


KINDS = {"memory": "m", "pools": "p", "physical": "c", "arrays": "a", "graphs": "g", "all": "mpcag"}


def finish_race(container, racers):
    """What racers got and were refused; nobody was above the limit or was refused by the driver, and all agree."""
    lines = [racer.stdout.readline() for racer in racers]
    assert all(lines), [racer.communicate()[1] for racer in racers]
    device = container.region().devices[0]
    assert device.used_bytes == len(racers) * device.context_bytes
    with sim.State(container.state) as books:
        assert books.devices[0].memory_used == device.used_bytes
    results = [racer.communicate("go\n") for racer in racers]
    assert [(racer.returncode, err) for racer, (_, err) in zip(racers, results, strict=True)] == [(0, "")] * len(racers)
    found = [json.loads(line) for line in lines]
    device = container.region().devices[0]
    assert device.peak_bytes <= device.limit_bytes
    assert device.denied == sum(one["refused"] for one in found) > 0
    assert device.used_bytes == 0
    return found


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_racing_processes_never_overshoot(full_size, start_race, kinds):
    container = full_size(4 * 420 + 150)
    racers = start_race(container, range(4), 30_000, 2, kinds)
    found = finish_race(container, racers)
    assert all(one["got"] > 0 for one in found)
    device = container.region().devices[0]
    assert device.limit_bytes - 32 * MIB < device.peak_bytes


def test_killed_racers_leave_nothing_behind(started, start_race):
    container, shell = started(3000)
    before = shell.free_bytes()
    for first in range(0, 15, 3):
        racers = start_race(container, range(first, first + 3), 10**9, 2)
        time.sleep(0.1)
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert shell.status("alloc", before // (2 * MIB) * 2 * MIB) == 0
    assert container.region().devices[0].used_bytes == before // (2 * MIB) * 2 * MIB + 3000 * MIB - before


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("how", ["fork", "clone", "spawn", "vfork"])
def test_children_have_slots_of_their_own(make_container, programs, how, count):
    """By spawn and vfork they are programs of their own, and the parent uses CUDA as well."""
    container = make_container(4000)
    launcher = container.start(programs("forks"), count, 100, how)
    assert launcher.stdout.readline() == "ready\n", launcher.stderr.read()
    found = container.region()
    reserve = found.devices[0].context_bytes
    own = reserve + 100 * MIB if how in {"spawn", "vfork"} else 0
    assert reserve == 420 * MIB, "it is measured, not guessed"
    used = {process.pid: process.used_bytes[0] for process in found.processes}
    assert used.pop(launcher.pid) == own
    assert list(used.values()) == [reserve + 100 * MIB] * count
    assert found.devices[0].used_bytes == own + count * (reserve + 100 * MIB)
    out, err = launcher.communicate()
    assert (launcher.returncode, out, err) == (0, f"{reserve if own else 0}\n", "")
    assert container.region().devices[0].used_bytes == 0
    assert container.region().processes == ()


def test_stopped_holder_of_the_retry_lock_ends_the_wait(started):
    container, shell = started(2000)
    with container.region_path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, at.LOCK_RETRY)
        assert shell.status("alloc", 1000 * MIB) == 0
        assert shell("timed", "alloc", 1000 * MIB)[0] == OUT_OF_MEMORY
        assert shell("took")[0] < 1000
        assert shell.status("alloc", 100 * MIB) == 0


SOAK = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("kinds", "rounds"),
    [
        pytest.param(KINDS["all"], 200, id="all"),
        *(pytest.param(kinds, 20_000, marks=SOAK, id=f"{name}-long") for name, kinds in KINDS.items()),
    ],
)
def test_many_racing_processes_never_overshoot(full_size, start_race, kinds, rounds):
    container = full_size(64 * 420 + 60)
    finish_race(container, start_race(container, range(64), rounds, 1, kinds))
