"""Processes of several pid namespaces on the same cards, as containers are: many of them are pid 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import hami_gpusim as sim
import pytest

MIB = 1 << 20
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
KEEP_PROC = 'mount --rbind /proc "$HAMI_SIM_HOST_PROC" && exec "$@"'

# Allocates, then answers each line it reads with what NVML and the driver say of card 0.
TENANT = """
import json, os, sys
import pynvml as n
from cuda.bindings import driver as cuda

def ck(result):
    error, *values = result
    assert error == cuda.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values)

ck(cuda.cuInit(0))
ck(cuda.cuCtxSetCurrent(ck(cuda.cuDevicePrimaryCtxRetain(ck(cuda.cuDeviceGet(0))))))
ck(cuda.cuMemAlloc(int(sys.argv[1])))
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
print(json.dumps({"pid": os.getpid()}), flush=True)
for line in sys.stdin:
    listed = [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(card)]
    free, total = ck(cuda.cuMemGetInfo())
    used = n.nvmlDeviceGetMemoryInfo(card).used
    print(json.dumps({"listed": listed, "used": used, "driver_used": total - free}), flush=True)
"""


class Tenant:
    """A program that is pid 1 of a namespace of its own; `host_proc`: an empty folder, where the driver finds /proc."""

    def __init__(self, state: Path, size: int, host_proc: Path | None = None) -> None:
        rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        command, env = [*CONTAINER, *rootless], sim.environment(state)
        if host_proc is not None:
            command = ["unshare", "--mount", *rootless, "sh", "-c", KEEP_PROC, "sh", *CONTAINER]
            env["HAMI_SIM_HOST_PROC"] = str(host_proc)
        command += [sys.executable, "-c", TENANT, str(size)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)
        self.own_pid = json.loads(self.process.stdout.readline())["pid"]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.pid = int(children[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def ask(self) -> dict:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()
        self.process.wait()
        deadline = time.monotonic() + 60
        while Path(f"/proc/{self.pid}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def tenants(machine):
    """Two programs, both pid 1, with 1 and 3 GiB; and the machine they run on."""
    here = machine("a100x2")
    with ExitStack() as stack:
        yield here, [stack.enter_context(Tenant(here.directory, n * 1024 * MIB)) for n in (1, 3)]


def sizes(here) -> list[int]:
    with here.state() as state:
        reserve = state.devices[0].context_reserve
    return [n * 1024 * MIB + reserve for n in (1, 3)]


def test_each_is_seen_under_its_number_where_the_observer_is(tenants):
    here, both = tenants
    assert [t.own_pid for t in both] == [1, 1]
    seen = here.python("""
        import pynvml as n
        n.nvmlInit()
        card = n.nvmlDeviceGetHandleByIndex(0)
        answer(listed=[[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(card)],
               names=[n.nvmlSystemGetProcessName(p.pid) for p in n.nvmlDeviceGetComputeRunningProcesses(card)])
    """)
    assert sorted(seen["listed"]) == sorted([t.pid, size] for t, size in zip(both, sizes(here), strict=True))
    assert all("python" in name for name in seen["names"])
    with here.state() as state:
        assert {p.pid: p.memory_used for p in state.devices[0].processes} == dict(seen["listed"])


def test_a_process_that_cannot_be_seen_is_not_listed_but_its_memory_counts(tenants):
    here, both = tenants
    for tenant, size in zip(both, sizes(here), strict=True):
        said = tenant.ask()
        assert said["listed"] == [[1, size]]
        assert said["used"] == said["driver_used"] == sum(sizes(here))


def test_a_driver_that_knows_no_namespaces_tells_everybody_the_hosts_pids(machine, tmp_path):
    here = machine("a100x2")
    (tmp_path / "host").mkdir()
    with ExitStack() as stack:
        both = [stack.enter_context(Tenant(here.directory, n * 1024 * MIB, tmp_path / "host")) for n in (1, 3)]
        assert [t.own_pid for t in both] == [1, 1]
        wanted = sorted([t.pid, size] for t, size in zip(both, sizes(here), strict=True))
        for tenant in both:
            assert sorted(tenant.ask()["listed"]) == wanted


def test_equal_pids_and_start_times_are_told_apart(tenants):
    here, (one, other) = tenants
    with here.state() as state:
        records = [state._books.slots[n] for n in range(2)]
        assert [r.pid for r in records] == [1, 1]
        # As when both were started within the same clock tick, which can't be arranged from here.
        records[1].start_time = records[0].start_time
        del records
    assert one.ask()["listed"] == [[1, sizes(here)[0]]]
    other.kill()
    left = one.ask()
    assert left["used"] == left["driver_used"] == sizes(here)[0], "the dead one's memory is back, for its neighbour too"


def test_memory_of_a_killed_container_is_given_to_the_next(tenants):
    here, (one, other) = tenants
    one.kill()
    with Tenant(here.directory, 2048 * MIB) as third:
        assert third.ask()["used"] == sizes(here)[1] + 2048 * MIB + sizes(here)[0] - 1024 * MIB
        with here.state() as state:
            assert {p.pid for p in state.devices[0].processes} == {other.pid, third.pid}
