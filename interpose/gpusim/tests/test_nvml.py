"""NVML through nvidia-ml-py, unchanged."""

from __future__ import annotations

import json
import textwrap

import pytest

PYNVML = "import pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"


def nvml(script: str) -> str:
    """A script that starts with NVML up and the first card's handle in h."""
    return PYNVML + textwrap.dedent(script)


def nvml_error(name: str) -> int:
    import pynvml

    return int(getattr(pynvml, f"NVML_ERROR_{name}"))


def test_what_an_inventory_asks(machine):
    m = machine("h100x8")
    shown = m.python(
        nvml("""
    u = n.nvmlDeviceGetUUID(h)
    answer(
        driver=n.nvmlSystemGetDriverVersion(), cuda=n.nvmlSystemGetCudaDriverVersion(), count=n.nvmlDeviceGetCount(),
        name=n.nvmlDeviceGetName(h), uuid=u, same=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(u)),
        by_bus=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId("00000000:3A:00.0")),
        minor=n.nvmlDeviceGetMinorNumber(h), bus=n.nvmlDeviceGetPciInfo(h).busId,
        capability=n.nvmlDeviceGetCudaComputeCapability(h), brand=n.nvmlDeviceGetBrand(h),
        architecture=n.nvmlDeviceGetArchitecture(h), serial=n.nvmlDeviceGetSerial(h),
        numa=[n.nvmlDeviceGetNumaNodeId(n.nvmlDeviceGetHandleByIndex(i)) for i in range(8)],
        cpus=list(n.nvmlDeviceGetCpuAffinity(n.nvmlDeviceGetHandleByIndex(7), 2)),
        limit=n.nvmlDeviceGetPowerManagementLimit(h), power=n.nvmlDeviceGetPowerUsage(h),
        temperature=n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU),
        clock=n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM), mig=n.nvmlDeviceGetMigMode(h),
        persistence=n.nvmlDeviceGetPersistenceMode(h), ecc=n.nvmlDeviceGetEccMode(h),
        errors=n.nvmlDeviceGetTotalEccErrors(h, 1, 0),
        nvml=n.nvmlSystemGetNVMLVersion(), bar1=n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total,
    )
    """)
    )
    serial = shown.pop("serial")
    assert serial.isdigit()
    assert len(serial) == 13
    with m.state() as state:
        assert shown.pop("uuid") == state.devices[0].uuid
    assert shown == {
        "driver": "610.57.02", "cuda": 13050, "count": 8, "name": "NVIDIA H100 80GB HBM3", "same": 0, "by_bus": 2,
        "minor": 0, "bus": "00000000:18:00.0", "capability": [9, 0], "brand": 20, "architecture": 9,
        "numa": [0, 0, 0, 0, 1, 1, 1, 1], "cpus": [0xFFFFFFFF << 32, 0], "limit": 700000, "power": 70000,
        "temperature": 29, "clock": 2619, "mig": [0, 0], "persistence": 0, "ecc": [1, 1], "errors": 0,
        "nvml": "13.610.57.02", "bar1": 131072 << 20,
    }  # fmt: skip


def test_memory_and_processes_of_others(machine):
    m = machine("t4x2")
    holders = [m.popen(f"context({i}); ck(cuda.cuMemAlloc({s} << 20)); answer(ok=1); sys.stdin.readline()")
               for i, s in ((0, 100), (0, 200), (1, 300))]  # fmt: skip
    for holder in holders:
        assert holder.stdout is not None
        assert holder.answer()
    script = nvml("""
    out = []
    for i in range(2):
        h = n.nvmlDeviceGetHandleByIndex(i)
        one, two = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
        assert one.used + one.free == one.total == two.total and two.used == one.used, (one, two)
        processes = sorted((p.pid, p.usedGpuMemory >> 20) for p in n.nvmlDeviceGetComputeRunningProcesses(h))
        assert processes == sorted((p.pid, p.usedGpuMemory >> 20) for p in n.nvmlDeviceGetComputeRunningProcesses_v2(h))
        assert n.nvmlDeviceGetGraphicsRunningProcesses(h) == []
        out.append([one.used >> 20, processes])
    name = n.nvmlSystemGetProcessName(out[0][1][0][0])
    answer(cards=out, name=name)
    """)
    shown = m.python(script)
    pids = [holder.pid for holder in holders]
    assert shown["cards"][0] == [300 + 2 * 104, sorted([[pids[0], 204], [pids[1], 304]])]
    assert shown["cards"][1] == [300 + 104, [[pids[2], 404]]]
    assert "python" in shown["name"]
    for holder in holders:
        holder.end()
    assert m.python(script.replace("name = n.nvmlSystemGetProcessName(out[0][1][0][0])", "name = ''"))["cards"] == [
        [0, []],
        [0, []],
    ]


def test_utilization_follows_work(machine):
    shown = machine("a100x2").python(
        nvml("""
    context()
    module = ck(cuda.cuModuleLoadData(b"x"))
    other = n.nvmlDeviceGetHandleByIndex(1)

    def launch(name):
        kernel = ck(cuda.cuModuleGetFunction(module, name))
        ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0))

    gpu = lambda handle: n.nvmlDeviceGetUtilizationRates(handle).gpu
    idle = gpu(h)
    launch(b"k_100ms")
    ck(cuda.cuCtxSynchronize())
    time.sleep(1)
    after = gpu(h)
    launch(b"k_60000ms")
    time.sleep(0.6)
    busy, power = gpu(h), n.nvmlDeviceGetPowerUsage(h)
    mine = [s.smUtil for s in n.nvmlDeviceGetProcessUtilization(h, 0) if s.pid == os.getpid()]
    answer(idle=idle, after=after, busy=busy, power=power, other=gpu(other), mine=mine)
    """)
    )
    assert shown == {"idle": 0, "after": 0, "busy": 100, "power": 400_000, "other": 0, "mine": [100]}


@pytest.mark.parametrize(
    ("profile", "kind", "links"), [("h100x8", "switch", 18), ("a100x4", "gpu", 12), ("t4x2", None, 0)]
)
def test_links_and_levels(machine, profile, kind, links):
    shown = machine(profile).python(
        nvml("""
    count = n.nvmlDeviceGetCount()
    handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
    buses = {n.nvmlDeviceGetPciInfo(x).busId: i for i, x in enumerate(handles)}
    to = []
    for link in range(n.NVML_NVLINK_MAX_LINKS):
        try:
            assert n.nvmlDeviceGetNvLinkState(h, link) == 1
            to.append(buses.get(n.nvmlDeviceGetNvLinkRemotePciInfo(h, link).busId, "switch"))
        except (n.NVMLError_NotSupported, n.NVMLError_InvalidArgument):
            break
    answer(to=to, levels=[n.nvmlDeviceGetTopologyCommonAncestor(h, x) for x in handles],
           p2p=n.nvmlDeviceGetP2PStatus(h, handles[-1], n.NVML_P2P_CAPS_INDEX_NVLINK))
    """)
    )
    assert len(shown["to"]) == links
    if kind == "switch":
        assert set(shown["to"]) == {"switch"}
        assert shown["levels"] == [0, 10, 40, 40, 50, 50, 50, 50]
    elif kind == "gpu":
        assert sorted(shown["to"]) == [1] * 4 + [2] * 4 + [3] * 4
    assert shown["p2p"] == (0 if links else 5)


def test_mig_instances_are_made_seen_by_others_and_removed(machine):
    m = machine("a100x2")
    made = m.python(
        nvml("""
    before = error_of(n.nvmlDeviceCreateGpuInstance, h, 9)
    status = n.nvmlDeviceSetMigMode(h, 1)
    infos = {}
    for profile in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = n.nvmlDeviceGetGpuInstanceProfileInfo(h, profile, version=2)
            name = info.name if isinstance(info.name, str) else info.name.decode()
            infos[info.id] = [name, info.sliceCount, info.memorySizeMB]
        except n.NVMLError_NotSupported:
            pass
    left = n.nvmlDeviceGetGpuInstanceRemainingCapacity(h, 9)
    one, two = n.nvmlDeviceCreateGpuInstance(h, 9), n.nvmlDeviceCreateGpuInstance(h, 9)
    third = error_of(n.nvmlDeviceCreateGpuInstance, h, 19)
    ci = n.nvmlGpuInstanceCreateComputeInstance(one, 0)
    info = n.nvmlGpuInstanceGetInfo(two)
    answer(before=before, infos=infos, left=left, third=third, mode=n.nvmlDeviceGetMigMode(h),
           placement=[info.placement.start, info.placement.size], id=info.id)
    """)
    )
    assert made["before"] == nvml_error("NOT_SUPPORTED")
    assert made["third"] == nvml_error("INSUFFICIENT_RESOURCES")
    assert made["infos"]["9"] == ["MIG 3g.40gb", 3, 40192]
    assert (made["left"], made["mode"], made["placement"], made["id"]) == (2, [1, 1], [4, 4], 2)
    seen = m.python(
        nvml("""
    mig = n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)
    uuid = n.nvmlDeviceGetUUID(mig)
    attributes = n.nvmlDeviceGetAttributes(mig)
    def index_of(i):
        try:
            return n.nvmlDeviceGetMigDeviceHandleByIndex(h, i) is not None
        except n.NVMLError_NotFound:
            return False
    gi = n.nvmlDeviceGetGpuInstanceById(h, 1)
    busy = None
    try:
        n.nvmlGpuInstanceDestroy(gi)
    except n.NVMLError as error:
        busy = error.value
    parent = n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)) == n.nvmlDeviceGetUUID(h)
    import ctypes
    cis, count = (n.c_nvmlComputeInstance_t * 8)(), ctypes.c_uint(8)
    n.nvmlGpuInstanceGetComputeInstances(gi, 0, cis, ctypes.byref(count))
    assert count.value == 1
    n.nvmlComputeInstanceDestroy(cis[0])
    n.nvmlGpuInstanceDestroy(gi)
    answer(prefix=uuid[:4], memory=attributes.memorySizeMB, total=n.nvmlDeviceGetMemoryInfo(h).total >> 20,
           second=index_of(1), busy=busy, parent=parent, left=n.nvmlDeviceGetGpuInstanceRemainingCapacity(h, 9))
    """)
    )
    assert seen == {
        "prefix": "MIG-", "memory": 40192, "total": 81920, "second": False, "busy": nvml_error("IN_USE"),
        "parent": True, "left": 1,
    }  # fmt: skip


def test_xids_reach_event_sets(machine):
    m = machine("t4x2")
    waiting = m.popen(
        nvml("""
    events = n.nvmlEventSetCreate()
    for i in range(2):
        n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(i), n.nvmlEventTypeXidCriticalError, events)
    answer(ready=1)
    got = []
    for _ in range(2):
        data = n.nvmlEventSetWait_v2(events, 20000)
        got.append([n.nvmlDeviceGetIndex(data.device), data.eventData, data.eventType])
    try:
        n.nvmlEventSetWait_v2(events, 10)
    except n.NVMLError_Timeout:
        got.append("timeout")
    n.nvmlEventSetFree(events)
    answer(got=got)
    """)
    )
    assert waiting.stdout is not None
    waiting.stdout.readline()
    with m.state() as state:
        state.xid(1, 48)
        state.xid(0, 31)
    out, err = waiting.communicate(timeout=30)
    assert sorted(json.loads(out)["got"][:2]) == [[0, 31, 8], [1, 48, 8]], err
    assert json.loads(out)["got"][2] == "timeout"


def test_nvml_opened_after_cuda_leaves_what_cuda_holds_accounted(machine):
    here = machine("t4")
    script = """
        context()
        ck(cuda.cuMemAlloc(1 << 30))
        import pynvml as n
        n.nvmlInit()
        answer(pid=os.getpid())
        sys.stdin.readline()
    """
    with here.popen(script) as program:
        pid = program.answer()["pid"]
        with here.state() as state:
            card = state.devices[0]
            assert [(p.pid, p.memory_used) for p in card.processes] == [(pid, (1 << 30) + card.context_reserve)]
        program.communicate("\n", timeout=60)


def test_accounting_knows_the_live_processes_once_it_is_on(machine):
    here = machine("t4")
    script = """
        context()
        ck(cuda.cuMemAlloc(1 << 30))
        answer(pid=os.getpid())
        sys.stdin.readline()
    """
    with here.popen(script) as program:
        pid = program.answer()["pid"]
        shown = here.python(
            nvml(f"""
    def refused(call, *arguments):
        try:
            return call(*arguments) is None
        except n.NVMLError as error:
            return error.value
    off = [n.nvmlDeviceGetAccountingMode(h), refused(n.nvmlDeviceGetAccountingPids, h),
           refused(n.nvmlDeviceGetAccountingBufferSize, h), refused(n.nvmlDeviceGetAccountingStats, h, {pid})]
    n.nvmlDeviceSetAccountingMode(h, 1)
    stats = n.nvmlDeviceGetAccountingStats(h, {pid})
    answer(off=off, on=n.nvmlDeviceGetAccountingMode(h), pids=n.nvmlDeviceGetAccountingPids(h),
           room=n.nvmlDeviceGetAccountingBufferSize(h), most=stats.maxMemoryUsage, running=stats.isRunning,
           other=refused(n.nvmlDeviceGetAccountingStats, h, {pid} + 1))
    """)
        )
        with here.state() as state:
            used = state.devices[0].memory_used
        program.communicate("\n", timeout=60)
    unsupported, missing = nvml_error("NOT_SUPPORTED"), nvml_error("NOT_FOUND")
    assert shown == {
        "off": [0, unsupported, unsupported, unsupported], "on": 1, "pids": [pid], "room": 512, "most": used,
        "running": 1, "other": missing,
    }  # fmt: skip


def test_a_driver_that_knows_no_pid_namespaces(machine):
    shown = machine("t4").python(
        """
    context()
    import pynvml as n
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    listed = [p.pid - os.getpid() for p in n.nvmlDeviceGetComputeRunningProcesses(h)]
    answer(listed=listed, sampled=[p.pid - os.getpid() for p in n.nvmlDeviceGetProcessUtilization(h, 0)])
    """,
        HAMI_SIM_NVML_PID_BASE="1000000",
    )
    assert shown == {"listed": [1000000], "sampled": [1000000]}
