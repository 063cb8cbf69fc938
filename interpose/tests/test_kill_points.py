"""A process killed after any of its stores to shared memory leaves nothing that the next one does not put right."""

from __future__ import annotations

import subprocess

MIB = 1 << 20
LIMIT = 3000
SCENARIO = "\n".join(
    [
        "use 0",
        "alloc 4096",
        f"alloc {2 * MIB}",
        "alloc 4096",
        f"alloc {700 * MIB}",
        f"alloc {9000 * MIB}",
        "free 1",
        f"async {4 * MIB}",
        "free 0",
        "free 2",
        f"create {8 * MIB} 0",
    ]
)


def check_survivor(container, survivor, reserve: int, when: str) -> None:
    """The survivor gets all that the dead had, in less than a second of its own, and the readers agree."""
    assert container.region().devices[0].used_bytes == reserve, when
    room = (LIMIT * MIB - reserve) // (2 * MIB) * 2 * MIB
    status, thing = survivor("timed", "alloc", room)
    assert status == 0, when
    assert survivor("took")[0] < 1000, when
    found = container.region()
    assert found.devices[0].used_bytes == reserve + room, when
    assert [process.pid for process in found.processes] == [survivor.process.pid], when
    assert survivor.status("free", thing) == 0


def test_killed_at_every_store(faulty, shells, programs):
    program = programs("shell")
    survivor = shells(faulty)
    reserve = faulty.region().devices[0].used_bytes
    point = 1
    while faulty.dies_at(program, point, SCENARIO):
        check_survivor(faulty, survivor, reserve, f"killed at point {point}")
        point += 1
    assert point > 20


def test_killed_at_every_store_for_host_memory(make_container, build_preset, shells, programs):
    """Where memory is scaled, what lies in the host has a counter of its own."""
    share = 1000
    container, program = make_container(LIMIT, physical_mib=share), programs("shell")
    container.variables["LD_PRELOAD"] = str(build_preset("faults"))
    survivor = shells(container)
    reserve = container.region().devices[0].used_bytes
    scenario = f"use 0\nalloc {share * MIB}\nmanaged {700 * MIB}\nfree 0\nalloc {300 * MIB}"
    point = 1
    while container.dies_at(program, point, scenario):
        when = f"killed at point {point}"
        assert container.region().devices[0].used_bytes == reserve, when
        status, thing = survivor("timed", "alloc", (LIMIT - share) * MIB)
        assert status == 0, when
        assert survivor("took")[0] < 1000, when
        assert container.region().devices[0].oversubscription.used_bytes == (LIMIT - share) * MIB, when
        assert survivor.status("free", thing) == 0
        point += 1
    assert point > 15


def test_its_cleaner_killed_at_every_store(faulty, shells, programs):
    """The next process cleans up when it lists processes; it is killed at that, and another takes over."""
    program = programs("shell")
    survivor = shells(faulty)
    reserve = faulty.region().devices[0].used_bytes
    point, cleaning = 1, 0
    while True:
        assert faulty.dies_at(program, 18, SCENARIO)
        if not faulty.dies_at(program, point, "use 0\nprocesses 0"):
            break
        cleaning += len(faulty.region().processes) == 1
        check_survivor(faulty, survivor, reserve, f"cleaner killed at point {point}")
        point += 1
    assert cleaning > 8


def test_no_launch_of_the_dead_is_lost_with_their_cleaner(faulty, shells, programs):
    program = programs("shell")
    survivor = shells(faulty)
    launched, point, cleaning = 0, 1, True
    while cleaning:
        victim = shells(faulty)
        graph = victim("graph", 2 * MIB, 1, "node")[1]
        for _ in range(3):
            assert victim.status("launch", graph) == 0
        assert victim.status("sync") == 0
        victim.process.kill()
        victim.process.wait()
        launched += 3
        cleaning = faulty.dies_at(program, point, "use 0\nprocesses 0")
        assert survivor.line("processes", 0).startswith("0 ")
        found = faulty.region()
        assert [process.pid for process in found.processes] == [survivor.process.pid]
        assert found.launches >= launched, f"cleaner killed at point {point}"
        launched = found.launches  # those of a cleaner who was killed before it could say so may count twice
        point += 1
    assert point > 20


def test_a_release_has_no_such_points(make_container, programs):
    container = make_container(LIMIT)
    container.variables["HAMI_FAULT_AT"] = "1"
    done = subprocess.run(
        [programs("shell")], env=container.environment(), input="use 0\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ready\n0\n")
