"""The agent writes the host pids of a container's processes into its region, so that its library knows them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import region
from hami_interpose.host_pids import Claim
from hami_interpose.limits import encode
from hami_nvidia.allocate import limits_of
from hami_nvidia.host_pids import HOSTS_NAMESPACE, Identity, identity, match
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hami_core import ContainerKind, ContainerRef, Slice

MIB = 1 << 20
SLOTS_IN_USE = 2008896
V1_SLOTS, V1_SLOT = 1856, 1960
OWNERS, OWNER = region.BLOCK_OFFSET + 8192, 8
COUNTED = 1 << 62  # state of a slot, in its owner word
LOCKS = 1 << 40
BEAT = range(region.AGENT_BEAT_OFFSET, region.AGENT_BEAT_OFFSET + 8)


class Bed:
    """Containers of one card, an agent that tends them, and the /proc that the agent sees."""

    def __init__(self, root: Path, make) -> None:
        self.root, self.make, self.passed = root, make, 0.0
        self.proc = root / "proc"
        (self.proc / "self/ns").mkdir(parents=True)
        (self.proc / "self/ns/pid").symlink_to(HOSTS_NAMESPACE)
        self.restart()
        self.card = self.made.discover()[0].id
        self.refs, self.slices, self.folders = {}, {}, {}

    def restart(self) -> None:
        self.made = self.make(
            clocks=(lambda: self.passed, lambda: self.passed), proc_root=self.proc, driver_limits="off"
        )

    def add(self, name: str) -> Path:
        """Make a container with a region. Returns the container's root."""
        self.refs[name] = ContainerRef(f"uid-{name}", "default", name, "main", ContainerKind.APP)
        self.slices[name] = (Slice(self.card, "NVIDIA", 4000, 0, type="NVIDIA"),)
        limits = limits_of(self.slices[name], self.refs[name], self.made.options, "enforce", "nvidia.com/priority")
        folder = self.root / name / "region"
        for part in (folder, folder.with_name("limits")):
            part.mkdir(parents=True)
        folder.with_name("limits").joinpath("limits").write_bytes(encode(limits))
        self.file(name).write_bytes(region.initial(limits))
        self.folders[name] = str(folder)
        return folder.parent

    def file(self, name: str) -> Path:
        return self.root / name / "region/vgpu.cache"

    def see(self, *pids: int) -> None:
        """Add processes to the agent's /proc."""
        for pid in pids:
            (self.proc / str(pid)).symlink_to(f"/proc/{pid}")

    def look(self, seconds: float = 10.0) -> None:
        self.passed += seconds
        self.made.tend(self.refs, self.slices, self.folders)

    def pids(self, name: str) -> dict[int, int]:
        """The host pids in the region, by inner pid."""
        content = self.file(name).read_bytes()
        rows = struct.iter_unpack(f"<ii{V1_SLOT - 8}x", content[V1_SLOTS : V1_SLOTS + 1024 * V1_SLOT])
        return {pid: host_pid for pid, host_pid in rows if pid}

    def write(self, name: str, offset: int, form: str, *values: int) -> None:
        with self.file(name).open("r+b") as file:
            file.seek(offset)
            file.write(struct.pack(form, *values))

    def claim(self, name: str, slot: int, pid: int, start: int, host_pid: int = 0) -> None:
        """Write a claim to a slot, as a real or hostile process does."""
        self.write(name, SLOTS_IN_USE, "<i", slot + 1)
        self.write(name, OWNERS + slot * OWNER, "<Q", COUNTED | start << 22 | pid)
        self.write(name, V1_SLOTS + slot * V1_SLOT, "<ii", pid, host_pid)


@pytest.fixture
def bed(node, tmp_path):
    return Bed(tmp_path, node)


# ---- real processes in their own pid namespaces, with a driver that knows no pid namespaces ----

# Forks a child; both take memory, the parent `MiB`, the child twice that. Then the parent answers each line it reads.
TENANT = """
import json, os, signal, sys
import pynvml as n
from cuda.bindings import driver as cuda

def ck(result):
    error, *values = result
    assert error == cuda.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values)

ready, told = os.pipe()
child = os.fork()
size = int(sys.argv[1]) * (1 if child else 2)
ck(cuda.cuInit(0))
ck(cuda.cuCtxSetCurrent(ck(cuda.cuDevicePrimaryCtxRetain(ck(cuda.cuDeviceGet(0))))))
ck(cuda.cuMemAlloc(size << 20))
if not child:
    os.write(told, b"r")
    signal.pause()
assert os.read(ready, 1)
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)

def samples():
    try:
        return sorted(sample.pid for sample in n.nvmlDeviceGetProcessUtilization(card, 0))
    except n.NVMLError_NotFound:
        return []

def most(pid):
    try:
        return n.nvmlDeviceGetAccountingStats(card, pid).maxMemoryUsage >> 20
    except n.NVMLError_NotFound:
        return None

print(json.dumps([os.getpid(), child]), flush=True)
for line in sys.stdin:
    answer = {"samples": samples(), "accounted": sorted(n.nvmlDeviceGetAccountingPids(card))}
    print(json.dumps(answer | {"most": [most(int(pid)) for pid in line.split()]}), flush=True)
"""
# Lists the card's processes as the administrator's tools see them.
HOST = """
import json, sys
import pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
n.nvmlDeviceSetAccountingMode(card, 1)
print(json.dumps([[p.pid, p.usedGpuMemory >> 20] for p in n.nvmlDeviceGetComputeRunningProcesses(card)]))
"""
# The host's /proc stays where a driver finds it. The container has its own /proc.
BOX = (
    'mount --rbind /proc "$HAMI_SIM_HOST_PROC" && '
    'exec unshare --pid --fork --mount-proc --kill-child env LD_PRELOAD="$PRELOAD" "$@"'
)


class Tenant:
    """Two processes of a container, pid 1 and its child."""

    def __init__(self, root: Path, gpus: Path, mib: int) -> None:
        (root / "host").mkdir(exist_ok=True)
        own = {"HAMI_VGPU_ROOT": str(root), "HAMI_SIM_HOST_PROC": str(root / "host")}
        env = sim.environment(gpus) | own | {"PRELOAD": str(hami_interpose.library())}
        rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        command = ["unshare", "--mount", *rootless, "sh", "-c", BOX, "box", sys.executable, "-c", TENANT, str(mib)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)
        self.pids: list[int] = json.loads(self.process.stdout.readline())
        first = self.children(self.process.pid)[0]
        self.host_pids = [first, *self.children(first)]

    @staticmethod
    def children(pid: int) -> list[int]:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def ask(self, *pids: int) -> dict:
        self.process.stdin.write(" ".join(map(str, pids)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.kill()


def host_sees(gpus: Path) -> dict[int, int]:
    """MiB of each process on the card by host pid."""
    env = sim.environment(gpus) | {"HAMI_SIM_HOST_PROC": "/proc"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", HOST], env=env, check=True, capture_output=True)
    return dict(json.loads(done.stdout))


@pytest.fixture
def tenants(bed, gpus, state):
    """Two containers whose processes have the same pids inside."""
    with ExitStack() as stack:
        found = {name: stack.enter_context(Tenant(bed.add(name), gpus, n * 100)) for n, name in enumerate("xy", 1)}
        bed.see(*(pid for tenant in found.values() for pid in tenant.host_pids))
        yield found


def test_each_container_finds_its_own_processes_and_no_others(bed, tenants, gpus):
    x, y = tenants.values()
    on_card = host_sees(gpus)
    assert on_card.keys() == {*x.host_pids, *y.host_pids}
    assert x.pids == y.pids
    for tenant in (x, y):
        assert tenant.ask(*tenant.pids) == {"samples": [], "accounted": [], "most": [None, None]}, (
            "before the agent named them"
        )
    bed.look()
    for tenant in (x, y):
        assert tenant.ask(*tenant.pids, *y.host_pids, *x.host_pids) == {
            "samples": sorted(tenant.pids),
            "accounted": sorted(tenant.pids),
            "most": [*(on_card[pid] for pid in tenant.host_pids), *[None] * 4],
        }
    for name, tenant in tenants.items():
        assert bed.pids(name) == dict(zip(tenant.pids, tenant.host_pids, strict=True))


def test_driver_memory_is_reported_for_each_container(bed, tenants, gpus, monkeypatch):
    monkeypatch.setenv("HAMI_SIM_HOST_PROC", "/proc")  # the agent's driver reports host pids
    name = "hami_vgpu_memory_driver_bytes"

    def told() -> dict[str, int]:
        samples = bed.made.metrics(bed.refs, bed.folders)
        assert {sample.labels["device_uuid"] for sample in samples if sample.name == name} <= {bed.card}
        return {sample.labels["pod"]: int(sample.value) // MIB for sample in samples if sample.name == name}

    assert told() == {}, "before any process is named"
    bed.look()
    on_card = host_sees(gpus)
    assert told() == {name: sum(on_card[pid] for pid in tenant.host_pids) for name, tenant in tenants.items()}


def test_utilization_is_reported_for_each_container(bed, tenants, monkeypatch):
    monkeypatch.setenv("HAMI_SIM_HOST_PROC", "/proc")  # the agent's driver reports host pids
    asked = []
    percents = {pid: 10 * n for n, tenant in enumerate(tenants.values(), 1) for pid in tenant.host_pids}
    real = bed.made.nvml.process_utilization

    def working(uuid: str, since: float) -> dict[int, int] | None:
        asked.append(real(uuid, since))
        return percents

    monkeypatch.setattr(bed.made.nvml, "process_utilization", working)

    def told() -> dict[str, float]:
        name = "hami_container_device_utilization_ratio"
        return {s.labels["pod"]: s.value for s in bed.made.metrics(bed.refs, bed.folders) if s.name == name}

    assert told() == {}, "before any process is named"
    bed.look()
    assert told() == {"x": 20.0, "y": 40.0}
    assert asked == [dict.fromkeys(percents, 0)], "the driver is asked once, and its processes are idle"


def test_processes_of_a_restarted_container_are_named_again(bed, tenants, gpus):
    """A restarted container keeps its region, and its first process has inner pid 1 again."""
    bed.look()
    last = tenants["x"]
    last.kill()
    with Tenant(bed.root / "x", gpus, 100) as heir:
        assert heir.pids == last.pids
        assert bed.pids("x") == dict.fromkeys(heir.pids, 0)
        bed.see(*heir.host_pids)
        bed.look()
        assert bed.pids("x") == dict(zip(heir.pids, heir.host_pids, strict=True))
        assert heir.ask()["samples"] == sorted(heir.pids)


def test_a_new_agent_corrects_wrong_host_pids(bed, tenants):
    bed.look()
    named = bed.pids("x")
    bed.write("x", V1_SLOTS + 4, "<i", tenants["y"].host_pids[0])
    bed.restart()
    bed.look()
    assert bed.pids("x") == named
    bed.write("x", V1_SLOTS + 4, "<i", 4711)
    bed.look()
    assert bed.pids("x") == named


# ---- claims and locks of slots ----

HOLDER = """
import fcntl, os, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, int(sys.argv[3]), int(sys.argv[2]))
print(open("/proc/self/stat").read().rpartition(")")[2].split()[19], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Start a process that holds locks of a region. Returns its pid and start time; `end` ends it."""
    processes: dict[int, subprocess.Popen] = {}

    def start(path: Path, slot: int, slots: int = 1) -> tuple[int, int]:
        command = [sys.executable, "-I", "-S", "-c", HOLDER, str(path), str(LOCKS + slot), str(slots)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes[process.pid] = process
        return process.pid, int(process.stdout.readline())

    start.end = lambda pid: processes.pop(pid).communicate()
    yield start
    for process in processes.values():
        process.communicate()


def test_only_the_lock_holder_with_the_slots_identity_is_named(bed, hold):
    bed.add("x")
    bed.add("y")
    pid, start = hold(bed.file("x"), 0)
    other, others_start = hold(bed.file("y"), 1)
    bed.see(pid, other)
    bed.claim("x", 0, pid, start)
    bed.claim("x", 1, other, others_start)  # alive, but holds no lock of this region
    bed.claim("y", 0, other, others_start)  # holds the lock of another slot
    bed.claim("y", 1, pid, start)  # does not hold this lock
    bed.look()
    assert bed.pids("x") == {pid: pid, other: 0}
    assert bed.pids("y") == {other: 0, pid: 0}


@pytest.mark.parametrize("wrong", ["start time", "pid", "owner"])
def test_another_process_with_the_lock_is_not_named(bed, hold, wrong):
    bed.add("x")
    pid, start = hold(bed.file("x"), 0)
    bed.see(pid)
    bed.claim("x", 0, pid + (wrong == "pid"), start + (wrong == "start time"))
    if wrong == "owner":
        bed.write("x", OWNERS, "<Q", 0)
    bed.look()
    assert set(bed.pids("x").values()) == {0}


@pytest.mark.parametrize("change", ["nothing", "the process ends", "the slot has another"])
def test_a_slot_that_changes_owner_meanwhile_is_not_named(bed, hold, change):
    """The agent reads the holder from /proc. Here /proc is a pipe that answers only after the change."""
    bed.add("x")
    pid, start = hold(bed.file("x"), 0)
    bed.claim("x", 0, pid, start)
    folder = bed.proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(Path(f"/proc/{pid}/stat").read_text())
    status = Path(f"/proc/{pid}/status").read_text()
    os.mkfifo(folder / "status")
    looking = threading.Thread(target=bed.look)
    looking.start()
    with (folder / "status").open("w") as answer:  # open() returns when the agent opens the FIFO to read
        if change == "the process ends":
            hold.end(pid)
        elif change == "the slot has another":
            bed.claim("x", 0, pid, start + 1)
        answer.write(status)
    looking.join()
    assert bed.pids("x") == {pid: pid if change == "nothing" else 0}


def test_unproven_slots_are_retried_with_growing_pauses(bed, hold):
    bed.add("x")
    pid, start = hold(bed.file("x"), 0)
    bed.claim("x", 0, pid, start)
    bed.look()  # at 10 s without success; next attempt after 10 s
    bed.look()  # without success; next attempt after 20 s
    bed.see(pid)
    bed.look()
    assert bed.pids("x") == {pid: 0}
    bed.look()
    assert bed.pids("x") == {pid: pid}


def test_many_slots_take_several_looks_without_delaying_others(bed, hold):
    for name in "xy":
        bed.add(name)
        pid, start = hold(bed.file(name), 0, 1024)
        bed.see(pid)
        for slot in range(300 if name == "x" else 3):
            bed.claim(name, slot, pid, start)

    def named(name):
        content = bed.file(name).read_bytes()
        return sum(struct.unpack_from("<i", content, V1_SLOTS + n * V1_SLOT + 4)[0] != 0 for n in range(1024))

    seen = []
    for _ in range(3):
        bed.look()
        seen.append((named("x"), named("y")))
    assert seen == [(128, 3), (256, 3), (300, 3)]


@pytest.mark.parametrize("namespace", ["pid:[4026532853]", None])
def test_without_the_hosts_pid_namespace_nothing_is_named(bed, hold, namespace):
    link = bed.proc / "self/ns/pid"
    link.unlink()
    if namespace:
        link.symlink_to(namespace)
    bed.add("x")
    pid, start = hold(bed.file("x"), 0)
    bed.see(pid)
    bed.claim("x", 0, pid, start)
    with capture_logs() as logs:
        for _ in range(3):
            bed.look()
    assert bed.pids("x") == {pid: 0}
    assert [(entry["log_level"], entry["namespace"]) for entry in logs] == [("info", namespace or "")]


def test_a_proc_of_another_namespace_names_nobody(bed, hold, tmp_path):
    """In that /proc, the pid that the kernel reports belongs to another process."""
    bed.add("x")
    pid, start = hold(bed.file("x"), 0)
    (bed.proc / str(pid)).symlink_to(f"/proc/{os.getpid()}")
    assert identity(bed.proc, pid) is None
    bed.claim("x", 0, pid, start)
    bed.look()
    assert bed.pids("x") == {pid: 0}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    in_use=st.integers(-(2**31), 2**31 - 1),
    slots=st.lists(
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1)),
        max_size=20,
    ),
)
def test_no_process_is_named_without_a_lock(bed, in_use, slots):
    if "x" not in bed.refs:
        bed.add("x")
    bed.write("x", SLOTS_IN_USE, "<i", in_use)
    for n, (pid, host_pid, owner) in enumerate(slots):
        bed.write("x", V1_SLOTS + n * V1_SLOT, "<ii", pid, host_pid)
        bed.write("x", OWNERS + n * OWNER, "<Q", owner)
    before = bed.file("x").read_bytes()
    bed.look()
    after = bed.file("x").read_bytes()
    assert before[: BEAT.start] == after[: BEAT.start]
    assert before[BEAT.stop :] == after[BEAT.stop :]


# ---- the rule ----

pids = st.integers(1, 5)
claims = st.builds(Claim, st.integers(0, 7), pids, pids)
identities = st.builds(Identity, st.integers(1, 100), pids, pids)


@given(st.lists(claims, max_size=8, unique_by=lambda c: c.slot), st.dictionaries(st.integers(0, 7), identities))
def test_match_needs_lock_pid_and_start_time(claims, holders):
    named = match(claims, holders)
    assert len(named) == len({claim.slot for claim, _ in named})
    for claim, pid in named:
        assert claim in claims
        assert holders[claim.slot] == Identity(pid, claim.pid, claim.start_time)
    for claim in claims:
        who = holders.get(claim.slot)
        if who is not None and who.inner_pid == claim.pid and who.start_time == claim.start_time:
            assert (claim, who.pid) in named


STATUS = "Name:\tx\nTgid:\t{0}\nNgid:\t0\nPid:\t{0}\n{1}NSpgid:\t1\n"
STAT = "{0} (a) b) c) R 1 " + "0 " * 17 + "{1} 0 0\n"


def fake(proc: Path, pid: int, line: str, start: object) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "status").write_text(STATUS.format(pid, line))
    (proc / str(pid) / "stat").write_text(STAT.format(pid, start))


@pytest.mark.parametrize(
    ("line", "start", "found"),
    [
        ("NSpid:\t77\t5\t1\n", 1234, Identity(77, 1, 1234)),
        ("NSpid:\t77\n", 1234, Identity(77, 77, 1234)),
        ("NSpid:\t77\t5\n", 1234 + (1 << 40), Identity(77, 5, 1234)),
        ("NSpid:\t5\t1\n", 1234, None),
        ("NSpid:\n", 1234, None),
        ("", 1234, None),
        ("NSpid:\t77\t5\n", "x", None),
        ("NSpid:\t77\tx\n", 1234, None),
    ],
)
def test_identity_is_read_from_proc(tmp_path, line, start, found):
    fake(tmp_path, 77, line, start)
    assert identity(tmp_path, 77) == found


def test_an_ended_process_has_no_identity(tmp_path):
    assert identity(tmp_path, 77) is None
