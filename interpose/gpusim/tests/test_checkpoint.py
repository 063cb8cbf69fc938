"""Suspended processes: who may take which step when, what waits, and what the devices have meanwhile."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

MIB = 1 << 20
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
OPERATING_SYSTEM, ILLEGAL_STATE, NOT_READY, NOT_SUPPORTED = 304, 401, 600, 801
RUNNING, LOCKED, CHECKPOINTED, FAILED = 0, 1, 2, 3

# Evaluates what it reads, a line at a time. A call that may wait is made by a thread and asked for later.
TENANT = """
import threading
import pynvml as nvml

def lock(pid, ms=0):
    args = cuda.CUcheckpointLockArgs()
    args.timeoutMs = ms
    return int(cuda.cuCheckpointProcessLock(pid, args)[0])

def checkpoint(pid):
    return int(cuda.cuCheckpointProcessCheckpoint(pid, cuda.CUcheckpointCheckpointArgs())[0])

def restore(pid, pairs=()):
    args = cuda.CUcheckpointRestoreArgs()
    if pairs:
        args.gpuPairs, args.gpuPairsCount = pairs, len(pairs)
    return int(cuda.cuCheckpointProcessRestore(pid, args)[0])

def unlock(pid):
    return int(cuda.cuCheckpointProcessUnlock(pid, cuda.CUcheckpointUnlockArgs())[0])

def state(pid):
    error, value = cuda.cuCheckpointProcessGetState(pid)
    return int(value) if int(error) == 0 else -int(error)

def thread_of(pid):
    return [int(value) for value in cuda.cuCheckpointProcessGetRestoreThreadId(pid)]

def alloc(mib):
    error, address = cuda.cuMemAlloc(mib << 20)
    kept.append(address)
    return int(error)

def used():
    free, total = ck(cuda.cuMemGetInfo())
    return total - free

def listed():
    nvml.nvmlInit()
    return [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(0))]

def managed(mib):
    return int(cuda.cuMemAllocManaged(mib << 20, 1)[0])

def later(call, *values):
    def run():
        ck(cuda.cuCtxSetCurrent(ctx))
        found.append(call(*values))
    threading.Thread(target=run, daemon=True).start()

def itself():
    def run():
        pid = os.getpid()
        steps = (lock, checkpoint, restore, unlock)
        found.append([value for step in steps for value in (step(pid), state(pid))])
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found.pop()

def busy():
    module = ck(cuda.cuModuleLoadData(b"x"))
    kernel = ck(cuda.cuModuleGetFunction(module, b"k_3000ms"))
    ck(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))

kept, found = [], []
ctx = context()
answer(pid=os.getpid())
for line in sys.stdin:
    answer(value=eval(line))
"""


class Tenant:
    """A process that evaluates what it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid: int = self._read()["pid"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        found: dict[str, Any] = json.loads(line)
        return found

    def __call__(self, expression: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{expression}\n")
        self.process.stdin.flush()
        return self._read().get("value")

    def wait_for(self, expression: str, wanted: object) -> None:
        deadline = time.monotonic() + 60
        while self(expression) != wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self(expression) == wanted


@pytest.fixture
def box(machine) -> Any:
    return machine()


@pytest.fixture
def tenant(box) -> Iterator[Callable[[], Tenant]]:
    started = []

    def start() -> Tenant:
        started.append(Tenant(box.popen(TENANT)))
        return started[-1]

    yield start
    for one in started:
        one.process.end()


def used(other: Tenant) -> int:
    """Of the first device, as somebody sees it who is not suspended."""
    return int(other("used()"))


def test_there_and_back(tenant):
    other, one = tenant(), tenant()
    pid = one.pid
    assert one("alloc(1000)") == SUCCESS
    before = used(other)
    assert other(f"[state({pid}), lock({pid}), state({pid})]") == [RUNNING, SUCCESS, LOCKED]
    assert used(other) == before
    assert other(f"[checkpoint({pid}), state({pid})]") == [SUCCESS, CHECKPOINTED]
    share = before - used(other)
    assert other("listed()") == [other.pid]
    assert share > 1000 * MIB
    assert other(f"[restore({pid}), state({pid})]") == [SUCCESS, LOCKED]
    assert used(other) == before
    assert other(f"[unlock({pid}), state({pid})]") == [SUCCESS, RUNNING]
    assert one("[alloc(2), int(cuda.cuMemFree(kept[0])[0])]") == [SUCCESS, SUCCESS]
    assert used(other) == before - 998 * MIB


STEPS = ("lock", "checkpoint", "restore", "unlock")
LEGAL = {
    RUNNING: {"lock": LOCKED},
    LOCKED: {"checkpoint": CHECKPOINTED, "unlock": RUNNING},
    CHECKPOINTED: {"restore": LOCKED},
}


def test_every_step_from_every_state(tenant):
    other, one = tenant(), tenant()
    for start, way in ((RUNNING, ()), (LOCKED, ("lock",)), (CHECKPOINTED, ("lock", "checkpoint"))):
        for step in STEPS:
            assert [other(f"{before}({one.pid})") for before in way] == [SUCCESS] * len(way)
            after = LEGAL[start].get(step, start)
            expected = SUCCESS if step in LEGAL[start] else ILLEGAL_STATE
            assert other(f"[{step}({one.pid}), state({one.pid})]") == [expected, after], (start, step)
            for back in {RUNNING: (), LOCKED: ("unlock",), CHECKPOINTED: ("restore", "unlock")}[after]:
                assert other(f"{back}({one.pid})") == SUCCESS


def test_calls_wait_until_it_is_unlocked(tenant):
    other, one = tenant(), tenant()
    assert other(f"lock({one.pid})") == SUCCESS
    one("later(alloc, 8)")
    assert one("[int(cuda.cuInit(0)[0]), state(os.getpid())]") == [SUCCESS, LOCKED]
    assert other(f"[checkpoint({one.pid}), restore({one.pid})]") == [SUCCESS, SUCCESS]
    time.sleep(0.05)
    assert one("found") == []
    assert other(f"unlock({one.pid})") == SUCCESS
    one.wait_for("found", [SUCCESS])


def test_a_lock_waits_for_work_but_not_for_ever(tenant):
    other, one = tenant(), tenant()
    one("busy()")
    assert other(f"[lock({one.pid}, 50), state({one.pid})]") == [NOT_READY, RUNNING]
    assert one("alloc(8)") == SUCCESS
    assert other(f"[lock({one.pid}), state({one.pid})]") == [SUCCESS, LOCKED]


def test_a_process_may_suspend_itself_from_any_thread(tenant):
    other, one = tenant(), tenant()
    assert one("alloc(100)") == SUCCESS
    before = used(other)
    assert one("itself()") == [SUCCESS, LOCKED, SUCCESS, CHECKPOINTED, SUCCESS, LOCKED, SUCCESS, RUNNING]
    assert used(other) == before
    assert one("alloc(100)") == SUCCESS


def test_a_restore_that_finds_no_room_spoils_the_process(tenant):
    """As driver 580 does."""
    other, one = tenant(), tenant()
    pid = one.pid
    assert one("alloc(40000)") == SUCCESS
    assert other(f"[lock({pid}), checkpoint({pid}), alloc(60000)]") == [SUCCESS] * 3
    before = used(other)
    assert other(f"[restore({pid}), state({pid})]") == [OUT_OF_MEMORY, CHECKPOINTED]
    assert used(other) == before
    assert other("int(cuda.cuMemFree(kept[-1])[0])") == SUCCESS
    assert other(f"[restore({pid}), state({pid}), unlock({pid})]") == [OPERATING_SYSTEM, CHECKPOINTED, ILLEGAL_STATE]


def test_unified_and_shared_memory_cannot_leave(tenant):
    other = tenant()
    for what in ("managed(64)", "[alloc(64), int(cuda.cuIpcGetMemHandle(kept[0])[0])][1]"):
        one = tenant()
        assert one(what) == SUCCESS
        assert other(f"[lock({one.pid}), checkpoint({one.pid}), state({one.pid})]") == [SUCCESS, NOT_SUPPORTED, FAILED]
        assert other(f"[{', '.join(f'{step}({one.pid})' for step in STEPS)}]") == [ILLEGAL_STATE] * 4
    one = tenant()
    assert one("int(cuda.cuMemFree(cuda.cuMemAllocManaged(4096, 1)[1])[0])") == SUCCESS
    assert other(f"[lock({one.pid}), checkpoint({one.pid})]") == [SUCCESS, SUCCESS]


def test_a_process_that_is_killed_while_suspended_vanishes(tenant):
    other, one = tenant(), tenant()
    assert one("alloc(100)") == SUCCESS
    before = used(other)
    assert other(f"[lock({one.pid}), checkpoint({one.pid})]") == [SUCCESS, SUCCESS]
    one.process.kill()
    one.process.wait()
    assert other(f"[restore({one.pid}), state({one.pid})]") == [INVALID_VALUE, -INVALID_VALUE]
    assert used(other) < before - 100 * MIB
    again = tenant()  # comes to its slot, and runs
    assert again("alloc(1)") == SUCCESS
    assert other(f"state({again.pid})") == RUNNING


def test_whoever_locks_and_dies_locks_nobody(tenant):
    other, one = tenant(), tenant()
    one("busy()")
    other.process.stdin.write(f"lock({one.pid})\n")
    other.process.stdin.flush()
    time.sleep(0.05)
    other.process.kill()
    other.process.wait()
    assert one("alloc(8)") == SUCCESS
    assert one("state(os.getpid())") == RUNNING


def test_what_may_be_asked(box, tenant):
    one = tenant()
    assert one("thread_of(os.getpid())") == [SUCCESS, one.pid]
    assert [one(f"state({pid})") for pid in (0, -1, 1 << 22)] == [-INVALID_VALUE] * 3
    assert one("lock(1 << 22)") == INVALID_VALUE
    answer = box.python("answer(state=int(cuda.cuCheckpointProcessGetState(os.getpid())[0]))")
    assert answer == {"state": NOT_INITIALIZED}


def test_a_restore_stays_on_its_devices(tenant):
    other, one = tenant(), tenant()
    pid = one.pid
    pair = "cuda.CUcheckpointGpuPair()"
    uuids = "[cuda.cuDeviceGetUuid(i)[1] for i in (0, 1)]"
    make = (
        f"(lambda p, u, new: [setattr(p, 'oldUuid', u[0]), setattr(p, 'newUuid', u[new]), p][2])({pair}, {uuids}, %d)"
    )
    assert other(f"[lock({pid}), checkpoint({pid})]") == [SUCCESS, SUCCESS]
    assert other(f"[restore({pid}, [{make % 1}]), state({pid})]") == [NOT_SUPPORTED, CHECKPOINTED]
    assert other(f"[restore({pid}, [{make % 0}]), state({pid})]") == [SUCCESS, LOCKED]
