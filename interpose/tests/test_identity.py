"""Which process is which and which lives: in pid namespaces of their own, and as soon as it has ended."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMIT = 4096
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
SANDBOXES = {
    "the outer /proc": UNSHARE,
    "a /proc of its own": (*UNSHARE, "--mount-proc"),
    "one in another": (*UNSHARE, "--mount-proc", *UNSHARE, "--mount-proc"),
    "no /proc": (*UNSHARE, "--mount", "sh", "-c", 'umount -l /proc; exec "$0"'),
    "bubblewrap": ("bwrap", "--dev-bind", "/", "/", "--unshare-pid"),
}


@pytest.fixture(params=SANDBOXES)
def sandbox(request):
    """The command that makes the program behind it the first process of a pid namespace."""
    command = SANDBOXES[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]}: {done.stderr.strip()}")
    return command


def test_processes_of_their_own_namespaces_share_one_limit(make_container, shells, sandbox):
    container = make_container(LIMIT)
    inside = [shells(container, inside=sandbox, device=None) for _ in range(3)]
    taken = [shell.status("use", 0) or shell.status("alloc", 1024 * MIB) for shell in inside]
    assert taken == [0, 0, OUT_OF_MEMORY]
    assert container.agreed() <= LIMIT * MIB
    outside = shells(container)
    assert outside.status("alloc", 1024 * MIB) == OUT_OF_MEMORY
    container.agreed()
    for shell in inside:
        shell.process.communicate()  # and waits for what made its namespace, as a parent does
    assert outside.free_bytes() == LIMIT * MIB - container.agreed()
    assert container.agreed() == container.region().devices[0].context_bytes


def test_first_processes_of_one_clock_tick_are_told_apart(make_container, programs):
    """All have pid 1 and may have started at the same time."""
    if subprocess.run([*UNSHARE, "--mount-proc", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no pid namespaces here")
    container = make_container(LIMIT)
    line = " ".join([*UNSHARE, "--mount-proc", str(programs("shell"))])
    one = f"(echo use 0; echo alloc {512 * MIB}; cat <&3) | {line}"
    together = container.start("sh", "-c", f"exec 3<&0; for i in 1 2 3 4 5 6 7 8; do {one} & done; echo; wait")
    for _ in range(8 * 3 + 1):
        assert together.stdout.readline()
    assert LIMIT * MIB - 1024 * MIB < container.agreed() <= LIMIT * MIB
    together.communicate()
    assert container.agreed() == 0


@pytest.mark.parametrize("way", ["ends", "is killed"])
def test_free_memory_is_true_once_a_process_was_waited_for(started, shells, way):
    """Servers decide by their first look whether to start: by cuMemGetInfo and NVML, an old process and a newcomer."""
    container, watching = started(LIMIT)
    before = watching.free_bytes()
    for _ in range(6):
        worker = shells(container)
        assert worker.status("alloc", 2048 * MIB) == 0
        assert watching.free_bytes() < before - 2048 * MIB
        if way == "is killed":
            worker.process.kill()
        worker.process.communicate()
        assert watching.free_bytes() == before
    worker = shells(container)
    assert worker.status("alloc", 2048 * MIB) == 0
    worker.process.kill()
    worker.process.communicate()
    assert watching("nvml", 0)[2] == LIMIT * MIB - before
    newcomer = shells(container)
    assert newcomer.free_bytes() == LIMIT * MIB - 2 * (LIMIT * MIB - before)


HOLDER = """
import ctypes, os, sys, time
from hami_interpose import region
cuda, address, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)) == 0
print("holds", flush=True)
for line in sys.stdin:
    if line == "read\\n":
        found = region.read(os.environ["HAMI_VGPU_ROOT"] + "/region/vgpu.cache")
        print(found.devices[0].used_bytes, *(process.pid for process in found.processes), flush=True)
    else:
        os.closerange(3, 1024)
        time.sleep(0.3)
        assert cuda.cuMemFree_v2(address) == cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)) == 0
        print("closed", flush=True)
"""


@pytest.mark.parametrize("deed", ["read", "close"])
def test_process_that_closes_the_region_stays_known(make_container, deed):
    """Any close of the file drops the record lock by which others outside see that the process lives."""
    container = make_container(LIMIT)
    holder = container.start(sys.executable, "-c", HOLDER)
    assert holder.stdout.readline() == "holds\n"
    before = container.region()
    holder.stdin.write(f"{deed}\n")
    said = f"{before.devices[0].used_bytes} {holder.pid}\n" if deed == "read" else "closed\n"
    assert holder.stdout.readline() == said
    after = container.region()
    assert (after.devices[0].used_bytes, after.processes) == (before.devices[0].used_bytes, before.processes)
    assert [process.pid for process in after.processes] == [holder.pid]
