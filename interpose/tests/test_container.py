"""Several processes and several containers on one card."""

from __future__ import annotations

import fcntl
import json

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


SOAK = [pytest.mark.soak, pytest.mark.timeout(3600)]
FEW, MANY = (4, 2, 150), (64, 1, 60)  # processes, threads of each, MiB beside their contexts


@pytest.mark.parametrize(
    ("kinds", "racing", "rounds"),
    [
        *(pytest.param(kinds, FEW, 30_000, id=name) for name, kinds in KINDS.items()),
        pytest.param(KINDS["all"], MANY, 200, id="all-many"),
        *(pytest.param(kinds, MANY, 20_000, marks=SOAK, id=f"{name}-long") for name, kinds in KINDS.items()),
    ],
)
def test_racing_processes_never_overshoot(full_size, start_race, kinds, racing, rounds):
    processes, threads, mib = racing
    container = full_size(processes * 420 + mib)
    found = finish_race(container, start_race(container, range(processes), rounds, threads, kinds))
    if racing == FEW:
        device = container.region().devices[0]
        assert all(one["got"] > 0 for one in found)
        assert device.limit_bytes - 32 * MIB < device.peak_bytes


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
