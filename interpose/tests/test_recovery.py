"""What a process leaves behind that died between any two of its stores, and that somebody else cleans up."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from hami_interpose import region

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
DEAD = (1 << 22) | 4194303  # start time 1, a pid that no machine reaches
SEQUENCE = 9
SLOT, CELL = 0, 2
COUNTER = region.BLOCK_OFFSET + 4096
SLOTS = COUNTER + 32 * 256
SLOT_SIZE = 64 + 32 * 5 * 32
KEEPER = SLOTS + SLOT * SLOT_SIZE + 56
IDLE, PENDING, APPLIED = 0, 1, 2
OURS = SLOT << 19 | CELL << 16 | SEQUENCE
OTHERS = 5 << 19 | 1 << 16 | 3
SEEN, NOTED = COUNTER + 16 + 4 * (SLOT + 3 * CELL), 1 << 31


def leave(container, *, phase=IDLE, amount=0, total=0, counter, tag=OTHERS, noted=0, sweeper=0, locked=0, totals=()):
    """Writes what a dead process left: one cell of device 0, or all of them, and the device's counter (in pages)."""
    content = bytearray(container.region_path.read_bytes())
    struct.pack_into("<i", content, 2008896, 1)  # one slot was used
    struct.pack_into("<i", content, 1856, 4194303)
    struct.pack_into("<QQQQQ", content, SLOTS + SLOT * SLOT_SIZE, DEAD, sweeper, 0, 0, locked)
    cell = SLOTS + SLOT * SLOT_SIZE + 64 + CELL * 32
    struct.pack_into("<Qqqq", content, cell, SEQUENCE << 16 | phase, amount, total, 77777)
    for index, pages in enumerate(totals):
        struct.pack_into("<Qqqq", content, cell + (index - CELL) * 32, SEQUENCE << 16, 0, pages, 77777)
    struct.pack_into("<Q", content, COUNTER, counter << 29 | tag)
    struct.pack_into("<I", content, SEEN, noted)
    container.region_path.write_bytes(content)


CASES = {
    "nothing under way": {"phase": IDLE, "amount": 50, "total": 1000, "counter": 1000, "tag": OTHERS},
    "intent, counter not changed": {"phase": PENDING, "amount": 50, "total": 1000, "counter": 1000, "tag": OTHERS},
    "intent, counter changed": {"phase": PENDING, "amount": 50, "total": 1000, "counter": 1050, "tag": OURS},
    "intent, changed, acknowledged": {"phase": APPLIED, "amount": 50, "total": 1000, "counter": 1050, "tag": OTHERS},
    "intent, changed, noted": {
        "phase": PENDING,
        "amount": 50,
        "total": 1000,
        "counter": 1050,
        "tag": OTHERS,
        "noted": NOTED | OURS,
    },
    "intent, an older change of its own noted": {
        "phase": PENDING,
        "amount": 50,
        "total": 1000,
        "counter": 1000,
        "tag": OTHERS,
        "noted": NOTED | OURS - 1,
    },
    "intent, an older change of its own": {
        "phase": PENDING,
        "amount": 50,
        "total": 1000,
        "counter": 1000,
        "tag": OURS - 1,
    },
    "giving back, counter not changed": {
        "phase": PENDING,
        "amount": -999,
        "total": 1000,
        "counter": 1000,
        "tag": OTHERS,
    },
    "giving back, counter changed": {"phase": PENDING, "amount": -999, "total": 1000, "counter": 1, "tag": OURS},
    "its sweeper died too": {
        "phase": PENDING,
        "amount": -1000,
        "total": 1000,
        "counter": 0,
        "tag": OURS,
        "sweeper": DEAD + 1,
    },
    "one thread took what others gave back": {"totals": [1500, -600, 0, -200], "counter": 700},
    "all of it was away": {"totals": [1500, -600, 0, -200, -700], "counter": 0},
    "a part of it was away": {"totals": [1500, -600, 0, -200, -300], "counter": 400},
    "several took, one gave back": {"totals": [-90000, 40000, 30000, 30000], "counter": 10000},
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_dead_left_is_taken_off_exactly(make_container, shells, name):
    container = make_container(4000)
    leave(container, locked=1, **CASES[name])
    found = container.region()
    assert (found.processes, found.devices[0].used_bytes) == ((), 0), "whoever only reads knows as well"
    shell = shells(container)
    found = container.region()
    assert [process.pid for process in found.processes] == [shell.process.pid]
    assert found.devices[0].used_bytes == found.devices[0].context_bytes


def test_one_that_somebody_resumes_is_left_to_him_for_as_long_as_he_lives(make_container, shells):
    """Both would write the same cell."""
    container = make_container(4000)
    leave(container, totals=[1500, -600, 0, -200, -300], counter=400)
    other = shells(container, device=None)
    fields = Path(f"/proc/{other.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    with container.region_path.open("r+b") as file:
        file.seek(KEEPER)
        file.write(struct.pack("<Q", int(fields[19]) << 22 | other.process.pid))
    shell = shells(container)
    reserve = container.region().devices[0].context_bytes
    room = (4000 * MIB - reserve) // (2 * MIB) * 2 * MIB
    assert shell.status("alloc", room) == 2
    assert container.region().devices[0].used_bytes == reserve + 400 * 4096
    other.process.kill()
    other.process.wait()
    assert shell.status("alloc", room) == 0
    assert container.region().devices[0].used_bytes == reserve + room


@pytest.mark.here_only("the build with fault points is this machine's")
def test_cleaners_killed_at_every_store_take_no_more_than_that(make_container, build_preset, shells, programs):
    """Cells that only together say what the dead held."""
    container = make_container(4000)
    container.variables["LD_PRELOAD"] = str(build_preset("faults"))
    fresh = container.region_path.read_bytes()
    for point in itertools.count(1):
        container.region_path.write_bytes(fresh)
        leave(container, totals=[1500, -600, 0, -200], counter=700)
        container.variables["HAMI_FAULT_AT"] = str(point)
        cleaner = container.start(programs("shell"))
        cleaner.communicate("use 0", timeout=60)
        del container.variables["HAMI_FAULT_AT"]
        if cleaner.returncode == 0:
            break
        shell = shells(container)
        reserve = container.region().devices[0].context_bytes
        room = (4000 * MIB - reserve) // (2 * MIB) * 2 * MIB
        assert shell.status("alloc", room) == 0, f"killed at point {point}"
        assert container.region().devices[0].used_bytes == reserve + room, f"killed at point {point}"
        shell.process.kill()
        shell.process.wait()
    assert point > 20


def test_a_recycled_pid_is_another_process(make_container, shells):
    """A slot of our own pid but another start time belonged to somebody else, who is gone."""
    container = make_container(4000)
    first = shells(container, device=None)
    content = bytearray(container.region_path.read_bytes())
    struct.pack_into("<i", content, 2008896, 1)
    struct.pack_into("<Q", content, SLOTS, (1 << 22) | first.process.pid)
    struct.pack_into("<Qqqq", content, SLOTS + 64, 0, 0, 1000, 0)
    struct.pack_into("<Q", content, COUNTER, 1000 << 29 | OTHERS)
    with container.region_path.open("r+b") as file:
        file.write(content)
    assert first.status("use", 0) == 0
    found = container.region()
    assert found.devices[0].used_bytes == found.devices[0].context_bytes


@pytest.mark.parametrize("name", ["a Xb", ") Z 1 (", "((", "x) R 1 1 1"])
def test_names_of_processes_do_not_matter(make_container, shells, programs, name, tmp_path):
    """The second field of /proc/PID/stat may hold blanks and parentheses: the process still lives."""
    container = make_container(4000)
    odd = tmp_path / name
    odd.write_bytes(programs("shell").read_bytes())
    odd.chmod(0o755)
    process = container.start(odd)
    try:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write(f"use 0\nalloc {1000 * MIB}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n"
        assert process.stdout.readline() == "0 0\n"
        shells(container)
        assert {one.pid for one in container.region().processes} >= {process.pid}
        assert container.region().devices[0].used_bytes > 1000 * MIB
    finally:
        process.kill()
        process.communicate()
