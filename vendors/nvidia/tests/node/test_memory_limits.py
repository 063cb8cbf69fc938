"""The driver's memory limits of containers' cgroups, on a simulated driver with and without them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pynvml
import pytest
from hami_interpose import sim
from structlog.testing import capture_logs

from hami_core import ContainerKind, ContainerRef, Slice

MIB = 1 << 20
SET, GET = "nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bed:
    """A node whose containers have folders for cgroups, and processes in a folder for /proc."""

    def __init__(self, root, make, state) -> None:
        self.root, self.make, self.state = root, make, state
        self.cgroups, self.proc = root / "cgroup", root / "proc"
        self.cgroups.mkdir()
        (self.cgroups / "cgroup.controllers").write_text("memory dmem\n")
        self.clock = Clock()
        self.pids = iter(range(1000, 2000))
        self.refs, self.slices, self.folders = {}, {}, {}
        self.start()

    def start(self, **settings) -> None:
        fixed = {"proc_root": self.proc, "cgroup_root": self.cgroups}
        self.node = self.make(clocks=(self.clock, self.clock), **fixed | settings)
        self.cards = self.node.discover()

    def pod(self, uid: str):
        return self.cgroups / f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"

    def run(self, name: str, card: int = 0, mib: int = 1000, *, pod: str = "", region: str = "", **slice_):
        """A record, and a running container of it."""
        uid = pod or f"uid-{name}"
        self.refs[name] = ContainerRef(uid, "default", uid, name, ContainerKind.APP)
        self.slices[name] = (Slice(self.cards[card].id, "NVIDIA", mib, 0, type="NVIDIA", **slice_),)
        self.folders[name] = str(self.root / "containers" / name / "region")
        return self.start_container(name, region or f"{name}/region")

    def start_container(self, name: str, region: str, run: int = 0):
        scope = self.pod(self.refs[name].pod_uid.replace("-", "_")) / f"cri-containerd-{name}-{run}.scope"
        scope.mkdir(parents=True)
        pid = str(next(self.pids))
        (scope / "cgroup.procs").write_text(f"{pid}\n")
        (scope / "dmem.max").write_text("max\n")
        (self.proc / pid).mkdir(parents=True)
        line = f"36 35 98:0 /var/lib/hami/containers/{region} /usr/local/vgpu/region rw - ext4 /dev/sda rw\n"
        (self.proc / pid / "mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n" + line)
        return scope

    def tend(self, seconds: float = 5.0) -> None:
        self.clock.now += seconds
        self.node.tend(self.refs, self.slices, self.folders)

    def mechanisms(self):
        found = self.node.metrics(self.refs, self.folders)
        return {
            s.labels["container"]: s.labels["mechanism"] for s in found if s.name == "hami_container_enforcement_info"
        }

    def failures(self) -> float:
        (sample,) = (s for s in self.node.metrics({}, {}) if s.name == "hami_memory_limit_failures_total")
        return sample.value

    def limit(self, scope, card: int = 0):
        """MiB that the driver keeps for a cgroup; None: none."""
        handle = self.node.nvml.handle(self.cards[card].id)
        got = pynvml.c_nvmlGetMemoryLimits_v1_t(str(scope).encode(), 0, 0, 0)
        try:
            pynvml.nvmlDeviceGetMemoryLimits_v1(handle, got)
        except pynvml.NVMLError:
            return None
        return None if got.hardLimit == pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX else got.hardLimit // MIB

    def set(self, scope, mib: int, card: int = 0) -> None:
        handle = self.node.nvml.handle(self.cards[card].id)
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t(str(scope).encode(), 0, mib * MIB)
        pynvml.nvmlDeviceSetMemoryLimits_v1(handle, limits)


@pytest.fixture(params=["misc", "dmem"])
def backend(request, monkeypatch):
    monkeypatch.setenv("HAMI_SIM_MEMORY_LIMITS", request.param)
    return request.param


@pytest.fixture
def misc(monkeypatch):
    monkeypatch.setenv("HAMI_SIM_MEMORY_LIMITS", "misc")


@pytest.fixture
def bed(tmp_path, node, state):
    return Bed(tmp_path, node, state)


def test_the_driver_limits_each_container(bed, backend):
    one = bed.run("one", mib=1000)
    two = bed.run("two", card=1, mib=2000)
    bed.tend()
    assert bed.mechanisms() == {"one": "driver", "two": "driver"}
    assert (bed.limit(one), bed.limit(two, 1)) == (1000, 2000)
    assert (bed.limit(one, 1), bed.limit(two)) == (None, None)
    bed.set(one, 9000)
    bed.tend(61)
    assert bed.limit(one) == 1000, "somebody else's limit is replaced"


def test_a_driver_without_limits_leaves_it_to_the_interposer(bed):
    bed.run("one")
    with capture_logs() as logs:
        for _ in range(20):
            bed.tend()
    assert bed.mechanisms() == {"one": "interposer"}
    assert len([line for line in logs if "limits no memory" in line["event"]]) == 1
    assert bed.failures() == 0


def test_a_driver_that_is_replaced_is_asked_again(bed, monkeypatch):
    scope = bed.run("one")
    bed.tend()
    monkeypatch.setenv("HAMI_SIM_MEMORY_LIMITS", "misc")
    bed.tend(400)
    assert bed.limit(scope) == 1000
    assert bed.mechanisms() == {"one": "driver"}


def test_a_container_that_starts_again_is_limited_again(bed, misc):
    first = bed.run("one")
    bed.tend()
    shutil.rmtree(first)
    bed.tend()
    assert bed.mechanisms() == {"one": "interposer"}
    second = bed.start_container("one", "one/region", run=1)
    bed.tend()
    assert bed.limit(second) == 1000
    assert bed.mechanisms() == {"one": "driver"}


def test_containers_of_a_pod_have_their_own_limits(bed, misc):
    main, side = bed.run("main", mib=1000, pod="uid-p"), bed.run("side", mib=300, pod="uid-p")
    pause = bed.pod("uid_p") / "cri-containerd-pause.scope"
    pause.mkdir()
    (pause / "cgroup.procs").write_text("1\n")
    bed.tend()
    assert [bed.limit(scope) for scope in (main, side, pause)] == [1000, 300, None]


@pytest.mark.parametrize("region", ["two/region", "one/limits", "../one/region/x"])
def test_only_a_container_with_the_records_region_is_limited(bed, misc, region):
    """Also if another pod's container has mounted it: the pod's UID is in the path."""
    wrong = bed.run("one", region=region)
    bed.run("two", region="one/region")
    bed.tend()
    assert bed.limit(wrong) is None
    assert bed.mechanisms() == {"one": "interposer", "two": "interposer"}


def test_a_cgroupfs_kubelet_and_a_nested_node_are_understood(bed, misc):
    scope = bed.run("one")
    shutil.move(bed.cgroups / "kubepods.slice", bed.root / "aside")
    for pod in (
        "kubepods/besteffort/poduid-one",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-poduid_one.slice",
    ):
        leaf = bed.cgroups / pod / "abc"
        leaf.mkdir(parents=True)
        shutil.copy(bed.root / "aside" / scope.relative_to(bed.cgroups / "kubepods.slice") / "cgroup.procs", leaf)
        bed.tend()
        assert bed.limit(leaf) == 1000
        shutil.rmtree(bed.cgroups / pod.partition("/")[0])
        bed.tend()


def test_what_needs_no_limit_of_the_driver(bed, misc, monkeypatch):
    bed.run("whole", mib=81920)
    bed.refs["whole"] = ContainerRef("uid-whole", "default", "w", "whole", ContainerKind.APP, whole_devices=True)
    bed.run("part", card=1, mib=9728, mig_profile="1g.10gb")
    bed.tend()
    assert bed.mechanisms() == {"whole": "whole", "part": "mig"}


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"driver_limits": "off"}, "interposer"),
        ({"memory_scaling": 2.0}, "interposer"),
        ({"enforcement": "observe"}, "none"),
    ],
)
def test_settings_without_a_limit_of_the_driver(bed, misc, settings, word):
    bed.start(**settings)
    scope = bed.run("one")
    bed.tend()
    assert bed.limit(scope) is None
    assert bed.mechanisms() == {"one": word}


def test_a_host_with_cgroup_v1_has_no_limits(bed, misc):
    bed.run("one")
    (bed.cgroups / "cgroup.controllers").unlink()
    bed.tend()
    assert bed.mechanisms() == {"one": "interposer"}


CODES = [*range(1, 29), 999]


@pytest.mark.parametrize("call", [SET, GET])
def test_an_error_on_one_card_leaves_the_other_alone(bed, misc, call):
    for code in CODES:
        bed.state.clear()
        one, two = bed.run(f"one-{code}"), bed.run(f"two-{code}", card=1)
        bed.state.inject(sim.Fault(call, code, device=0))
        with capture_logs() as logs:
            for _ in range(4):
                bed.tend()
        assert (bed.limit(two, 1), bed.mechanisms()[f"two-{code}"]) == (1000, "driver"), code
        assert bed.mechanisms()[f"one-{code}"] == "interposer", code
        assert len([line for line in logs if line["log_level"] == "warning"]) <= 1, code
        bed.state.clear()
        bed.tend(700)
        assert (bed.limit(one), bed.mechanisms()[f"one-{code}"]) == (1000, "driver"), code


PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, at, size = ctypes.c_void_p(), ctypes.c_uint64(), int(sys.argv[2]) << 20
print(cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
      cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
"""


def test_a_program_without_the_interposer_is_limited(bed, misc, gpus):
    scope = bed.run("one", mib=2000)
    bed.tend()

    def allocate(mib: int, cgroup) -> str:
        env = {"HAMI_SIM_STATE": str(gpus), "HAMI_SIM_CGROUP": str(cgroup)}
        command = [sys.executable, "-c", PROGRAM, str(sim.LIBRARIES / "libcuda.so.1"), str(mib)]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()

    assert allocate(1000, scope) == "0 0 0"
    assert allocate(3000, scope) == "0 0 2", "out of memory"
    assert allocate(3000, bed.cgroups) == "0 0 0"
