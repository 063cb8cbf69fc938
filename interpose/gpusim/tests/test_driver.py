"""Devices, symbols, kernels and time, through cuda-bindings, numba-cuda and C."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import hami_gpusim as sim

TABLE = Path(__file__).resolve().parents[2] / "spec" / "cuda_prototypes.tsv"


def test_devices_are_those_of_the_profile(machine):
    m = machine("h100x2")
    shown = m.python("""
    ck(cuda.cuInit(0))
    attr = cuda.CUdevice_attribute
    answer(
        version=ck(cuda.cuDriverGetVersion()),
        uuids=[bytes(ck(cuda.cuDeviceGetUuid(i)).bytes).hex() for i in range(ck(cuda.cuDeviceGetCount()))],
        name=ck(cuda.cuDeviceGetName(64, 1)).rstrip(b"\\0 ").decode().rstrip("\\0"),
        bus=ck(cuda.cuDeviceGetPCIBusId(32, 1)).split(b"\\0")[0].decode(),
        sms=ck(cuda.cuDeviceGetAttribute(attr.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)),
        capability=[
            ck(cuda.cuDeviceGetAttribute(attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0)),
            ck(cuda.cuDeviceGetAttribute(attr.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0))],
        peer=ck(cuda.cuDeviceCanAccessPeer(0, 1)),
        none=int(cuda.cuDeviceGet(2)[0]),
        text=ck(cuda.cuGetErrorName(cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY)).decode(),
    )
    """)
    with m.state() as state:
        assert [f"GPU-{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}" for u in shown.pop("uuids")] == [
            d.uuid for d in state.devices
        ]
    assert shown == {
        "version": 13050, "name": "NVIDIA H100 80GB HBM3", "bus": "0000:2A:00.0", "sms": 132, "capability": [9, 0],
        "peer": 1, "none": 101, "text": "CUDA_ERROR_OUT_OF_MEMORY",
    }  # fmt: skip


SHOW_UUIDS = """
import pynvml
error = int(cuda.cuInit(0)[0])
count = ck(cuda.cuDeviceGetCount()) if error == 0 else 0
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
answer(error=error, cuda=[bytes(ck(cuda.cuDeviceGetUuid(i)).bytes).hex()[:8] for i in range(count)],
       nvml=[pynvml.nvmlDeviceGetUUID(h)[4:12] for h in handles],
       minors=[pynvml.nvmlDeviceGetMinorNumber(h) for h in handles])
"""


def test_visibility_follows_device_nodes_then_cuda_visible_devices(machine, tmp_path):
    m = machine("t4x4")
    with m.state() as state:
        ids = [d.uuid[4:12] for d in state.devices]
    dev = tmp_path / "dev"
    dev.mkdir()
    for minor in (1, 3):
        (dev / f"nvidia{minor}").touch()

    def shown(**env):
        return m.python(SHOW_UUIDS, **env)

    everything = shown()
    assert everything["cuda"] == everything["nvml"] == ids
    some = shown(HAMI_SIM_DEV=str(dev))
    assert some == {"error": 0, "cuda": [ids[1], ids[3]], "nvml": [ids[1], ids[3]], "minors": [1, 3]}
    swapped = shown(HAMI_SIM_DEV=str(dev), CUDA_VISIBLE_DEVICES="1,0")
    assert (swapped["cuda"], swapped["nvml"]) == ([ids[3], ids[1]], [ids[1], ids[3]])
    assert shown(CUDA_VISIBLE_DEVICES=f"GPU-{ids[2]}")["cuda"] == [ids[2]]
    assert shown(CUDA_VISIBLE_DEVICES="0,7,1")["cuda"] == [ids[0]]
    for nothing in ("", "-1", "9", "0,0"):
        assert shown(CUDA_VISIBLE_DEVICES=nothing)["error"] == 100
    empty = tmp_path / "empty"
    empty.mkdir()
    assert shown(HAMI_SIM_DEV=str(empty)) == {"error": 100, "cuda": [], "nvml": [], "minors": []}


def test_without_a_state_there_is_no_driver():
    script = "import pynvml\nfrom cuda.bindings import driver\nprint(int(driver.cuInit(0)[0]))\npynvml.nvmlInit()"
    env = sim.environment("/nonexistent")
    result = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert result.stdout == "100\n"
    assert "NVMLError_DriverNotLoaded" in result.stderr


RESOLVE = """
import ctypes
lib = ctypes.CDLL("libcuda.so.1")
def get(name, version, flags):
    found, status = ctypes.c_void_p(), ctypes.c_int(9)
    error = lib.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags), ctypes.byref(status))
    return error, found.value, status.value
rows = [line.rstrip("\\n").split("\\t")[:4] for line in open(TABLE) if not line.startswith("#")]
address = {row[0]: ctypes.cast(getattr(lib, row[0]), ctypes.c_void_p).value for row in rows}
wrong = []
for name, base, since, mode in rows:
    since = int(since)
    if not since:
        continue
    for flags in (0, 1, 2):
        # Newest variant that is old enough; with the per-thread flag its per-thread form where there is one.
        fits = [(int(s), m != "-", n) for n, b, s, m in rows
                if b == base and 0 < int(s) <= since and (flags == 2 or m == "-")]
        expected = address[max(fits)[2]] if fits else None
        if get(base, since, flags) != (0, expected, 0 if expected else 2):
            wrong.append([name, since, flags])
answer(rows=len(rows), wrong=wrong, unknown=get("cuNoSuchThing", 12000, 0), empty=get("", 0, 0)[0],
       old=get("cuLaunchKernelEx", 11000, 0), new=get("cuInit", 99000, 0)[0], distinct=len(set(address.values())))
"""


def test_every_symbol_is_found_in_its_own_version_and_stream_mode(machine):
    shown = machine("t4").python(f"TABLE = {str(TABLE)!r}\n" + RESOLVE)
    assert shown["rows"] > 700
    assert shown["distinct"] == shown["rows"]
    assert shown["wrong"] == []
    assert (shown["unknown"], shown["empty"], shown["old"], shown["new"]) == ([0, None, 1], 0, [0, None, 2], 1)


def test_export_tables_are_refused_and_unsimulated_functions_say_so(machine):
    shown = machine("t4").python("""
    import ctypes
    lib = ctypes.CDLL("libcuda.so.1")
    table = ctypes.c_void_p(1)
    answer(table=lib.cuGetExportTable(ctypes.byref(table), bytes(16)), value=table.value, stub=lib.cuTexRefCreate(None))
    """)
    assert shown == {"table": 500, "value": None, "stub": 801}


def test_kernels_take_their_time_in_stream_order(machine):
    shown = machine("a100x1").python("""
    context()
    module = ck(cuda.cuModuleLoadData(b"any image"))
    kernel = ck(cuda.cuModuleGetFunction(module, b"work_2ms"))
    stream, other = ck(cuda.cuStreamCreate(0)), ck(cuda.cuStreamCreate(1))
    start, end = ck(cuda.cuEventCreate(0)), ck(cuda.cuEventCreate(0))
    began = time.perf_counter()
    ck(cuda.cuEventRecord(start, stream))
    for _ in range(50):
        ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
    ck(cuda.cuEventRecord(end, stream))
    queued = time.perf_counter() - began
    busy = int(cuda.cuStreamQuery(stream)[0])
    early = int(cuda.cuEventElapsedTime(start, end)[0])
    ck(cuda.cuStreamWaitEvent(other, end, 0))
    ck(cuda.cuStreamSynchronize(other))
    waited = time.perf_counter() - began
    answer(queued=queued, busy=busy, early=early, waited=waited, event=ck(cuda.cuEventElapsedTime(start, end)),
           done=int(cuda.cuStreamQuery(stream)[0]),
           bad=int(cuda.cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, stream, 0, 0)[0]))
    """)
    assert (shown["busy"], shown["early"], shown["done"], shown["bad"]) == (600, 600, 0, 1)
    assert 80 <= shown["event"] <= shown["waited"] * 1000  # 50 x 2 ms, each at most 20 % shorter
    assert shown["queued"] < shown["waited"]


TIME_ONE = """
context()
kernel = ck(cuda.cuModuleGetFunction(ck(cuda.cuModuleLoadData(b"x")), NAME))
start, end = ck(cuda.cuEventCreate(0)), ck(cuda.cuEventCreate(0))
ck(cuda.cuEventRecord(start, 0))
ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0))
ck(cuda.cuEventRecord(end, 0))
ck(cuda.cuEventSynchronize(end))
answer(ms=ck(cuda.cuEventElapsedTime(start, end)))
"""


def test_launch_time_is_set_from_outside(machine):
    m = machine("t4")
    with m.state() as state:
        state.set_launch_time(0.2)
        assert m.python("NAME = b'plain'\n" + TIME_ONE)["ms"] >= 160
        assert state.devices[0].busy_ns == 0  # of live processes


def test_a_busy_neighbour_halves_the_device(machine):
    m = machine("t4x2")
    neighbour = m.popen("""
    context(1)
    kernel = ck(cuda.cuModuleGetFunction(ck(cuda.cuModuleLoadData(b"x")), b"long_60000ms"))
    ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0))
    answer(ok=1)
    time.sleep(60)
    """)
    assert neighbour.answer()
    script = "NAME = b'short_100ms'\n" + TIME_ONE
    assert m.python(script.replace("context()", "context(1)"))["ms"] >= 150  # alone 120 at most
    with m.state() as state:
        assert state.devices[1].busy_ns >= 48e9
        assert state.devices[0].busy_ns == 0
    neighbour.end()


def test_graphs_by_hand_and_by_capture(machine):
    shown = machine("t4").python("""
    context()
    module = ck(cuda.cuModuleLoadData(b"x"))
    kernel = ck(cuda.cuModuleGetFunction(module, b"k_1ms"))
    memory = ck(cuda.cuMemAlloc(4096))
    stream = ck(cuda.cuStreamCreate(0))
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    ck(cuda.cuStreamBeginCapture(stream, mode))
    ck(cuda.cuMemsetD8Async(memory, 7, 16, stream))
    for _ in range(10):
        ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
    in_capture = int(cuda.cuStreamSynchronize(stream)[0])
    graph = ck(cuda.cuStreamEndCapture(stream))
    nodes = ck(cuda.cuGraphGetNodes(graph))[1]
    back = bytearray(16)
    ck(cuda.cuMemcpyDtoH(back, memory, 16))
    before = list(back)[0]
    run = ck(cuda.cuGraphInstantiate(graph, 0))
    start, end = ck(cuda.cuEventCreate(0)), ck(cuda.cuEventCreate(0))
    ck(cuda.cuEventRecord(start, stream))
    ck(cuda.cuGraphLaunch(run, stream))
    ck(cuda.cuEventRecord(end, stream))
    ck(cuda.cuEventSynchronize(end))
    ck(cuda.cuMemcpyDtoH(back, memory, 16))
    ms = ck(cuda.cuEventElapsedTime(start, end))
    ck(cuda.cuGraphExecDestroy(run)), ck(cuda.cuGraphDestroy(graph))
    answer(in_capture=in_capture, nodes=nodes, before=before, after=list(back), ms=ms)
    """)
    assert shown.pop("ms") >= 8  # ten kernels of 1 ms, each at most 20 % shorter
    assert shown == {"in_capture": 900, "nodes": 11, "before": 0, "after": [7] * 16}


def test_numba_cuda_compiles_and_launches(machine):
    shown = machine("a100x2").python("""
    import numpy as np, warnings
    from numba import cuda as nc
    warnings.simplefilter("ignore")

    @nc.jit
    def add(a, b):
        i = nc.grid(1)
        if i < a.size:
            a[i] += b

    data = nc.to_device(np.arange(1000, dtype=np.float32))
    add[8, 128](data, 1.0)
    nc.synchronize()
    back = data.copy_to_host()
    answer(devices=len(nc.gpus), name=nc.get_current_device().name, same=bool((back == np.arange(1000)).all()),
           regs=int(list(add.get_regs_per_thread().values())[0]), free=nc.current_context().get_memory_info().free)
    """)
    assert shown["devices"] == 2
    assert shown["same"]  # simulated kernels compute nothing
    assert shown["regs"] == 32
    assert shown["name"] == "NVIDIA A100-SXM4-80GB"
    assert shown["free"] < 81920 << 20


def test_a_c_program_linked_directly(machine, compiled):
    m = machine("l40sx4")
    result = subprocess.run(
        [compiled("direct")], env=sim.environment(m.directory), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout) == {
        "devices": 4, "oom": 2, "blocks": (46068 - 298) // 1024, "threads": 8, "left": 298, "nvml_used": 298,
    }  # fmt: skip
    with m.state() as state:
        assert [d.memory_used for d in state.devices] == [0] * 4


def test_the_libraries_export_the_headers_names_and_nothing_else():
    for library, table in (("libcuda.so.1", "cuda"), ("libnvidia-ml.so.1", "nvml")):
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", sim.library_dir() / library], check=True, capture_output=True, text=True
        ).stdout
        names = {line.split()[-1] for line in listed.splitlines()}
        rows = TABLE.with_name(f"{table}_prototypes.tsv").read_text().splitlines()
        assert names == {row.split("\t")[0] for row in rows if not row.startswith("#")}


def test_generated_files_are_current():
    script = Path(__file__).resolve().parents[1] / "gen_stubs.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_handles_of_the_loaded_library_are_not_needed_by_python_itself():
    """Loading the libraries into this process does nothing until they are initialised."""
    library = ctypes.CDLL(str(sim.library_dir() / "libcuda.so.1"))
    assert library.cuCtxGetDevice(None) == 3
