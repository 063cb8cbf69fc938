"""A process killed after any of its stores to shared memory leaves nothing that the next one does not put right."""

from __future__ import annotations

import subprocess

import pytest

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


SHARE = 1000  # MiB of the limit that lie on the device, where memory is scaled
SCALED = ["use 0", f"alloc {SHARE * MIB}", f"managed {700 * MIB}", "free 0", f"alloc {300 * MIB}"]


def check_survivor(container, survivor, reserve: int, when: str, share: int | None = None) -> None:
    """The survivor gets all that the dead had, in less than a second of its own, and the readers agree."""
    assert container.region().devices[0].used_bytes == reserve, when
    room = (LIMIT - share) * MIB if share else (LIMIT * MIB - reserve) // (2 * MIB) * 2 * MIB
    status, thing = survivor("timed", "alloc", room)
    assert status == 0, when
    assert survivor("took")[0] < 1000, when
    found = container.region()
    device = found.devices[0]
    assert (device.oversubscription.used_bytes if share else device.used_bytes - reserve) == room, when
    assert [process.pid for process in found.processes] == [survivor.process.pid], when
    assert survivor.status("free", thing) == 0


@pytest.mark.parametrize(
    ("share", "scenario", "least"), [(None, SCENARIO, 20), (SHARE, SCALED, 15)], ids=["device", "host"]
)
def test_killed_at_every_store_leaves_nothing(started, killed_at_each_store, share, scenario, least):
    """Where memory is scaled, memory in the host has a counter of its own."""
    container, survivor = started(LIMIT, physical_mib=share)
    reserve = container.region().devices[0].used_bytes
    for point, _ in enumerate(killed_at_each_store(container, *scenario, least=least), 1):
        check_survivor(container, survivor, reserve, f"killed at point {point}", share)


def test_cleaner_killed_at_every_store_leaves_nothing(started, killed_at_each_store):
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


def test_launches_of_the_dead_outlive_a_killed_cleaner(make_container, shells, killed_at_each_store):
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


def test_release_build_has_no_kill_points(make_container, programs):
    container = make_container(LIMIT)
    container.variables["HAMI_FAULT_AT"] = "1"
    done = subprocess.run(
        [programs("shell")], env=container.environment(), input="use 0\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ready\n0\n")
