"""What allocations take, where it ends, and that it comes back: cuda-bindings unchanged, one process or many."""

from __future__ import annotations

import signal
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import hami_gpusim as sim

MIB = 1 << 20
GRANULE = 2 * MIB

ALLOCATE_TO_THE_END = """
context()
total = ck(cuda.cuMemGetInfo())[1]
blocks, size = [], 4 << 30
while size >= 2 << 20:
    error, block = cuda.cuMemAlloc(size)
    if error == cuda.CUresult.CUDA_SUCCESS:
        blocks.append(block)
    else:
        assert error == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, error
        size //= 2
full = ck(cuda.cuMemGetInfo())
for block in blocks:
    ck(cuda.cuMemFree(block))
answer(total=total, free_when_full=full[0], free_after=ck(cuda.cuMemGetInfo())[0])
"""


def test_a_card_can_be_filled_to_the_last_granule_and_emptied(machine):
    m = machine("h100x2")
    with m.state() as state:
        card = state.devices[0]
    shown = m.python(ALLOCATE_TO_THE_END)
    assert shown["total"] == card.memory_total
    assert shown["free_when_full"] == (card.memory_total - card.context_reserve) % GRANULE
    assert shown["free_after"] == card.memory_total - card.context_reserve


def test_every_way_takes_what_the_readme_says(machine):
    shown = machine("t4").python("""
    context()
    base = ck(cuda.cuMemGetInfo())[0]
    taken = lambda: base - ck(cuda.cuMemGetInfo())[0]
    out = {}
    def case(name, make, free):
        handle = make()
        out[name] = taken()
        free(handle)
        assert taken() == 0, name
    alloc, free = lambda n: ck(cuda.cuMemAlloc(n)), lambda p: ck(cuda.cuMemFree(p))
    case("1", lambda: alloc(1), free)
    case("1M-1", lambda: alloc((1 << 20) - 1), free)
    case("1M", lambda: alloc(1 << 20), free)
    case("2M+1", lambda: alloc((2 << 20) + 1), free)
    case("pitch", lambda: ck(cuda.cuMemAllocPitch(4, 8192, 4)), lambda r: free(r[0]))
    case("managed", lambda: ck(cuda.cuMemAllocManaged(8 << 20, 1)), free)
    case("host", lambda: ck(cuda.cuMemAllocHost(8 << 20)), lambda p: ck(cuda.cuMemFreeHost(p)))
    def free_async(p):
        ck(cuda.cuMemFreeAsync(p, 0))
        ck(cuda.cuStreamSynchronize(0))
    case("async", lambda: ck(cuda.cuMemAllocAsync(3 << 20, 0)), free_async)
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    case("vmm", lambda: ck(cuda.cuMemCreate(6 << 20, prop, 0)), lambda h: ck(cuda.cuMemRelease(h)))
    d = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    d.Width, d.Height, d.Depth, d.Format, d.NumChannels = 10, 4096, 2, cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 1
    case("array", lambda: ck(cuda.cuArray3DCreate(d)), lambda a: ck(cuda.cuArrayDestroy(a)))
    answer(**out)
    """)
    mib = {name: taken / MIB for name, taken in shown.items()}
    assert mib == {
        "1": 2, "1M-1": 2, "1M": 2, "2M+1": 4, "pitch": 4, "managed": 0, "host": 0, "async": 4, "vmm": 6, "array": 4,
    }  # fmt: skip


def test_small_allocations_take_the_blocks_their_addresses_lie_in(machine):
    shown = machine("t4").python("""
    import random
    context()
    base = ck(cuda.cuMemGetInfo())[0]
    random.seed(7)
    live, wrong = [], 0
    for step in range(3000):
        if live and random.random() < 0.46:
            ck(cuda.cuMemFree(live.pop(random.randrange(len(live)))))
        else:
            live.append(ck(cuda.cuMemAlloc(int(2 ** random.uniform(0, 19.99)))))
        blocks = len({int(p) >> 21 for p in live})
        wrong += base - ck(cuda.cuMemGetInfo())[0] != blocks << 21
    count = len(live)
    for p in live:
        ck(cuda.cuMemFree(p))
    answer(wrong=wrong, live=count, left=base - ck(cuda.cuMemGetInfo())[0])
    """)
    assert shown["live"] > 100
    assert (shown["wrong"], shown["left"]) == (0, 0)


def test_physical_memory_lives_while_handle_or_mapping_does(machine):
    shown = machine("t4").python("""
    context()
    base = ck(cuda.cuMemGetInfo())[0]
    taken = lambda: (base - ck(cuda.cuMemGetInfo())[0]) >> 20
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    odd = cuda.cuMemCreate(3 << 20, prop, 0)[0]
    handle = ck(cuda.cuMemCreate(4 << 20, prop, 0))
    va = ck(cuda.cuMemAddressReserve(8 << 20, 0, 0, 0))
    ck(cuda.cuMemMap(va, 4 << 20, 0, handle, 0))
    again = cuda.cuMemMap(va, 4 << 20, 0, handle, 0)[0]
    ck(cuda.cuMemRelease(handle))
    released = taken()
    access = cuda.CUmemAccessDesc()
    access.location.type = prop.location.type
    access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    ck(cuda.cuMemSetAccess(va, 4 << 20, [access], 1))
    ck(cuda.cuMemcpyHtoD(va, b"hello", 5))
    back = bytearray(5)
    ck(cuda.cuMemcpyDtoH(back, va, 5))
    busy = cuda.cuMemAddressFree(va, 8 << 20)[0]
    ck(cuda.cuMemUnmap(va, 4 << 20))
    ck(cuda.cuMemAddressFree(va, 8 << 20))
    answer(odd=int(odd), again=int(again), released=released, back=back.decode(), busy=int(busy), left=taken())
    """)
    assert shown == {"odd": 1, "again": 1, "released": 4, "back": "hello", "busy": 1, "left": 0}


def test_pool_keeps_up_to_its_threshold(machine):
    shown = machine("t4").python("""
    context()
    base = ck(cuda.cuMemGetInfo())[0]
    taken = lambda: (base - ck(cuda.cuMemGetInfo())[0]) >> 20
    pool = ck(cuda.cuDeviceGetDefaultMemPool(0))
    attr = cuda.CUmemPool_attribute
    ck(cuda.cuMemPoolSetAttribute(pool, attr.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, cuda.cuuint64_t(16 << 20)))
    blocks = [ck(cuda.cuMemAllocAsync(8 << 20, 0)) for _ in range(4)]
    full = taken()
    for b in blocks:
        ck(cuda.cuMemFreeAsync(b, 0))
    freed = taken()
    ck(cuda.cuStreamSynchronize(0))
    kept = taken()
    used = int(ck(cuda.cuMemPoolGetAttribute(pool, attr.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)))
    high = int(ck(cuda.cuMemPoolGetAttribute(pool, attr.CU_MEMPOOL_ATTR_USED_MEM_HIGH))) >> 20
    ck(cuda.cuMemPoolTrimTo(pool, 0))
    answer(full=full, freed=freed, kept=kept, used=used, high=high, trimmed=taken())
    """)
    assert shown == {"full": 32, "freed": 32, "kept": 16, "used": 0, "high": 32, "trimmed": 0}


@pytest.mark.parametrize(
    ("habit", "shown"),
    [
        ({"HAMI_SIM_POOL_STEP_MIB": "2"}, [4, 4, 6, 4, 0]),
        ({"HAMI_SIM_POOL_STEP_MIB": "32"}, [32, 32, 32, 32, 0]),
        ({"HAMI_SIM_POOL_FRAGMENTED": "1"}, [4, 8, 10, 4, 0]),
    ],
)
def test_pools_of_other_habits(machine, habit, shown):
    """One allocation; another after it is freed; a third beside that; what is left at a wait; and of nothing."""
    found = machine("t4").python(
        """
    context()
    base = ck(cuda.cuMemGetInfo())[0]
    taken = lambda: (base - ck(cuda.cuMemGetInfo())[0]) >> 20
    ck(cuda.cuMemFreeAsync(ck(cuda.cuMemAllocAsync(4 << 20, 0)), 0))
    out = [taken()]
    first = ck(cuda.cuMemAllocAsync(4 << 20, 0))
    out.append(taken())
    second = ck(cuda.cuMemAllocAsync(2 << 20, 0))
    out.append(taken())
    ck(cuda.cuMemFreeAsync(second, 0))
    ck(cuda.cuStreamSynchronize(0))
    out.append(taken())
    ck(cuda.cuMemFreeAsync(first, 0))
    ck(cuda.cuCtxSynchronize())
    answer(out=[*out, taken()])
    """,
        **habit,
    )
    assert found["out"] == shown


def test_contexts_are_charged_once_and_give_back_what_they_hold(machine):
    m = machine("t4")
    with m.state() as state:
        total, reserve = state.devices[0].memory_total, state.devices[0].context_reserve
    shown = m.python("""
    primary = context()
    free = lambda: ck(cuda.cuMemGetInfo())[0]
    one = free()
    params = cuda.CUctxCreateParams()
    second = ck(cuda.cuCtxCreate(params, 0, 0))
    two = free()
    kept = [ck(cuda.cuMemAlloc(n)) for n in (1, 5000, 1 << 20, 64 << 20)]
    used = two - free()
    ck(cuda.cuCtxDestroy(second))
    ck(cuda.cuCtxSetCurrent(primary))
    back = free()
    bad = cuda.cuMemFree(kept[3])[0]
    ck(cuda.cuMemAlloc(32 << 20))
    ck(cuda.cuDevicePrimaryCtxReset(0))
    stale = cuda.cuMemGetInfo()[0]
    context()
    answer(one=one, two=two, used=used >> 20, back=back, bad=int(bad), stale=int(stale), fresh=free())
    """)
    assert shown["one"] == shown["two"] == shown["back"] == shown["fresh"] == total - reserve
    assert shown["used"] == 2 + 2 + 2 + 64
    assert (shown["bad"], shown["stale"]) == (1, 709)


def test_copies_move_bytes_and_wrong_addresses_are_refused(machine):
    shown = machine("t4").python("""
    context()
    import os
    data = os.urandom(100_000)
    a, b = ck(cuda.cuMemAlloc(100_000)), ck(cuda.cuMemAlloc(3 << 20))
    ck(cuda.cuMemcpyHtoD(a, data, len(data)))
    ck(cuda.cuMemcpyDtoD(int(b) + 4096, a, len(data)))
    ck(cuda.cuMemsetD8(int(b) + 4096 + 10, 0xEE, 5))
    back = bytearray(len(data))
    ck(cuda.cuMemcpyDtoH(back, int(b) + 4096, len(data)))
    same = back[:10] == data[:10] and back[10:15] == b"\\xee" * 5 and back[15:] == data[15:]
    past = cuda.cuMemcpyHtoD(int(a) + 1, data, len(data))[0]
    ck(cuda.cuMemFree(a))
    freed = cuda.cuMemcpyDtoH(back, a, 1)[0]
    twice = cuda.cuMemFree(a)[0]
    answer(same=same, past=int(past), freed=int(freed), twice=int(twice))
    """)
    assert shown == {"same": True, "past": 1, "freed": 1, "twice": 1}


def test_processes_share_the_card_and_sigkill_gives_back_at_once(machine):
    m = machine("t4")
    holder = m.popen("context(); ck(cuda.cuMemAlloc(10 << 30)); answer(ok=1); time.sleep(60)")
    assert holder.answer()
    with m.state() as state:
        card = state.devices[0]
        assert [p.pid for p in card.processes] == [holder.pid]
        assert card.memory_used == (10 << 30) + card.context_reserve
        watcher = m.popen("""
        context()
        before = cuda.cuMemAlloc(8 << 30)[0]
        answer(error=int(before))
        sys.stdin.readline()
        answer(error=int(cuda.cuMemAlloc(8 << 30)[0]))
        """)
        assert watcher.answer() == {"error": 2}
        holder.send_signal(signal.SIGKILL)
        # Not reaped yet: a zombie holds nothing either. The kernel needs a moment to take it down.
        deadline = time.monotonic() + 5
        while state.devices[0].processes and holder.pid in [p.pid for p in state.devices[0].processes]:
            assert time.monotonic() < deadline
        assert watcher.go_on() == {"error": 0}
        watcher.communicate()
        holder.communicate()
        assert state.devices[0].memory_used == 0


def test_many_processes_racing_never_overshoot_and_fill_the_card(machine):
    m = machine("t4")
    script = """
    context()
    answer(ready=1)
    sys.stdin.readline()
    blocks, failed = [], 0
    while failed < 50:
        error, block = cuda.cuMemAlloc(64 << 20)
        if error == cuda.CUresult.CUDA_SUCCESS:
            blocks.append(block)
        else:
            failed += 1
    answer(blocks=len(blocks))
    sys.stdin.readline()
    """
    workers = [m.popen(script) for _ in range(6)]
    for w in workers:
        assert w.answer()
    for w in workers:
        w.stdin.write("\n")
        w.stdin.flush()
    counts = [w.answer()["blocks"] for w in workers]
    with m.state() as state:
        card = state.devices[0]
    assert card.memory_used == sum(counts) * (64 << 20) + 6 * card.context_reserve
    assert card.memory_total - (64 << 20) < card.memory_used <= card.memory_total
    for w in workers:
        w.communicate("\n")


def owner_of_a_gib(machine):
    """A process that shares 1 GiB and waits for a line, and the handle for it."""
    owner = machine.popen("""
    context()
    answer(handle=shared(ck(cuda.cuMemAlloc(1 << 30))))
    sys.stdin.readline()
    """)
    return owner, owner.answer()["handle"]


def test_memory_of_another_process_is_charged_to_its_owner(machine):
    m = machine("t4")
    owner, handle = owner_of_a_gib(m)
    shown = m.python(f"""
    context()
    free = ck(cuda.cuMemGetInfo())[0]
    address = ck(opened("{handle}"))
    base, size = ck(cuda.cuMemGetAddressRange(address))
    answer(taken=free - ck(cuda.cuMemGetInfo())[0], size=size >> 20, wrong=int(cuda.cuMemFree(address)[0]),
           closed=int(cuda.cuIpcCloseMemHandle(address)[0]), twice=int(cuda.cuIpcCloseMemHandle(address)[0]))
    """)
    assert shown == {"taken": 0, "size": 1024, "wrong": 1, "closed": 0, "twice": 1}
    owner.communicate("\n")


# Physical memory that another process may be given, and what sends and takes the descriptor for it.
SHARING = """
import socket
def make(size):
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.requestedHandleTypes = DESCRIPTOR
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    return ck(cuda.cuMemCreate(size, prop, 0))
DESCRIPTOR = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
post = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def used():
    free, total = ck(cuda.cuMemGetInfo())
    return (total - free) >> 20
"""


def test_physical_memory_is_taken_until_the_last_process_lets_go(machine, tmp_path):
    m = machine("t4")
    box = tmp_path / "box"
    importer = m.popen(
        SHARING
        + f"""
context()
post.bind("{box}")
answer(ready=True)
sys.stdin.readline()
_, [fd], _, _ = socket.recv_fds(post, 1, 1)
handle = ck(cuda.cuMemImportFromShareableHandle(fd, DESCRIPTOR))
os.close(fd)
address = ck(cuda.cuMemAddressReserve(1 << 30, 0, 0, 0))
ck(cuda.cuMemMap(address, 1 << 30, 0, handle, 0))
ck(cuda.cuMemRelease(handle))
answer(mapped=used())
sys.stdin.readline()
ck(cuda.cuMemUnmap(address, 1 << 30))
answer(unmapped=used())
sys.stdin.readline()
"""
    )
    assert importer.answer()
    reserve = card(m).context_reserve
    script = f"""
    context()
    handle = make(1 << 30)
    before = used()
    fd = ck(cuda.cuMemExportToShareableHandle(handle, DESCRIPTOR, 0))
    ck(cuda.cuMemRelease(handle))
    post.connect("{box}")
    socket.send_fds(post, [b"x"], [fd])
    answer(before=before, after=used())
    """
    shown = m.python(SHARING + textwrap.dedent(script))
    assert shown["before"] == shown["after"] == 1024 + 2 * (reserve >> 20)
    assert card(m).memory_used == (1 << 30) + reserve, "only the descriptor under way still holds it"
    assert importer.go_on() == {"mapped": 1024 + (reserve >> 20)}
    assert card(m).processes[0].memory_used == (1 << 30) + reserve
    assert importer.go_on() == {"unmapped": reserve >> 20}
    importer.communicate("\n")


def test_shared_memory_stays_when_its_owner_is_killed_and_goes_with_the_last_process(machine):
    m = machine("t4")
    owner, handle = owner_of_a_gib(m)
    other = m.popen(f"""
    context()
    ck(opened("{handle}"))
    answer(open=True)
    sys.stdin.readline()
    """)
    assert other.answer()
    reserve = card(m).context_reserve
    assert card(m).memory_used == (1 << 30) + 2 * reserve
    owner.end()
    assert card(m).memory_used == (1 << 30) + reserve
    other.end()
    assert card(m).memory_used == 0
    shown = m.python("context(); answer(taken=int(ck(cuda.cuMemAlloc(14 << 30))) != 0)")
    assert shown == {"taken": True}, "what the dead shared can be taken again"


def card(m) -> sim.Device:
    with m.state() as state:
        return state.devices[0]


def test_a_forked_child_has_no_driver_and_takes_nothing_from_its_parent(machine):
    shown = machine("t4").python("""
    context()
    block = ck(cuda.cuMemAlloc(1 << 30))
    pid = os.fork()
    if pid == 0:
        os._exit(10 + int(cuda.cuMemAlloc(1 << 20)[0]) * 10 + int(cuda.cuInit(0)[0]))
    child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    free, total = ck(cuda.cuMemGetInfo())
    ck(cuda.cuMemFree(block))
    answer(child=child, taken=(total - free) >> 20, after=(total - ck(cuda.cuMemGetInfo())[0]) >> 20)
    """)
    assert shown == {"child": 43, "taken": 1024 + 104, "after": 104}
