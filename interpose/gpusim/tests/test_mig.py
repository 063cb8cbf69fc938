"""CUDA on MIG devices: which one a process gets, what that is, and that its memory and time are its own."""

from __future__ import annotations

import textwrap

import hami_gpusim as sim
import pytest
from hami_gpusim.testing import partition

MIB = 1 << 20
CONTEXT = 420  # MiB that a context of an A100 takes
SMALL, HALF = "1g.10gb", "3g.40gb"
SMALL_MIB, HALF_MIB = 9728, 40192
DEVICE = """
ck(cuda.cuInit(0))
def text(uuid):
    return "-".join(bytes(uuid.bytes).hex()[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
"""
NVML = """
import pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
"""
COUNT = "answer(error=int(cuda.cuInit(0)[0]), count=int(cuda.cuDeviceGetCount()[1] or 0))"
WHICH = DEVICE + "answer(count=ck(cuda.cuDeviceGetCount()), uuid=text(ck(cuda.cuDeviceGetUuid(0))))"
HOLD = """
context()
ck(cuda.cuMemAlloc({mib} << 20))
answer(pid=os.getpid(), left=ck(cuda.cuMemGetInfo())[0] >> 20)
sys.stdin.readline()
"""


def device(script):
    return DEVICE + textwrap.dedent(script)


def nvml(script):
    return NVML + textwrap.dedent(script)


NO_DEVICE = 100
IN_USE = 19
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_RESOURCES = 3, 4, 6, 23


def digits(uuid):
    return uuid.split("-", 1)[1]


@pytest.fixture
def split(machine):
    """Two A100; the first is divided into a small MIG device, a half of the card and another small one."""
    m = machine("a100x2")
    return m, partition(m.directory, 0, SMALL, HALF, SMALL)


@pytest.fixture
def start():
    """Starts a script on a machine and returns it with its first line; it ends with the test."""
    started = []

    def one(machine, script, **env):
        process = machine.popen(script, **env)
        started.append(process)
        line = process.stdout.readline()
        assert line, process.communicate()
        return process, line.strip()

    yield one
    for process in started:
        process.end()


def test_a_card_in_mig_mode_is_no_device_of_its_own(machine):
    m = machine("a100")
    partition(m.directory, 0)
    assert m.python(COUNT) == {"error": NO_DEVICE, "count": 0}
    (uuid,) = partition(m.directory, 0, SMALL)
    assert m.python(WHICH) == {"count": 1, "uuid": digits(uuid)}


def test_what_the_device_is(split):
    m, (small, *_) = split
    shown = m.python(
        device("""
    attribute = lambda number: ck(cuda.cuDeviceGetAttribute(cuda.CUdevice_attribute(number), 0))
    context()
    free, total = ck(cuda.cuMemGetInfo())
    answer(name=ck(cuda.cuDeviceGetName(64, 0)).split(b"\\0")[0].decode(), own=text(ck(cuda.cuDeviceGetUuid(0))),
           total=ck(cuda.cuDeviceTotalMem(0)) >> 20, free=free >> 20, same=total >> 20, processors=attribute(16),
           copies=attribute(40), bus=attribute(33))
    """),
        CUDA_VISIBLE_DEVICES=small,
    )
    assert shown == {
        "name": f"NVIDIA A100-SXM4-80GB MIG {SMALL}", "own": digits(small), "total": SMALL_MIB, "same": SMALL_MIB,
        "free": SMALL_MIB - CONTEXT, "processors": 14, "copies": 1, "bus": 7,
    }  # fmt: skip


def test_the_older_uuid_call_tells_the_card(split):
    m, (small, *_) = split
    with m.state() as state:
        card = state.devices[0].uuid
    shown = m.python(
        """
    import ctypes
    lib, uuid = ctypes.CDLL("libcuda.so.1"), (ctypes.c_uint8 * 16)()
    assert lib.cuInit(0) == 0
    assert lib.cuDeviceGetUuid(uuid, 0) == 0
    first = bytes(uuid).hex()
    assert lib.cuDeviceGetUuid_v2(uuid, 0) == 0
    answer(first=first, second=bytes(uuid).hex())
    """,
        CUDA_VISIBLE_DEVICES=small,
    )
    assert shown == {"first": digits(card).replace("-", ""), "second": digits(small).replace("-", "")}


def test_which_device_a_process_gets(split):
    """One MIG device at most, and no card beside it; cards without MIG are as ever."""
    m, (first, half, last) = split
    with m.state() as state:
        divided, plain = (device.uuid for device in state.devices)
    asked = {
        None: first, "0": first, divided: first, half: half, last: last, f"{last},{first}": last, half[:12]: half,
        "1": plain, plain: plain, f"1,{last}": last, divided[:12]: first,
        f"MIG-{divided}/2/0": half, f"MIG-{divided}/3/0,{first}": last,
    }  # fmt: skip
    for named, got in asked.items():
        env = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
        assert m.python(WHICH, **env) == {"count": 1, "uuid": digits(got)}, named
    nothing = {"error": NO_DEVICE, "count": 0}
    for named in ("", "2", "MIG-", "MIG-00000000", f"MIG-{divided}/4/0", f"MIG-{divided}/2/1", f"MIG-{divided}/2",
                  f"MIG-{plain}/1/0", f"{first},{first}"):  # fmt: skip
        assert m.python(COUNT, CUDA_VISIBLE_DEVICES=named) == nothing, named


def test_only_devices_whose_nodes_are_there(split, tmp_path):
    """As in a container: the nodes of a GPU instance and its compute instance let a process have it."""
    m, (first, half, last) = split
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    for node in ("nvidia0", "nvidia-caps/nvidia-cap1"):
        (tmp_path / "dev" / node).touch()
    seen = {"HAMI_SIM_DEV": str(tmp_path / "dev")}
    assert m.python(COUNT, **seen)["count"] == 0
    for node in ("nvidia-cap21", "nvidia-cap22"):  # gpu0/gi2/access, gpu0/gi2/ci0/access
        (tmp_path / "dev/nvidia-caps" / node).touch()
    assert m.python(WHICH, **seen) == {"count": 1, "uuid": digits(half)}
    assert m.python(COUNT, **seen, CUDA_VISIBLE_DEVICES=last)["count"] == 0
    shown = m.python(
        nvml(f"""
    mig = n.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
    answer(uuid=n.nvmlDeviceGetUUID(mig), index=n.nvmlDeviceGetIndex(mig),
           others=[error_of(n.nvmlDeviceGetMigDeviceHandleByIndex, card, 1),
                   error_of(n.nvmlDeviceGetHandleByUUID, "{first}")],
           card=[error_of(n.nvmlDeviceGetMemoryInfo, card),
                 error_of(n.nvmlDeviceGetComputeRunningProcesses, card)])
    """),
        **seen,
    )
    assert shown == {"uuid": half, "index": 0, "others": [NOT_FOUND] * 2, "card": [NO_PERMISSION] * 2}


def test_memory_of_a_device_is_its_own(split, start):
    """A full device refuses; its neighbour on the card has all that is its own, and NVML tells who has what."""
    m, (first, half, last) = split
    room = SMALL_MIB - CONTEXT
    holders = [
        start(m, HOLD.format(mib=mib), CUDA_VISIBLE_DEVICES=uuid)[0] for uuid, mib in ((first, room), (half, 1000))
    ]
    pids = [process.pid for process in holders]
    refusal = "context(); answer(error=int(cuda.cuMemAlloc({} << 20)[0]))"
    assert m.python("answer(error=int(cuda.cuInit(0)[0]) or int(cuda.cuDevicePrimaryCtxRetain(0)[0]))",
                    CUDA_VISIBLE_DEVICES=first) == {"error": 2}  # fmt: skip
    assert m.python(refusal.format(room), CUDA_VISIBLE_DEVICES=last) == {"error": 0}
    assert m.python(refusal.format(room + 2), CUDA_VISIBLE_DEVICES=last) == {"error": 2}
    shown = m.python(
        nvml(f"""
    listed = lambda h: sorted([p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId, p.computeInstanceId]
                              for p in n.nvmlDeviceGetComputeRunningProcesses(h))
    out = {{}}
    for uuid in {[first, half, last]!r}:
        h = n.nvmlDeviceGetHandleByUUID(uuid)
        one, two = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
        assert one.used + one.free == one.total == two.total and two.used == one.used
        window, cards = n.nvmlDeviceGetBAR1MemoryInfo(h), n.nvmlDeviceGetBAR1MemoryInfo(card)
        assert 0 < window.bar1Used + window.bar1Free == window.bar1Total < cards.bar1Total
        out[uuid] = [one.total >> 20, one.used >> 20, listed(h), n.nvmlDeviceGetIndex(h), n.nvmlDeviceGetName(h)]
    whole = n.nvmlDeviceGetMemoryInfo(card)
    instance = n.nvmlDeviceGetGpuInstanceById(card, 1)
    answer(parts=out, card=[whole.used >> 20, listed(card)], asked=[error_of(n.nvmlDeviceGetUtilizationRates, card),
           error_of(n.nvmlDeviceGetProcessUtilization, card, 0)])
    """)
    )
    name = "NVIDIA A100-SXM4-80GB MIG "
    assert shown["parts"] == {
        first: [SMALL_MIB, SMALL_MIB, [[pids[0], SMALL_MIB, 1, 0]], 0, name + SMALL],
        half: [HALF_MIB, 1000 + CONTEXT, [[pids[1], 1000 + CONTEXT, 2, 0]], 1, name + HALF],
        last: [SMALL_MIB, 0, [], 2, name + SMALL],
    }
    both = sorted([[pids[0], SMALL_MIB, 1, 0], [pids[1], 1000 + CONTEXT, 2, 0]])
    assert shown["card"] == [SMALL_MIB + 1000 + CONTEXT, both]
    assert shown["asked"] == [NOT_SUPPORTED, NOT_SUPPORTED]
    with m.state() as state:
        assert {device.uuid: device.memory_used // MIB for device in state.mig_devices} == {
            first: SMALL_MIB, half: 1000 + CONTEXT, last: 0,
        }  # fmt: skip
        assert state.devices[0].memory_used // MIB == SMALL_MIB + 1000 + CONTEXT
        assert sorted(process.pid for process in state.devices[0].processes) == sorted(pids)
        assert state.devices[1].memory_used == 0
    for process in holders:
        process.end()
    with m.state() as state:
        assert [device.memory_used for device in (*state.devices, *state.mig_devices)] == [0] * 5


def test_a_device_in_use_stays(split, start):
    """Neither a compute instance with a process on it nor the mode of its card can be taken away."""
    m, (first, *_) = split
    process, _ = start(m, HOLD.format(mib=2), CUDA_VISIBLE_DEVICES=first)
    script = nvml("""
    import ctypes
    instance = n.nvmlDeviceGetGpuInstanceById(card, 1)
    found, count = (n.c_nvmlComputeInstance_t * 8)(), ctypes.c_uint(8)
    n.nvmlGpuInstanceGetComputeInstances(instance, 0, found, ctypes.byref(count))
    busy = error_of(n.nvmlComputeInstanceDestroy, found[0])
    mode = n.nvmlDeviceSetMigMode(card, 0)
    answer(busy=busy, mode=mode, gone=None if busy else error_of(n.nvmlGpuInstanceDestroy, instance))
    """)
    assert m.python(script) == {"busy": IN_USE, "mode": IN_USE, "gone": None}
    process.end()
    assert m.python(script)["busy"] == 0
    assert m.python(COUNT, CUDA_VISIBLE_DEVICES=first)["count"] == 0


def test_time_of_a_device_is_its_own(split, start):
    """Two processes on two MIG devices of a card work at once; on one of them they take turns.

    Each queues half a second of work at a time, so that a busy machine cannot keep the devices idle.
    """
    m, (first, half, _) = split
    work = """
    context()
    kernel = ck(cuda.cuModuleGetFunction(ck(cuda.cuModuleLoadData(b"x")), b"k_1ms"))
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for _ in range(500):
            ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0))
        ck(cuda.cuCtxSynchronize())
    """
    for places, alone in (((first, half), True), ((half, half), False)):
        running = [start(m, work, CUDA_VISIBLE_DEVICES=place)[0] for place in places]
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in running:
            process.communicate(timeout=60)
        with m.state() as state:
            index = {device.uuid: device.index for device in state.mig_devices}
            pids = [process.pid for process in running]
            times = [time for place in dict.fromkeys(places) for time in state.device_time(index[place])]
        one, other = [time.steps for time in times if time.pid in pids]
        most = max(one[step] + other[step] for step in one.keys() & other.keys())
        assert (most > 1.2 * sim.STEP_NS) == alone, (most, places)


def test_compute_instances_of_a_gpu_instance_share_its_memory(split, start):
    """Each is a MIG device with processes of its own; what they take comes from one pool."""
    m, (_, half, _) = split
    made = m.python(
        nvml("""
    instance = n.nvmlDeviceGetGpuInstanceById(card, 2)
    n.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    answer(uuids=[n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(card, i)) for i in range(4)],
           card=n.nvmlDeviceGetUUID(card))
    """)
    )
    second = made["uuids"][2]
    assert made["uuids"][1] == half != second
    process, _ = start(m, HOLD.format(mib=1000), CUDA_VISIBLE_DEVICES=f"MIG-{made['card']}/2/1")
    shown = m.python(
        nvml(f"""
    handles = [n.nvmlDeviceGetHandleByUUID(uuid) for uuid in {[half, second]!r}]
    answer(used=[n.nvmlDeviceGetMemoryInfo(h).used >> 20 for h in handles],
           ids=[n.nvmlDeviceGetComputeInstanceId(h) for h in handles],
           listed=[[[p.pid, p.gpuInstanceId, p.computeInstanceId] for p in n.nvmlDeviceGetComputeRunningProcesses(h)]
                   for h in handles])
    """)
    )
    assert shown == {"used": [1000 + CONTEXT] * 2, "ids": [0, 1], "listed": [[], [[process.pid, 2, 1]]]}
    assert m.python(WHICH, CUDA_VISIBLE_DEVICES=second) == {"count": 1, "uuid": digits(second)}
    with m.state() as state:
        used = {device.uuid: device.memory_used // MIB for device in state.mig_devices}
    assert used[half] == used[second] == 1000 + CONTEXT
    assert len(used) == 4


def test_ipc_ends_at_the_instance(split, start):
    m, (first, half, _) = split
    script = """
    context()
    print(shared(ck(cuda.cuMemAlloc(4 << 20))), flush=True)
    sys.stdin.readline()
    """
    _, handle = start(m, script, CUDA_VISIBLE_DEVICES=first)
    opening = f"""
    context()
    answer(error=int(opened("{handle}")[0]))
    """
    assert m.python(opening, CUDA_VISIBLE_DEVICES=first) == {"error": 0}
    assert m.python(opening, CUDA_VISIBLE_DEVICES=half) == {"error": 1}


def test_a_lost_card_takes_its_devices_with_it(split):
    m, (first, *_) = split
    script = "context(); state.{}(0); answer(error=int(cuda.cuMemAlloc(1)[0]))"
    prelude = f"import hami_gpusim as sim; state = sim.State({str(m.directory)!r}); "
    assert m.python(prelude + script.format("restore"), CUDA_VISIBLE_DEVICES=first) == {"error": 0}
    assert m.python(prelude + script.format("lose"), CUDA_VISIBLE_DEVICES=first) == {"error": 999}


def test_compute_instances_share_the_slices_of_their_gpu_instance(machine):
    """NVML lists them by profile, and tells of a MIG device how many of the GPU instance's slices it has."""
    m = machine("a100")
    told = m.python(
        nvml("""
    n.nvmlDeviceSetMigMode(card, 1)
    half = n.nvmlDeviceCreateGpuInstance(card, 9)
    import ctypes
    def listed(profile):
        found, count = (n.c_nvmlComputeInstance_t * 8)(), ctypes.c_uint(8)
        n.nvmlGpuInstanceGetComputeInstances(half, profile, found, ctypes.byref(count))
        infos = [n.nvmlComputeInstanceGetInfo(one) for one in found[: count.value]]
        return [[i.id, i.profileId, i.placement.start, i.placement.size] for i in infos]
    def slices():
        handles = [n.nvmlDeviceGetMigDeviceHandleByIndex(card, i) for i in range(2)]
        several = [n.nvmlDeviceGetAttributes(h) for h in handles]
        return [[a.gpuInstanceSliceCount, a.computeInstanceSliceCount] for a in several]
    two = n.nvmlGpuInstanceCreateComputeInstance(half, 1)
    one = n.nvmlGpuInstanceCreateComputeInstance(half, 0)
    full = error_of(n.nvmlGpuInstanceCreateComputeInstance, half, 0)
    parts = slices(), [listed(profile) for profile in range(3)]
    n.nvmlComputeInstanceDestroy(two)
    again = error_of(n.nvmlGpuInstanceCreateComputeInstance, half, 2)
    n.nvmlComputeInstanceDestroy(one)
    n.nvmlGpuInstanceCreateComputeInstance(half, 2)
    answer(full=full, again=again, parts=parts, whole=listed(2))
    """)
    )
    assert told["full"] == told["again"] == INSUFFICIENT_RESOURCES
    assert told["parts"] == [[[3, 2], [3, 1]], [[[1, 0, 2, 1]], [[0, 1, 0, 2]], []]]
    assert told["whole"] == [[0, 2, 0, 3]]
