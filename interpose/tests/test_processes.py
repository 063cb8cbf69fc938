"""What NVML tells about processes: a container finds its own, by their pids inside, and nothing of its neighbours."""

from __future__ import annotations

import os
import struct
from dataclasses import replace

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, INVALID_ARGUMENT, VERSION_MISMATCH = 3, 6, 7, 2, 25
INFOS, DETAILS = 1 << 24 | 24, 1 << 24 | 24  # versions: the structures' sizes and numbers
COMPUTE, GRAPHICS, MPS = range(3)
PID_BASE = 10_000_000  # beyond what Linux gives
LISTS = {
    "samples": ("", NOT_FOUND),
    "infos": (INFOS, NOT_FOUND),
    "details": (f"{DETAILS} {COMPUTE}", 0),
    "pids": ("", 0),
}  # command → its arguments, and the answer where there is no process


class Asker:
    """A shell that asks NVML about processes."""

    def __init__(self, shell) -> None:
        self.shell, self.process, self.line = shell, shell.process, shell.line
        self.pid: int = shell.process.pid

    def __call__(self, *command: object) -> list[int]:
        return self.shell(*command)

    def list(self, what: str, room: int | str = 64) -> tuple[int, int, list[int]]:
        """Status, number, and the pids in order, of one of LISTS."""
        status, count, *entries = self.line(what, room, LISTS[what][0]).split()
        return int(status), int(count), [int(entry.partition(":")[0]) for entry in entries]

    def pids(self, what: str) -> list[int]:
        status, count, pids = self.list(what)
        assert (status, count) == (0 if pids else LISTS[what][1], len(pids))
        return sorted(pids)


@pytest.fixture
def start(shells):
    """Starts askers in a container; they end with the test."""

    def started(container, *, uses: int = 0) -> Asker:
        asker = Asker(shells(container, device=0 if uses else None))
        assert not uses or asker.shell.status("alloc", uses) == 0
        return asker

    return started


@pytest.fixture
def containers(make_container, start):
    """Two containers on one card, with two processes and one, accounting turned on, and one who sees the whole card."""
    ours, theirs = make_container(4000), make_container(8000)
    host = replace(theirs, bare=True, processes=[])
    agent = start(host)
    assert agent("set_accounting", "null", 1) == [0]
    yield ours, [start(ours, uses=100 * MIB), start(ours, uses=300 * MIB)], start(theirs, uses=500 * MIB), agent
    host.stop()


@pytest.mark.parametrize("what", LISTS)
def test_container_finds_its_own_processes_alone(containers, make_container, start, what):
    """Whether the asking process uses the card or not. Two processes need room for two, though the card has three."""
    ours, (first, second), other, agent = containers
    own = sorted([first.pid, second.pid])
    assert agent.pids(what) == sorted([*own, other.pid])
    for asker in (first, second, start(ours)):
        assert asker.pids(what) == own
    for room in ("null", 0, 1):
        assert first.list(what, room) == (INSUFFICIENT_SIZE, 2, [])
    assert sorted(first.list(what, 2)[2]) == own
    assert other.list(what, 1) == (0, 1, [other.pid])
    stranger = start(make_container(1000))
    for room in (64, "null"):
        assert stranger.list(what, room) == (LISTS[what][1], 0, [])


@pytest.mark.parametrize("what", LISTS)
def test_process_that_ends_is_found_no_more(containers, what):
    _, (first, second), _, _ = containers
    second.shell.kill()
    assert first.pids(what) == [first.pid]
    assert first.line("stats", "null", second.pid) == f"{NOT_FOUND} -\n"


def test_memory_of_processes_is_that_of_the_region(containers):
    ours, (first, second), _, _ = containers
    found = dict(map(int, entry.split(":")) for entry in first.line("details", 64, DETAILS, COMPUTE).split()[2:])
    assert found == {process.pid: process.used_bytes[0] for process in ours.region().processes}
    assert found[second.pid] - found[first.pid] == 200 * MIB


def test_bad_request_gets_the_answer_of_the_driver(containers):
    _, (asker, _), _, agent = containers
    wrong = {
        ("details", 64, DETAILS, 7): INVALID_ARGUMENT,
        ("details", 64, DETAILS + 1, COMPUTE): VERSION_MISMATCH,
        ("details", 64, 2 << 24 | 24, COMPUTE): VERSION_MISMATCH,
        ("infos", 64, 0): VERSION_MISMATCH,
        ("infos", 64, 0xFFFFFFFF): VERSION_MISMATCH,
        ("name", "null", asker.pid, 0): INVALID_ARGUMENT,
    }
    for command, status in wrong.items():
        assert asker.line(*command).split()[0] == agent.line(*command).split()[0] == str(status)
    for mode in (GRAPHICS, MPS):
        assert asker.line("details", 64, DETAILS, mode) == "0 0\n"


def test_utilization_is_that_of_the_driver(containers):
    _, (asker, idle), other, agent = containers
    for who in (asker, other):
        assert who("run", 900_000) == [0]  # milliseconds: longer than the test

    def shares(who: Asker, what: str) -> dict[int, int]:
        return dict(map(int, entry.split(":")) for entry in who.line(what, 64, LISTS[what][0]).split()[2:])

    for what in ("samples", "infos"):
        while min(shares(agent, what)[who.pid] for who in (asker, other)) < 40:  # until the window is of work alone
            pass
        seen = shares(idle, what)
        assert seen.keys() == {asker.pid, idle.pid}
        assert seen[asker.pid] >= 30
        assert seen[idle.pid] == 0


@pytest.mark.parametrize("what", ["stats", "stats_v2"])
def test_accounts_are_those_of_the_container(containers, what):
    _, (first, second), other, agent = containers
    for pid in (first.pid, second.pid, other.pid):
        assert agent.line(what, "null", pid).startswith("0 1 ")
    for pid in (first.pid, second.pid):
        assert first.line(what, "null", pid) == agent.line(what, "null", pid)
    assert other.line(what, "null", other.pid) == agent.line(what, "null", other.pid)
    for pid in (other.pid, agent.pid, os.getpid(), 0, 1, 0xFFFFFFFF):
        assert first.line(what, "null", pid) == f"{NOT_FOUND} -\n"


def test_accounting_is_on_or_off_for_all(containers):
    _, (asker, _), _, agent = containers
    for who in (asker, agent):
        assert who("accounting") == [0, 1]
        assert who("buffer") == agent("buffer")
    assert agent("set_accounting", "null", 0) == [0]
    assert asker("accounting") == [0, 0]
    assert asker.list("pids") == (NOT_SUPPORTED, 64, [])
    for what in ("stats", "stats_v2"):
        for pid in (asker.pid, 1):
            assert asker.line(what, "null", pid) == f"{NOT_SUPPORTED} -\n"


def test_names_are_told_of_the_container_alone(containers, programs):
    _, (first, second), other, agent = containers
    name = str(programs("shell"))[:30]
    for pid in (first.pid, second.pid):
        assert first.line("name", "null", pid, 31) == f"0 {name}\n"
    assert agent.line("name", "null", other.pid, 31) == f"0 {name}\n"
    for pid in (other.pid, os.getpid(), 1, 0xFFFFFFFF):
        assert first.line("name", "null", pid, 31) == f"{NOT_FOUND} -\n"


def slot_at(container, pid: int) -> int:
    """Where the v1 layout has the slot of a process."""
    content = container.region_path.read_bytes()
    slots = range(1856, 1856 + 1960 * 1024, 1960)
    return next(slot for slot in slots if struct.unpack_from("<i", content, slot)[0] == pid)


def name_host_pid(container, pid: int) -> None:
    """Writes what a process is called outside, as an agent that sees both does."""
    container.put(slot_at(container, pid) + 4, "<i", pid + PID_BASE)


@pytest.fixture
def old_driver(monkeypatch):
    """NVML tells the host's pids, whoever asks."""
    monkeypatch.setenv("HAMI_SIM_NVML_PID_BASE", str(PID_BASE))


def test_host_pids_of_nvml_are_told_by_the_slots(old_driver, containers):
    """A process whose host's pid nobody knows is left out; one whose is known is found by its own."""
    ours, (first, second), other, agent = containers
    found = [[]]
    for asker in (second, first):
        for what in ("samples", "infos", "pids"):
            assert agent.pids(what) == sorted(PID_BASE + one.pid for one in (first, second, other))
            assert first.list(what)[::2] == (0 if found[-1] else LISTS[what][1], found[-1])
            assert other.pids(what) == []
        name_host_pid(ours, asker.pid)
        found.append([*found[-1], asker.pid])
        assert first.pids("pids") == sorted(found[-1])
    assert first.pids("details") == sorted(found[-1]), "which needs no driver for pids"


@pytest.mark.parametrize("what", ["stats", "stats_v2"])
def test_accounts_where_nvml_tells_the_hosts_pids(old_driver, containers, what):
    ours, (first, second), other, agent = containers
    name_host_pid(ours, second.pid)
    assert first.line(what, "null", second.pid) == agent.line(what, "null", second.pid + PID_BASE)
    for pid in (first.pid, other.pid, *(PID_BASE + asker.pid for asker in (first, second, other))):
        assert first.line(what, "null", pid) == f"{NOT_FOUND} -\n"


def test_next_process_in_a_slot_has_no_host_pid(containers, start):
    ours, (first, second), _, _ = containers
    slot = slot_at(ours, second.pid)
    name_host_pid(ours, second.pid)
    second.shell.kill()
    assert first.pids("details") == [first.pid]
    heir = start(ours, uses=10 * MIB)
    assert slot_at(ours, heir.pid) == slot
    assert struct.unpack_from("<ii", ours.region_path.read_bytes(), slot) == (heir.pid, 0)


def test_memory_under_confidential_computing_is_the_slice(make_container, start, monkeypatch):
    container = make_container(4000)
    asker = start(container, uses=100 * MIB)
    assert asker("protected")[0] == NOT_SUPPORTED
    monkeypatch.setenv("HAMI_SIM_CONFIDENTIAL", "1")
    used = container.region().devices[0].used_bytes
    assert start(container)("protected") == [0, 4000 * MIB, used, 4000 * MIB - used]
