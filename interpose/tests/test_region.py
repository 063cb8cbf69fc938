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
DEAD = at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | 1 << at.OWNER_PID_BITS | 0x3FFFFF  # a pid that no machine reaches
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino

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
def test_v1_layout_is_the_vectors(part):
    vector = json.loads((DATA / "shared_region.json").read_text())["v1"][part]
    expected = {name: place for name, place in vector["fields"].items() if name != "unused" or part == "region"}
    names = dict(pair.split("=") for pair in FIELDS[part].split())
    fields = {theirs: getattr(STRUCTURES[part], ours) for theirs, ours in names.items()}
    assert {name: [field.offset, field.size] for name, field in fields.items()} == expected
    assert ctypes.sizeof(STRUCTURES[part]) == vector["size"]


def test_a_region_that_the_library_made_is_the_same(make_container, shells, tmp_path):
    container = make_container(1)
    container.root = container.root / "nowhere"
    cache = tmp_path / "cache"
    container.variables |= {
        "HAMI_VGPU_ROOT": "",
        "CUDA_DEVICE_MEMORY_LIMIT": "3g",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(cache),
    }
    shell = shells(container)
    assert shell("total", 0) == [0, 3072 * MIB]
    (process,) = region.read(cache).processes
    assert process.pid == shell.process.pid


def test_a_fresh_region_reads_back(tmp_path):
    path = tmp_path / "vgpu.cache"
    path.write_bytes(region.initial(LIMITS))
    found = region.read(path)
    assert [(d.uuid, d.limit_bytes, d.cores, d.used_bytes) for d in found.devices] == [
        ("GPU-1", 100 * MIB, 30, 0),
        ("GPU-2", 0, 0, 0),
    ]
    assert (found.generation, found.processes, found.reason) == (9, (), "")
    with path.open("rb") as file:
        assert region.read(file.fileno()) == found


def test_hamis_monitor_reads_limits_and_use(started):
    """The v1 part, read by its offsets alone, as HAMi's monitor does."""
    container, shell = started(4000)
    assert shell.status("alloc", 10 * MIB) == 0
    content = container.region_path.read_bytes()
    magic, major, minor = struct.unpack_from("<iII", content, 0)
    assert (magic, major, minor) == (19920718, 1, 2)
    assert struct.unpack_from("<Q", content, 56) == (1,)
    assert struct.unpack_from("<Q", content, 1600) == (4000 * MIB,)
    count = struct.unpack_from("<i", content, 2008896)[0]
    slots = [1856 + 1960 * i for i in range(count)]
    (slot,) = [at for at in slots if struct.unpack_from("<i", content, at)[0] == shell.process.pid]
    context, module, data, offset, total = struct.unpack_from("<5Q", content, slot + 8)
    reserve = container.region().devices[0].context_bytes
    assert (context, module, data, offset, total) == (reserve, 0, 10 * MIB, 0, reserve + 10 * MIB)
    assert struct.unpack_from("<i", content, slot + 1928) == (1,)


def test_a_used_region_reads_back(started):
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 10 * MIB) == 0
    assert shell.status("alloc", 5000 * MIB) == OUT_OF_MEMORY
    found = container.region()
    (process,) = found.processes
    reserve = found.devices[0].context_bytes
    assert process.pid == shell.process.pid
    assert process.used_bytes == (reserve + 10 * MIB, 0)
    assert found.devices[0].used_bytes == found.devices[0].peak_bytes == reserve + 10 * MIB
    assert [device.denied for device in found.devices] == [1, 0]
    assert (found.reason, found.reason_device, found.reason_bytes) == (region.REASONS[1], 0, 5000 * MIB)
    assert found.heartbeat > 0
    assert found.build == hami_interpose.build_id()


def test_the_heartbeat_goes_on_while_a_process_is_at_work(started):
    """Whoever takes a slot says so as well; what counts is what comes after that."""
    container, shell = started(4000)
    long_ago = 1_000_000_000
    with container.region_path.open("r+b") as file:
        file.seek(region.BLOCK_OFFSET + 40)
        assert struct.unpack("<Q", file.read(8)) == (container.region().heartbeat,)
        file.seek(region.BLOCK_OFFSET + 40)
        file.write(struct.pack("<Q", long_ago))
    before, deadline = int(time.time()), time.monotonic() + 20
    while container.region().heartbeat == long_ago and time.monotonic() < deadline:
        assert shell.status("free", shell("alloc", 2 * MIB)[1]) == 0
        time.sleep(0.02)
    assert before <= container.region().heartbeat <= time.time()


def test_what_memory_consists_of(make_container, shells):
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


def leave(content: bytearray, pages: int, owner: int = DEAD, locked: int = 0) -> None:
    """Writes a process into the first slot that holds so much of the first device."""
    at.V1.from_buffer(content).process_num = 1
    block = at.Block.from_buffer(content, at.BLOCK_OFFSET)
    block.owners[0], block.held[0][0] = owner, pages
    block.slots[0] = at.Slot(pid_namespace=NAMESPACE, locked=locked)


def test_memory_is_split_within_what_is_in_use_whatever_the_columns_say(tmp_path):
    """They are the container's to write."""
    path = tmp_path / "vgpu.cache"
    content = bytearray(FRESH)
    leave(content, 0, owner=at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | 77 << 22 | 5)
    for columns in ((1 << 62, 1 << 62, 1), (-5, -6, -7), (0, 1 << 62, 0)):
        struct.pack_into("<3q", content, 1856 + 8, *columns)
        for pages in (0, 100):
            struct.pack_into("<Q", content, region.BLOCK_OFFSET + at.Block.held.offset, pages)
            path.write_bytes(content)
            device = region.read(path).devices[0]
            found = (device.parts.contexts_bytes, device.parts.modules_bytes, device.parts.buffers_bytes)
            assert device.used_bytes == sum(found) == pages * 4096, columns
            assert min(found) >= 0, columns


@pytest.mark.parametrize("number", [-1, 1025, 1 << 30])
def test_a_senseless_number_of_slots_hides_no_process(started, number):
    container, shell = started(4000)
    with container.region_path.open("r+b") as file:
        file.seek(2008896)
        file.write(struct.pack("<i", number))
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
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_region_is_refused_and_the_place_named(tmp_path, name):
    content, offset = DAMAGED[name]
    path = tmp_path / "vgpu.cache"
    path.write_bytes(content)
    with pytest.raises(region.RegionError, match=r"vgpu\.cache") as caught:
        region.read(path)
    assert caught.value.offset == offset


@pytest.mark.parametrize("seed", range(3))
def test_noise_behind_good_heads_is_read_as_bounded_figures(tmp_path, seed):
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


def test_more_devices_than_there_may_be_are_damage(tmp_path):
    path = tmp_path / "vgpu.cache"
    path.write_bytes(damage(FRESH, region.BLOCK_OFFSET + 28, b"\21\0\0\0"))
    with pytest.raises(region.RegionError, match="17 devices, more than 16"):
        region.read(path)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_region_denies_everything(make_container, shells, name):
    container = make_container(4000)
    container.region_path.write_bytes(DAMAGED[name][0])
    assert shells(container, device=None).status("use", 0) == OUT_OF_MEMORY
    assert container.region_path.read_bytes() == DAMAGED[name][0]


@pytest.mark.parametrize("pages", [2**63 - 1, 2**64 - 1, 2**36], ids=hex)
def test_absurd_words_of_a_dead_process_are_survived(make_container, shells, pages):
    """A program may have written anything into its container's region; the next one clears it."""
    container = make_container(4000)
    content = bytearray(container.region_path.read_bytes())
    leave(content, pages)
    container.region_path.write_bytes(content)
    shell = shells(container)
    assert shell.status("alloc", 10 * MIB) == 0
    found = container.region()
    (process,) = found.processes
    assert process.pid == shell.process.pid
    assert found.devices[0].used_bytes == found.devices[0].context_bytes + 10 * MIB
    assert shell.status("alloc", 5000 * MIB) == OUT_OF_MEMORY


@pytest.mark.parametrize("linked", [False, True], ids=["missing", "behind a link"])
def test_region_that_is_not_there_denies_everything(make_container, shells, linked):
    container = make_container(4000)
    container.region_path.rename(container.root / "elsewhere")
    if linked:
        container.region_path.symlink_to(container.root / "elsewhere")
    assert shells(container, device=None).status("use", 0) == OUT_OF_MEMORY
    assert container.region_path.exists() == linked
