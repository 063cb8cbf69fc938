"""The region: the same bytes for C, for Python and for HAMi's monitor; anything else is refused and named."""

from __future__ import annotations

import ctypes
import json
import random
import struct
import time
from pathlib import Path

import hami_interpose
import pytest
from hami_interpose import _region_layout as at
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits

pytestmark = pytest.mark.each_machine

DATA = Path(__file__).resolve().parent / "data"
MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMITS = Limits((DeviceLimit("GPU-1", 100 * MIB, 50 * MIB, 30), DeviceLimit("GPU-2", 0, 0)), generation=9, priority=0)
FRESH = region.initial(LIMITS)

# Our names of HAMi-core's structures and fields, by its own.
STRUCTURES = {
    "region": at.V1,
    "procSlot": at.V1Process,
    "deviceMemory": at.V1Memory,
    "deviceUtilization": at.V1Utilization,
}
FIELDS = {
    "region": "initializedFlag=initialized majorVersion=major minorVersion=minor smInitFlag=sm_init "
    "ownerPid=owner_pid sem=sem num=device_num uuids=uuids limit=limit smLimit=sm_limit procs=processes "
    "procnum=process_num utilizationSwitch=utilization_switch recentKernel=recent_kernel priority=priority "
    "lastKernelTime=last_kernel_time unused=sem_postinit",
    "procSlot": "pid=pid hostpid=host_pid used=used monitorused=monitor_used deviceUtil=utilization status=status",
    "deviceMemory": "contextSize=context moduleSize=module bufferSize=data offset=offset total=total",
    "deviceUtilization": "decUtil=decoder encUtil=encoder smUtil=sm",
}


@pytest.mark.parametrize("part", STRUCTURES)
def test_v1_layout_is_that_of_the_vectors(part):
    vector = json.loads((DATA / "shared_region.json").read_text())["v1"][part]
    expected = {name: place for name, place in vector["fields"].items() if name != "unused" or part == "region"}
    names = dict(pair.split("=") for pair in FIELDS[part].split())
    fields = {theirs: getattr(STRUCTURES[part], ours) for theirs, ours in names.items()}
    assert {name: [field.offset, field.size] for name, field in fields.items()} == expected
    assert ctypes.sizeof(STRUCTURES[part]) == vector["size"]


def test_fresh_region_reads_back(tmp_path):
    path = tmp_path / "vgpu.cache"
    path.write_bytes(FRESH)
    found = region.read(path)
    assert [(d.uuid, d.limit_bytes, d.cores, d.used_bytes) for d in found.devices] == [
        ("GPU-1", 100 * MIB, 30, 0),
        ("GPU-2", 0, 0, 0),
    ]
    assert (found.generation, found.processes, found.reason) == (9, (), "")
    with path.open("rb") as file:
        assert region.read(file.fileno()) == found


def test_hamis_monitor_and_we_read_the_same_use(started):
    """HAMi's monitor reads the v1 part by its offsets alone."""
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 10 * MIB) == 0
    assert shell.status("alloc", 5000 * MIB) == OUT_OF_MEMORY
    found = container.region()
    reserve, used = found.devices[0].context_bytes, found.devices[0].context_bytes + 10 * MIB
    [process] = found.processes
    assert (process.pid, process.used_bytes) == (shell.process.pid, (used, 0))
    assert [(d.used_bytes, d.peak_bytes, d.denied) for d in found.devices] == [(used, used, 1), (0, 0, 0)]
    assert (found.reason, found.reason_device, found.reason_bytes) == (region.REASONS[1], 0, 5000 * MIB)
    assert found.build == hami_interpose.build_id()
    content = container.region_path.read_bytes()
    assert struct.unpack_from("<iII", content, 0) == (19920718, 1, 2)
    assert struct.unpack_from("<Q", content, 56) == (2,)
    assert struct.unpack_from("<2Q", content, 1600) == (4000 * MIB, 3000 * MIB)
    slots = range(1856, 1856 + 1960 * struct.unpack_from("<i", content, 2008896)[0], 1960)
    [slot] = [at for at in slots if struct.unpack_from("<i", content, at)[0] == shell.process.pid]
    assert struct.unpack_from("<5Q", content, slot + 8) == (reserve, 0, 10 * MIB, 0, used)
    assert struct.unpack_from("<i", content, slot + 1928) == (1,)


def test_heartbeat_goes_on_while_a_process_works(started, wait_until):
    container, shell = started(4000)
    long_ago = 1_000_000_000
    container.put(region.BLOCK_OFFSET + at.Block.heartbeat.offset, "<Q", long_ago)
    assert container.region().heartbeat == long_ago
    before = int(time.time())
    wait_until(lambda: shell.status("free", shell.made("alloc", 2 * MIB)) or container.region().heartbeat != long_ago)
    assert before <= container.region().heartbeat <= time.time()


def test_memory_is_told_by_contexts_modules_and_buffers(make_container, shells):
    """Contexts, code and buffers of all processes, as HAMi's monitor finds them in the v1 part."""
    container = make_container(4000, 3000)
    first, second = shells(container), shells(container)
    module = first("image", 50 * MIB)[1]
    assert second.status("image", 20 * MIB) == 0
    assert first.status("alloc", 10 * MIB) == 0
    device, other = container.region().devices
    reserve = device.context_bytes
    assert device.parts == region.MemoryParts(2 * reserve, 70 * MIB, 10 * MIB)
    assert device.used_bytes == 2 * reserve + 80 * MIB
    assert other.parts == region.MemoryParts(0, 0, 0)
    assert first.status("unload", module) == 0
    assert container.region().devices[0].parts == region.MemoryParts(2 * reserve, 20 * MIB, 10 * MIB)
    second.kill()
    assert container.region().devices[0].parts == region.MemoryParts(reserve, 0, 10 * MIB)


def test_parts_of_memory_sum_up_whatever_is_written_there(tmp_path):
    """The columns of the v1 part are the container's to write."""
    path, content = tmp_path / "vgpu.cache", bytearray(FRESH)
    owner = at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | 77 << at.OWNER_PID_BITS | 5
    struct.pack_into("<i", content, at.V1.process_num.offset, 1)
    struct.pack_into("<Q", content, at.BLOCK_OFFSET + at.Block.owners.offset, owner)
    for columns in ((1 << 62, 1 << 62, 1), (-5, -6, -7), (0, 1 << 62, 0)):
        struct.pack_into("<3q", content, at.V1.processes.offset + at.V1Process.used.offset, *columns)
        for pages in (0, 100):
            struct.pack_into("<Q", content, at.BLOCK_OFFSET + at.Block.held.offset, pages)
            path.write_bytes(content)
            device = region.read(path).devices[0]
            found = (device.parts.contexts_bytes, device.parts.modules_bytes, device.parts.buffers_bytes)
            assert device.used_bytes == sum(found) == pages * 4096, columns
            assert min(found) >= 0, columns


@pytest.mark.parametrize("number", [-1, 1025, 1 << 30])
def test_senseless_number_of_slots_hides_no_process(started, number):
    container, shell = started(4000)
    container.put(at.V1.process_num.offset, "<i", number)
    assert [process.pid for process in container.region().processes] == [shell.process.pid]


def test_reading_costs_what_is_in_use(started):
    """Of 7 MiB a container with one process needs some 30 KiB; a node agent reads hundreds of them."""
    container, shell = started(4000)

    def read_so_far() -> int:
        fields = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
        return int(fields["rchar"])

    before = read_so_far()
    found = container.region()
    assert read_so_far() - before < 64 << 10
    assert [process.pid for process in found.processes] == [shell.process.pid]


def damage(content: bytes, offset: int, value: bytes) -> bytes:
    return content[:offset] + value + content[offset + len(value) :]


DAMAGED = {
    "empty": (b"", 0),
    "truncated": (FRESH[:-1], len(FRESH) - 1),
    "v1 alone": (FRESH[:2008953], 2008953),
    "longer": (FRESH + b"x", len(FRESH)),
    "zeros": (bytes(len(FRESH)), 0),
    "other major": (damage(FRESH, 4, b"\2\0\0\0"), 4),
    "no block": (damage(FRESH, region.BLOCK_OFFSET, b"X"), region.BLOCK_OFFSET),
    "block version": (damage(FRESH, region.BLOCK_OFFSET + 8, b"\1"), region.BLOCK_OFFSET + 8),
    "block size": (damage(FRESH, region.BLOCK_OFFSET + 12, b"\0\0\0\0"), region.BLOCK_OFFSET + 12),
    "compute block": (damage(FRESH, region.COMPUTE_OFFSET, b"X"), region.COMPUTE_OFFSET),
    "compute version": (damage(FRESH, region.COMPUTE_OFFSET + 8, b"\2"), region.COMPUTE_OFFSET),
    "compute header": (damage(FRESH, region.COMPUTE_OFFSET + 16, b"\1"), region.COMPUTE_OFFSET + 16),
    "compute device": (damage(FRESH, region.COMPUTE_OFFSET + 20, b"\1"), region.COMPUTE_OFFSET + 20),
    "compute process": (damage(FRESH, region.COMPUTE_OFFSET + 24, b"\1"), region.COMPUTE_OFFSET + 24),
    "17 devices": (damage(FRESH, region.BLOCK_OFFSET + 28, b"\21\0\0\0"), region.BLOCK_OFFSET + 28),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_region_is_refused_and_its_place_named(tmp_path, name):
    content, offset = DAMAGED[name]
    path = tmp_path / "vgpu.cache"
    path.write_bytes(content)
    with pytest.raises(region.RegionError, match=r"vgpu\.cache") as caught:
        region.read(path)
    assert caught.value.offset == offset


@pytest.mark.parametrize("seed", range(3))
def test_noise_behind_good_headers_gives_bounded_figures(tmp_path, seed):
    """A container may write anything; only what says that it is a region has to be right."""
    content = bytearray(random.Random(seed).randbytes(region.REGION_SIZE))
    for start, size in ((0, 64), (region.BLOCK_OFFSET, 32), (region.COMPUTE_OFFSET, 32)):
        content[start : start + size] = FRESH[start : start + size]
    path = tmp_path / "vgpu.cache"
    path.write_bytes(content)
    found = region.read(path)
    assert len(found.devices) == len(LIMITS.devices)
    for device in found.devices:
        parts = (device.parts.contexts_bytes, device.parts.modules_bytes, device.parts.buffers_bytes)
        assert sum(parts) == device.used_bytes
        assert min(parts) >= 0


# The library does without the number of devices, which is for readers.
UNUSABLE = {name: content for name, (content, _) in DAMAGED.items() if name != "17 devices"}
UNUSABLE |= {"missing": None, "behind a link": None}


@pytest.mark.parametrize("name", UNUSABLE)
def test_region_that_cannot_be_used_denies_everything(make_container, shells, name):
    container = make_container(4000)
    path, content, elsewhere = container.region_path, UNUSABLE[name], container.root / "elsewhere"
    if content is None:
        path.rename(elsewhere)
    else:
        path.write_bytes(content)
    if name == "behind a link":
        path.symlink_to(elsewhere)
    assert shells(container, device=None).status("use", 0) == OUT_OF_MEMORY
    assert (path.read_bytes() if path.is_file() and not path.is_symlink() else None) == content
