"""Suspended processes: what they held is others' to take, to the page, and theirs again before they come back."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import hami_gpusim as sim
import pytest
from hami_interpose import _region_layout as at
from hami_interpose.limits import Limits

MIB = 1 << 20
LIMIT = 3000
OUT_OF_MEMORY, ILLEGAL_STATE, NOT_SUPPORTED = 2, 401, 801
RUNNING, LOCKED, CHECKPOINTED = range(3)
AWAY = ("lock", "checkpoint")
BACK = ("restore", "unlock")


def used(container: Any, device: int = 0) -> int:
    return int(container.region().devices[device].used_bytes)


def each(shell: Any, steps: tuple[str, ...], pid: int) -> list[int]:
    return [shell.status(step, pid) for step in steps]


def state(shell: Any, pid: int) -> int:
    found = shell.made("state", pid)
    return int(found)


def process_of(container: Any, pid: int) -> Any:
    (found,) = [process for process in container.region().processes if process.pid == pid]
    return found


@dataclass
class Scene:
    """A process that holds much, a neighbour with nothing but its context, and one that suspends and resumes."""

    container: Any
    one: Any
    neighbour: Any
    warden: Any
    reserve: int
    held: int  # by the first, its context included

    @property
    def pid(self) -> int:
        return int(self.one.process.pid)

    def room(self) -> int:
        """What is left while the first is away."""
        return (LIMIT * MIB - self.reserve) // (2 * MIB) * 2 * MIB

    def takes_exactly(self, size: int, when: str = "") -> None:
        """The neighbour can have that and no page more; it has it for a moment."""
        status, thing = self.neighbour("alloc", size)
        assert status == 0, when
        assert self.neighbour.status("create", 2 * MIB, 0) == OUT_OF_MEMORY, when
        assert self.neighbour.status("free", thing) == 0


def make_scene(container: Any, shells: Any) -> Scene:
    one, neighbour = shells(container), shells(container)
    warden = shells(container, device=None)
    reserve = used(container) // 2
    assert one.status("alloc", 2000 * MIB) == 0
    assert one.status("alloc", 4096) == 0
    return Scene(container, one, neighbour, warden, reserve, reserve + 2002 * MIB)


@pytest.fixture
def scene(make_container, shells) -> Scene:
    return make_scene(make_container(LIMIT), shells)


def test_restore_is_refused_until_it_fits(scene):
    """By a single page; the driver is not asked, which would make the process useless."""
    container, pid = scene.container, scene.pid
    assert each(scene.warden, AWAY, pid) == [0, 0]
    gap = LIMIT * MIB - scene.reserve - scene.held
    assert scene.neighbour.status("alloc", gap // (2 * MIB) * 2 * MIB) == 0
    small = scene.neighbour.made("create", 2 * MIB, 0)
    taken, denied = used(container), container.region().devices[0].denied
    assert [scene.warden.status("restore", pid) for _ in range(3)] == [OUT_OF_MEMORY] * 3
    assert state(scene.warden, pid) == CHECKPOINTED
    found = container.region()
    assert (used(container), found.devices[0].denied) == (taken, denied + 3)
    assert found.reason_bytes == scene.held
    assert scene.neighbour.status("release", small) == 0
    assert each(scene.warden, BACK, pid) == [0, 0]
    assert used(container) == taken - 2 * MIB + scene.held
    assert scene.one.status("free", 0) == 0


def test_what_readers_see_of_it(scene):
    container, pid = scene.container, scene.pid
    assert each(scene.warden, AWAY, pid) == [0, 0]
    found = process_of(container, pid)
    assert (found.suspended, found.used_bytes, found.away_bytes) == (True, (0,), (scene.held,))
    assert container.region().devices[0].parts.contexts_bytes == scene.reserve
    listed = scene.neighbour.line("processes", 0).split()[1:]
    assert [word.split(":")[0] for word in listed] == [str(scene.neighbour.process.pid)]
    assert scene.neighbour("nvml", 0)[2] == scene.reserve
    assert scene.neighbour.free_bytes() == LIMIT * MIB - scene.reserve
    command = [sys.executable, "-m", "hami_interpose"]
    for tool, shown in {
        ("dump",): rf"process {pid}: 0 MiB.*, checkpointed: {scene.held // MIB:,} MiB",
        ("top", "--once", "--interval", "0.1"): rf"{pid}:[^ ,]*\(checkpointed\)",
    }.items():
        shown_by = [*command, *tool, str(container.region_path)]
        done = subprocess.run(shown_by, capture_output=True, text=True, check=True)
        assert re.search(shown, done.stdout), done.stdout
    assert each(scene.warden, BACK, pid) == [0, 0]
    found = process_of(container, pid)
    assert (found.suspended, found.used_bytes, found.away_bytes) == (False, (scene.held,), (0,))


def test_suspended_process_may_become_another_program(scene, shells):
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    assert scene.one.status("fork") == 0  # the child has nothing to do with it
    assert used(scene.container) == scene.reserve
    assert scene.one.line("exec") == "ready\n"
    scene.takes_exactly(scene.room())
    assert scene.one.status("use", 0) == 0
    assert used(scene.container) == 2 * scene.reserve
    assert each(scene.warden, (*AWAY, *BACK), scene.pid) == [0] * 4
    assert used(scene.container) == 2 * scene.reserve


def test_a_process_may_suspend_itself(scene):
    """Refused, it looks for memory that it could give back, but not by calls that would wait for itself."""
    assert scene.one.status("async", 4 * MIB) == 0
    scene = replace(scene, held=scene.held + 4 * MIB)
    assert each(scene.one, AWAY, scene.pid) == [0, 0]
    assert used(scene.container) == scene.reserve
    assert scene.neighbour.status("alloc", scene.room()) == 0
    assert scene.one.status("restore", scene.pid) == OUT_OF_MEMORY
    assert scene.neighbour.status("free", 0) == 0
    assert each(scene.one, BACK, scene.pid) == [0, 0]
    assert used(scene.container) == scene.reserve + scene.held


def test_the_limit_in_force_decides(scene):
    """One that became smaller while the process was away refuses it; then it grows."""
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    limits = scene.container.limits
    small = replace(limits.devices[0], memory_bytes=2000 * MIB, physical_bytes=2000 * MIB)
    scene.container.write_limits(Limits((small,), mode=limits.mode, generation=1))
    time.sleep(0.3)
    assert scene.warden.status("restore", scene.pid) == OUT_OF_MEMORY
    scene.container.write_limits(Limits(limits.devices, mode=limits.mode, generation=2))
    assert each(scene.warden, BACK, scene.pid) == [0, 0]
    assert used(scene.container) == scene.reserve + scene.held


def test_on_two_devices_all_comes_back_or_nothing(make_container, shells):
    container = make_container(LIMIT, LIMIT)
    one, neighbour, warden = shells(container), shells(container, device=1), shells(container, device=None)
    pid = one.process.pid
    assert one.status("alloc", 500 * MIB) == 0
    assert one.status("use", 1) == 0
    assert one.status("alloc", 2000 * MIB) == 0
    before = [used(container, device) for device in (0, 1)]
    assert each(warden, AWAY, pid) == [0, 0]
    assert used(container, 0) == 0
    assert neighbour.status("alloc", 2500 * MIB) == 0
    assert warden.status("restore", pid) == OUT_OF_MEMORY
    assert (used(container, 0), process_of(container, pid).away_bytes[0]) == (0, before[0])
    assert neighbour.status("free", 0) == 0
    assert each(warden, BACK, pid) == [0, 0]
    assert [used(container, device) for device in (0, 1)] == before


def test_what_is_refused_changes_nothing(scene, gpus):
    """By the driver, or because the process would come back on another device: then the driver is not asked."""
    before = used(scene.container)
    assert scene.warden.status("checkpoint", scene.pid) == ILLEGAL_STATE
    assert used(scene.container) == before
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    with sim.State(gpus) as books:
        books.inject(sim.Fault("cuCheckpointProcessRestore", 999, count=1))
    assert scene.warden.status("restore", scene.pid, "elsewhere") == NOT_SUPPORTED
    assert scene.warden.status("restore", scene.pid) == 999
    assert used(scene.container) == scene.reserve
    scene.takes_exactly(scene.room())
    assert each(scene.warden, BACK, scene.pid) == [0, 0]
    assert used(scene.container) == before


def test_outsiders_are_found_out(scene, make_container, shells, wait_until):
    """Somebody without the library, as on the host: too much is counted for a time, and nothing twice."""
    container, pid = scene.container, scene.pid
    before = used(container)
    host = make_container(LIMIT)
    host.bare = True
    outsider = shells(host, device=None)
    assert each(outsider, AWAY, pid) == [0, 0]
    assert used(container) == before  # nobody said so
    assert scene.warden.status("restore", pid) == 0
    assert used(container) == before
    assert scene.warden.status("checkpoint", pid) == 0
    assert used(container) == before - scene.held
    assert each(outsider, BACK, pid) == [0, 0]
    wait_until(lambda: scene.one.status("free", scene.one.made("alloc", 2 * MIB)) or used(container) == before)
    assert each(scene.warden, AWAY, pid) == [0, 0]
    assert outsider.status("restore", pid) == 0
    assert scene.warden.status("unlock", pid) == 0  # so does that
    assert used(container) == before
    assert each(scene.warden, AWAY, pid) == [0, 0]
    assert scene.neighbour.status("alloc", scene.room()) == 0
    assert each(outsider, BACK, pid) == [0, 0]
    assert scene.warden.status("restore", pid) == ILLEGAL_STATE  # so does the next who asks: it is there, room or not
    assert used(container) == before + scene.room()


def test_processes_of_other_containers_are_theirs_to_count(scene, make_container, shells):
    other = make_container(LIMIT)
    warden, before = shells(other, device=None), used(scene.container)
    assert each(warden, AWAY, scene.pid) == [0, 0]
    assert used(scene.container) == before
    assert used(other) == 0
    assert each(warden, BACK, scene.pid) == [0, 0]
    assert used(scene.container) == before


def test_two_who_suspend_and_resume_the_same_process(scene, programs):
    """Whoever is first; the other is told so by the driver."""
    before = used(scene.container)
    rounds = "".join(f"{step} {scene.pid}\n" for _ in range(60) for step in (*AWAY, *BACK))
    racers = [scene.container.start(programs("shell")) for _ in range(2)]
    for racer in racers:
        racer.stdin.write(rounds)
    for racer in racers:
        answers = racer.communicate(timeout=120)[0].split()[1:]
        assert set(answers) <= {"0", str(ILLEGAL_STATE)}
        assert len(answers) == 240
    resume(scene, "after the race")
    assert used(scene.container) == before
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    scene.takes_exactly(scene.room())


def test_launches_of_others_go_on(started, programs, wait_until):
    """A suspended process has launches of its own under way, which wait as all its calls do."""
    container, warden = started(LIMIT, cores=50, device=None)
    works = [container.start(programs("work"), "kernels=a_2ms", "seconds=1000") for _ in range(2)]
    pid = works[0].pid

    def charge_grows(by: int) -> None:
        start = container.region().devices[0].compute.charged
        wait_until(lambda: container.region().devices[0].compute.charged >= start + by, *works)

    charge_grows(100_000_000)
    for _ in range(3):
        assert each(warden, AWAY, pid) == [0, 0]
        assert process_of(container, pid).suspended
        charge_grows(200_000_000)
        assert each(warden, BACK, pid) == [0, 0]
        charge_grows(100_000_000)
    works[1].kill()
    works[1].wait()
    works[:] = works[:1]
    charge_grows(100_000_000)  # the one that was suspended still launches


def test_one_suspends_at_a_time_until_that_process_ends(scene):
    """A process that stops in the middle holds the others up; its end does not."""
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    lock = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, int(sys.argv[2])); "
    first_slot = at.LOCK_SUSPEND
    holder = scene.container.start(
        sys.executable, "-c", lock + "print(flush=True); input()", scene.container.region_path, first_slot
    )
    assert holder.stdout.readline() == "\n"
    answers: list[list[int]] = []
    waiting = threading.Thread(target=lambda: answers.append(each(scene.warden, BACK, scene.pid)))
    waiting.start()
    waiting.join(0.5)
    assert answers == []
    holder.kill()
    holder.wait()
    waiting.join(60)
    assert answers == [[0, 0]]
    assert used(scene.container) == scene.reserve + scene.held


def test_a_program_without_cuda_stays_so(scene):
    """It finds a suspension that was left half done, and cannot ask the driver about it."""
    before = used(scene.container)
    assert each(scene.warden, AWAY, scene.pid) == [0, 0]
    first_slot = at.BLOCK_OFFSET + at.Block.owners.offset
    (owner,) = struct.unpack_from("<Q", scene.container.region_path.read_bytes(), first_slot)
    assert owner >> at.OWNER_STATE_SHIFT == at.SLOT_SUSPENDED
    scene.container.put(first_slot, "<Q", owner ^ (at.SLOT_SUSPENDED ^ at.SLOT_MOVING) << at.OWNER_STATE_SHIFT)
    assert used(scene.container) == before
    script = """
import pynvml as n
n.nvmlInit()
found = n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(0))
print(len(found), "libcuda" in open("/proc/self/maps").read())
"""
    assert scene.container.run(sys.executable, "-c", script) == "2 False\n"
    assert used(scene.container) == before
    assert scene.neighbour.status("alloc", scene.room()) == 0


# ---- killed at every store ----


def resume(scene: Scene, when: str) -> int:
    """Brings the process back, from however far its suspension came; returns that."""
    now = state(scene.warden, scene.pid)
    steps = {RUNNING: (), LOCKED: ("unlock",), CHECKPOINTED: BACK}[now]
    assert each(scene.warden, steps, scene.pid) == [0] * len(steps), when
    return now


def kill_and_replace(scene: Scene, shells: Any, when: str) -> None:
    """Nothing of it stays; another takes its place."""
    if scene.one.process.poll() is None:
        scene.one.kill()
    scene.takes_exactly(scene.room(), when)
    assert used(scene.container) == scene.reserve, when
    scene.one = shells(scene.container)
    assert scene.one.status("alloc", 2000 * MIB) == scene.one.status("alloc", 4096) == 0, when


@pytest.mark.timeout(600)
def test_warden_killed_at_each_store_is_found_out(scene, killed_at_each_store):
    """The next who needs room finds out how far it came; the suspended process lives on."""
    before, found = used(scene.container), []
    rest = (LIMIT * MIB - before) // (2 * MIB) * 2 * MIB
    steps = (f"{step} {scene.pid}" for step in (*AWAY, *BACK))
    for point, _ in enumerate(killed_at_each_store(scene.container, *steps, least=15), 1):
        when = f"killed at point {point}"
        away = state(scene.warden, scene.pid) == CHECKPOINTED
        scene.takes_exactly(scene.room() if away else rest, when)
        assert used(scene.container) == (scene.reserve if away else before), when
        found.append(resume(scene, when))
        assert used(scene.container) == before, when
        status, thing = scene.one("alloc", 2 * MIB)
        assert (status, scene.one.status("free", thing)) == (0, 0), when
    assert set(found[:-1]) == {LOCKED, CHECKPOINTED}  # locking and unlocking store nothing


@pytest.mark.timeout(600)
def test_both_killed_at_each_store_leave_nothing(scene, shells, killed_at_each_store):
    """The suspended process dies with the one who is at it."""
    steps = (f"{step} {{pid}}" for step in (*AWAY, *BACK))
    wardens = killed_at_each_store(scene.container, *steps, least=15, values=lambda: {"pid": scene.pid})
    for point, _ in enumerate(wardens, 1):
        kill_and_replace(scene, shells, f"killed at point {point}")


@pytest.mark.timeout(600)
def test_who_puts_it_right_killed_at_each_store(scene, killed_at_each_store):
    """Whoever comes next to a half-suspended process, or to one that died so, and dies at that itself."""
    container, before = scene.container, used(scene.container)
    away, back = ([f"{step} {scene.pid}" for step in steps] for steps in (AWAY, BACK))
    points = sum(1 for _ in killed_at_each_store(container, *away, before=lambda n: resume(scene, f"before {n}")))
    resume(scene, "after the last")
    for first in range(max(1, points - 6), points):  # around the store that changes the state

        def leave_half(_: int, at: int = first) -> None:
            list(killed_at_each_store(container, *away, points=[at]))

        rescuers = killed_at_each_store(container, *back, before=leave_half, least=5)
        for point, _ in enumerate(rescuers, 1):
            when = f"killed at {first}, then at {point}"
            resume(scene, when)
            scene.takes_exactly((LIMIT * MIB - before) // (2 * MIB) * 2 * MIB, when)
            assert used(container) == before, when


@pytest.mark.timeout(600)
def test_cleaner_of_a_suspended_one_killed_at_each_store(scene, shells, killed_at_each_store):
    def kill_away(_: int) -> None:
        assert each(scene.warden, AWAY, scene.pid) == [0, 0]
        scene.one.kill()

    cleaners = killed_at_each_store(scene.container, "use 0", "processes 0", before=kill_away, least=20)
    for point, _ in enumerate(cleaners, 1):
        kill_and_replace(scene, shells, f"killed at point {point}")
