"""What a process leaves in the region that has ended, and whom the next one takes for dead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hami_interpose import _region_layout as at

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
PAGES = 1000
NOBODY = 1 << at.OWNER_PID_BITS | 0x3FFFFF  # start time 1, a pid that no machine reaches
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino
STATES = {"claimed": at.SLOT_CLAIMED, "counted": at.SLOT_COUNTED, "moving": at.SLOT_MOVING, "away": at.SLOT_SUSPENDED}


def leave(container, owner, *, namespace=NAMESPACE, locked=1):
    """Writes a process into the first slot, with pages of the first device and a share that it alone holds."""
    content = bytearray(container.region_path.read_bytes())
    at.V1.from_buffer(content).process_num = 1
    block = at.Block.from_buffer(content, at.BLOCK_OFFSET)
    block.owners[0], block.held[0][0] = owner, PAGES
    block.slots[0] = at.Slot(pid_namespace=namespace, locked=locked)
    block.shares_used, block.shares[0].word, block.shares[0].identity, block.shares[0].holders[0] = 1, PAGES, 7, 1
    container.region_path.write_bytes(content)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("namespace", [NAMESPACE, 1], ids=["ours", "another"])
def test_what_the_dead_left_counts_no_more(make_container, shells, state, namespace):
    container = make_container(4000)
    leave(container, STATES[state] << at.OWNER_STATE_SHIFT | NOBODY, namespace=namespace)
    found = container.region()
    assert (found.processes, found.devices[0].used_bytes) == ((), 0), "whoever only reads knows as well"
    shell = shells(container)
    found = container.region()
    assert [process.pid for process in found.processes] == [shell.process.pid]
    assert found.devices[0].used_bytes == found.devices[0].context_bytes


def test_what_was_never_locked_in_another_namespace_counts_on(make_container, shells):
    """Nothing tells whether its process lives: what cannot be read denies."""
    container = make_container(4000)
    leave(container, at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | NOBODY, namespace=1, locked=0)
    shell = shells(container)
    used = container.region().devices[0].context_bytes + 2 * PAGES * 4096
    assert shell.free_bytes() == 4000 * MIB - used
    assert container.region().devices[0].used_bytes == used


def test_a_recycled_pid_is_another_process(make_container, shells):
    """A slot of a living process's pid but another start time belonged to somebody else, who is gone."""
    container = make_container(4000)
    leave(container, at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | 1 << at.OWNER_PID_BITS | os.getpid(), locked=0)
    shells(container)
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
        assert process.stdout.readline() == "0\n"
        assert process.stdout.readline() == "0 0\n"
        shells(container)
        assert {one.pid for one in container.region().processes} >= {process.pid}
        assert container.region().devices[0].used_bytes > 1000 * MIB
    finally:
        process.kill()
        process.communicate()
