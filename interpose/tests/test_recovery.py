"""Which processes a region takes for dead, and that nothing of theirs counts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hami_interpose import _region_layout as at

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
PAGES = 1000


def leave(container, pid, namespace, start=1):
    """Writes a process that never locked its slot into the first one, with pages of the first device."""
    owner = at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | start << at.OWNER_PID_BITS | pid
    content = bytearray(container.region_path.read_bytes())
    at.V1.from_buffer(content).process_num = 1
    block = at.Block.from_buffer(content, at.BLOCK_OFFSET)
    block.owners[0], block.held[0][0] = owner, PAGES
    block.slots[0] = at.Slot(pid_namespace=namespace)
    container.region_path.write_bytes(content)


@pytest.mark.here_only("qemu-user is not pid 1 of a namespace")
def test_dead_process_of_another_namespace_counts_no_more(make_container, shells, in_pid_namespace):
    """Its pid means nothing here: the lock of its slot tells that it is dead."""
    container = make_container(4000)
    pid, victim = in_pid_namespace(container)
    assert victim.status("alloc", 3000 * MIB) == 0
    shell = shells(container)
    assert shell.status("alloc", 3000 * MIB) != 0
    os.kill(pid, signal.SIGKILL)
    victim.process.wait()
    assert shell.status("alloc", 3000 * MIB) == 0
    assert [process.pid for process in container.region().processes] == [shell.process.pid]


def test_unlocked_slot_of_another_namespace_counts_on(make_container, shells):
    """Nothing tells whether its process lives: what cannot be read denies."""
    container = make_container(4000)
    leave(container, 0x3FFFFF, namespace=1)
    shell = shells(container)
    used = container.region().devices[0].context_bytes + PAGES * 4096
    assert shell.free_bytes() == 4000 * MIB - used
    assert container.region().devices[0].used_bytes == used


def test_recycled_pid_is_another_process(make_container, shells):
    """This process has the pid of the slot and another start time: the process of the slot is gone."""
    container = make_container(4000)
    leave(container, os.getpid(), namespace=Path("/proc/self/ns/pid").stat().st_ino)
    shells(container)
    found = container.region()
    assert found.devices[0].used_bytes == found.devices[0].context_bytes


@pytest.mark.parametrize("name", ["a Xb", ") Z 1 (", "((", "x) R 1 1 1"])
def test_process_of_an_odd_name_is_seen_alive(make_container, shells, programs, name, tmp_path):
    """The second field of /proc/PID/stat may hold blanks and parentheses."""
    container = make_container(4000)
    odd = tmp_path / name
    odd.write_bytes(programs("shell").read_bytes())
    odd.chmod(0o755)
    process = container.start(odd)
    for command, answer in (("", "ready\n"), ("use 0\n", "0\n"), (f"alloc {1000 * MIB}\n", "0 0\n")):
        process.stdin.write(command)
        assert process.stdout.readline() == answer
    shells(container)
    assert {one.pid for one in container.region().processes} >= {process.pid}
    assert container.region().devices[0].used_bytes > 1000 * MIB
