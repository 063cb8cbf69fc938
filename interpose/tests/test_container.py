"""Several processes and several containers on one card."""

from __future__ import annotations

import json
import signal
import time

import pytest
from hami_interpose import sim

MIB = 1 << 20
OUT_OF_MEMORY = 2


def test_two_containers_do_not_see_each_other(make_container, shells):
    one, two = make_container(4000), make_container(3000)
    first, second = shells(one), shells(two)
    before = second.free_bytes()
    while first.status("alloc", 100 * MIB) == 0:
        pass
    assert second.free_bytes() == before
    assert second.status("alloc", before // (2 * MIB) * 2 * MIB) == 0
    assert first("nvml", 0)[1] == 4000 * MIB
    assert second("nvml", 0)[1] == 3000 * MIB


def test_processes_share_their_containers_limit(make_container, shells):
    container = make_container(4000)
    first, second = shells(container), shells(container)
    assert first.free_bytes() == second.free_bytes()
    assert first.status("alloc", 2000 * MIB) == 0
    assert second.status("alloc", 2000 * MIB) == OUT_OF_MEMORY
    assert second.status("alloc", 1000 * MIB) == 0
    assert first.free_bytes() == second.free_bytes()


def test_process_list_has_this_container_alone(make_container, shells):
    container, other = make_container(4000), make_container(4000)
    first, second, third = shells(container), shells(container), shells(other)
    reserve = container.region().devices[0].context_bytes
    assert second.status("alloc", 10 * MIB) == 0
    assert third.status("alloc", 10 * MIB) == 0
    listed = dict(map(int, entry.split(":")) for entry in first.line("processes", 0).split()[1:])
    assert listed == {first.process.pid: reserve, second.process.pid: reserve + 10 * MIB}


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_memory_of_a_killed_process_returns(make_container, shells, signal_number):
    container = make_container(4000)
    first, second = shells(container), shells(container)
    before = second.free_bytes()
    assert first.status("alloc", 2000 * MIB) == 0
    reserve = container.region().devices[0].context_bytes
    first.process.send_signal(signal_number)
    first.process.wait()
    assert second.status("alloc", 2000 * MIB) == 0  # a refusal would first look for the dead
    assert second.free_bytes() == before + reserve - 2000 * MIB
    assert len(container.region().processes) == 1


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_memory_of_a_killed_process_is_shown_as_free_within_a_second(make_container, shells, signal_number):
    """To a process that needs none of it and so looks for nobody: it asks 20 times with 50 ms between."""
    container = make_container(4000)
    first, second = shells(container), shells(container)
    before = second.free_bytes()
    assert first.status("alloc", 2000 * MIB) == 0
    reserve = container.region().devices[0].context_bytes
    first.process.send_signal(signal_number)
    first.process.wait()
    for _ in range(20):
        time.sleep(0.05)
        if second.free_bytes() == before + reserve:
            return
    pytest.fail("a second after the process's end its memory is still counted")


def start_race(container, programs, seeds, rounds, threads):
    """Starts racers and lets them go together."""
    racers = [container.start(programs("race"), rounds, seed, threads) for seed in seeds]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return racers


def test_racing_processes_never_overshoot(tmp_path, make_container, programs):
    """On a card exactly as large as the limit, the driver itself never has to refuse: we do it before."""
    limit = (4 * 420 + 150) * MIB
    card = {"model": "a100", "memory_reserved_mib": 80 * 1024 - limit // MIB}
    (tmp_path / "small.json").write_text(json.dumps({"devices": [card]}))
    sim.create(tmp_path / "small", tmp_path / "small.json")
    container = make_container(limit // MIB, state=tmp_path / "small")
    racers = start_race(container, programs, range(4), 20000, 2)
    results = [racer.communicate() for racer in racers]
    assert [(racer.returncode, err) for racer, (_, err) in zip(racers, results, strict=True)] == [(0, "")] * 4
    found = [json.loads(out) for out, _ in results]
    assert all(one["got"] > 0 for one in found)
    device = container.region().devices[0]
    assert limit - 32 * MIB < device.peak_bytes <= limit
    assert device.denied == sum(one["refused"] for one in found) > 0


def test_racing_threads_give_everything_back(make_container, programs, shells):
    container = make_container(2200)
    shell = shells(container)
    before = shell.free_bytes()
    for seed in (7, 8):
        (racer,) = start_race(container, programs, [seed], 5000, 8)
        _, err = racer.communicate()
        assert (racer.returncode, err) == (0, "")
    assert shell.status("alloc", before // (2 * MIB) * 2 * MIB) == 0


def test_killed_racers_leave_nothing_behind(make_container, programs, shells):
    container = make_container(3000)
    shell = shells(container)
    before = shell.free_bytes()
    for first in range(0, 15, 3):
        racers = start_race(container, programs, range(first, first + 3), 10**9, 2)
        time.sleep(0.1)
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert shell.status("alloc", before // (2 * MIB) * 2 * MIB) == 0
    assert container.region().devices[0].used_bytes == before // (2 * MIB) * 2 * MIB + 3000 * MIB - before


def test_fork_leaves_the_parents_accounting_alone(make_container, shells):
    container = make_container(4000)
    shell = shells(container)
    thing = shell("alloc", 100 * MIB)[1]
    before = shell.free_bytes()
    assert shell.status("fork") == 0
    assert shell.free_bytes() == before
    assert shell.status("free", thing) == 0
    assert shell.free_bytes() == before + 100 * MIB


def test_children_of_a_fork_have_slots_of_their_own(make_container, programs):
    """A launcher asks NVML about the cards and forks its workers."""
    container = make_container(4000)
    launcher = container.start(programs("forks"), 3, 100)
    assert launcher.stdout.readline() == "ready\n", launcher.stderr.read()
    found = container.region()
    reserve = found.devices[0].context_bytes
    assert found.devices[0].used_bytes == 3 * (reserve + 100 * MIB)
    assert sorted(process.used_bytes[0] for process in found.processes) == [0, *[reserve + 100 * MIB] * 3]
    out, err = launcher.communicate()
    assert (launcher.returncode, out, err) == (0, "", "")
    assert container.region().devices[0].used_bytes == 0
    assert container.region().processes == ()


def test_memory_of_another_process_is_counted_once(make_container, shells):
    """Whoever took it pays; opening it elsewhere in the container takes no more."""
    container = make_container(4000)
    owner, other = shells(container), shells(container)
    thing = owner("alloc", 1000 * MIB)[1]
    before = other.free_bytes()
    opened = other("ipc_open", owner.line("ipc_get", thing).split()[1])[1]
    assert other.free_bytes() == before
    assert other.status("ipc_close", opened) == 0
    assert other.free_bytes() == before
    assert owner.status("free", thing) == 0
    assert other.free_bytes() == before + 1000 * MIB


@pytest.mark.soak
def test_many_racing_processes_never_overshoot(tmp_path, make_container, programs):
    limit = (64 * 420 + 60) * MIB
    card = {"model": "a100", "memory_reserved_mib": 80 * 1024 - limit // MIB}
    (tmp_path / "small.json").write_text(json.dumps({"devices": [card]}))
    sim.create(tmp_path / "small", tmp_path / "small.json")
    container = make_container(limit // MIB, state=tmp_path / "small")
    racers = start_race(container, programs, range(64), 100_000, 1)
    results = [racer.communicate() for racer in racers]
    assert [(racer.returncode, err) for racer, (_, err) in zip(racers, results, strict=True)] == [(0, "")] * 64
    device = container.region().devices[0]
    assert device.peak_bytes <= limit
    assert device.denied == sum(json.loads(out)["refused"] for out, _ in results) > 0
    assert device.used_bytes == 0
