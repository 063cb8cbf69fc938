"""Processes of a region, found from outside by their locks."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hami_interpose import _region_layout as at
from hami_interpose import host_pids, region

MIB = 1 << 20


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def opened():
    """Opens files; they are closed with the test."""
    files = []

    def open_(path: Path) -> int:
        files.append(path.open("r+b", buffering=0))
        return files[-1].fileno()

    yield open_
    for file in files:
        file.close()


def test_lock_tells_which_process_has_a_slot(make_container, in_pid_namespace, opened):
    for container in [make_container(4000), make_container(4000)]:
        pid, _ = in_pid_namespace(container)
        fd = opened(container.region_path)
        assert host_pids.shown(fd) == [host_pids.Shown(0, 1, 0)]
        assert host_pids.claim(fd, 0) == host_pids.Claim(0, 1, start_time(pid))
        assert host_pids.holder(fd, 0) == pid
        os.pwrite(fd, *reversed(host_pids.host_pid(0, pid)))
        assert host_pids.shown(fd) == [host_pids.Shown(0, 1, pid)]


def test_slot_of_a_process_that_is_gone_has_no_holder(make_container, shells, opened):
    container = make_container(4000)
    one, other = shells(container), shells(container)
    fd = opened(container.region_path)
    pids = [shell.process.pid for shell in (one, other)]
    assert [host_pids.holder(fd, slot) for slot in range(3)] == [*pids, None]
    one.kill()
    assert [host_pids.holder(fd, slot) for slot in range(3)] == [None, pids[1], None]
    assert other.status("alloc", MIB) == 0
    assert container.region().processes[0].pid == pids[1]


def test_slot_whose_parts_disagree_has_no_holder(make_container, shells, opened):
    container = make_container(4000)
    shells(container)
    fd = opened(container.region_path)
    os.pwrite(fd, struct.pack("<i", 1), at.V1.processes.offset)
    assert host_pids.shown(fd) == [host_pids.Shown(0, 1, 0)]
    assert host_pids.claim(fd, 0) is None


@pytest.mark.parametrize("number", [-1, 1024, 1025, 2**31 - 1])
def test_number_of_slots_out_of_range_is_bounded(make_container, opened, number):
    container = make_container(4000)
    fd = opened(container.region_path)
    os.pwrite(fd, struct.pack("<i", number), at.V1.process_num.offset)
    os.pwrite(fd, struct.pack("<i", 7), 1856 + 1023 * 1960)
    assert host_pids.shown(fd) == [host_pids.Shown(1023, 7, 0)]


@pytest.mark.parametrize("size", [0, 1856, 1856 + 1960 * 3 + 1, at.V1.process_num.offset + 3, region.REGION_SIZE - 1])
def test_file_that_is_cut_short_is_read_as_far_as_it_goes(make_container, opened, size):
    container = make_container(4000)
    fd = opened(container.region_path)
    os.pwrite(fd, struct.pack("<i", 1024), at.V1.process_num.offset)
    os.pwrite(fd, struct.pack("<i", 7), at.V1.processes.offset)
    os.ftruncate(fd, size)
    assert host_pids.shown(fd) == ([host_pids.Shown(0, 7, 0)] if size == region.REGION_SIZE - 1 else [])
    assert host_pids.claim(fd, 1023) is None
