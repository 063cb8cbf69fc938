"""A process killed after any of its stores to shared memory leaves nothing that the next one does not put right."""

from __future__ import annotations

import subprocess

MIB = 1 << 20
LIMIT = 3000
SCENARIO = [
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


def test_killed_at_every_store(started, killed_at_each_store):
    container, survivor = started(LIMIT)
    reserve = container.region().devices[0].used_bytes
    for point, _ in enumerate(killed_at_each_store(container, *SCENARIO, least=20), 1):
        check_survivor(container, survivor, reserve, f"killed at point {point}")


def test_killed_at_every_store_for_host_memory(started, killed_at_each_store):
    """Where memory is scaled, what lies in the host has a counter of its own."""
    share = 1000
    container, survivor = started(LIMIT, physical_mib=share)
    reserve = container.region().devices[0].used_bytes
    scenario = ["use 0", f"alloc {share * MIB}", f"managed {700 * MIB}", "free 0", f"alloc {300 * MIB}"]
    for point, _ in enumerate(killed_at_each_store(container, *scenario, least=15), 1):
        when = f"killed at point {point}"
        assert container.region().devices[0].used_bytes == reserve, when
        status, thing = survivor("timed", "alloc", (LIMIT - share) * MIB)
        assert status == 0, when
        assert survivor("took")[0] < 1000, when
        assert container.region().devices[0].oversubscription.used_bytes == (LIMIT - share) * MIB, when
        assert survivor.status("free", thing) == 0


def test_its_cleaner_killed_at_every_store(started, killed_at_each_store):
    """The next process cleans up when it lists processes; it is killed at that, and another takes over."""
    container, survivor = started(LIMIT)
    reserve, cleaning = container.region().devices[0].used_bytes, 0

    def leave_one(_: int) -> None:
        [out] = killed_at_each_store(container, *SCENARIO, points=[18])
        assert out.count("\n") <= len(SCENARIO), "it dies on the way"

    for point, _ in enumerate(killed_at_each_store(container, "use 0", "processes 0", before=leave_one), 1):
        cleaning += len(container.region().processes) == 1
        check_survivor(container, survivor, reserve, f"cleaner killed at point {point}")
    assert cleaning > 9


def test_launches_of_the_dead_outlive_their_cleaner(make_container, shells, killed_at_each_store):
    container = make_container(LIMIT)
    survivor, launched = shells(container), 0

    def launch_thrice(_: int) -> None:
        victim = shells(container)
        graph = victim("graph", 2 * MIB, 1, "node")[1]
        assert [victim.status("launch", graph) for _ in range(3)] == [0, 0, 0]
        assert victim.status("sync") == 0
        victim.kill()

    cleaners = killed_at_each_store(container, "use 0", "processes 0", before=launch_thrice, least=20)
    for point, _ in enumerate(cleaners, 1):
        assert survivor.line("processes", 0).startswith("0 ")
        found = container.region()
        assert [process.pid for process in found.processes] == [survivor.process.pid]
        assert found.launches >= launched + 3, f"cleaner killed at point {point}"
        launched = found.launches  # those of a cleaner who was killed before it could say so may count twice


def test_a_release_has_no_such_points(make_container, programs):
    container = make_container(LIMIT)
    container.variables["HAMI_FAULT_AT"] = "1"
    done = subprocess.run(
        [programs("shell")], env=container.environment(), input="use 0\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ready\n0\n")
