"""The driver's memory limits of pods' cgroups, on a simulated driver with and without them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import hami_gpusim as sim
import pynvml
import pytest
from structlog.testing import capture_logs

from hami_core import ContainerKind, ContainerRef, Slice

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
SET, GET = "nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bed:
    """A node whose pods have folders for cgroups."""

    def __init__(self, root, make, state) -> None:
        self.root, self.make, self.state = root, make, state
        self.cgroups = root / "cgroup"
        self.cgroups.mkdir()
        self.clock = Clock()
        self.refs, self.slices, self.folders = {}, {}, {}
        self.start()

    def start(self, **settings) -> None:
        fixed = {"cgroup_root": self.cgroups}
        self.node = self.make(clocks=(self.clock, self.clock), **fixed | settings)
        self.cards = self.node.discover()

    def run(
        self, name: str, card: int = 0, mib: int = 1000, *, pod: str = "", kind=ContainerKind.APP, made=True, **slice_
    ):
        """A record, and the cgroups of its pod and its container. Returns the pod's."""
        uid = pod or f"uid-{name}"
        self.refs[name] = ContainerRef(uid, "default", uid, name, kind)
        self.slices[name] = (Slice(self.cards[card].id, "NVIDIA", mib, 0, type="NVIDIA", **slice_),)
        self.folders[name] = str(self.root / "containers" / name / "region")
        escaped = uid.replace("-", "_")
        folder = self.cgroups / f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice"
        if made:
            make_cgroup(folder)
            make_cgroup(folder / f"cri-containerd-{name}.scope")
        return folder

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

    def limit(self, cgroup, card: int = 0):
        """MiB that the driver keeps for a cgroup; None: none."""
        handle = self.node.nvml.handle(self.cards[card].id)
        got = pynvml.c_nvmlGetMemoryLimits_v1_t(str(cgroup).encode(), 0, 0, 0)
        try:
            pynvml.nvmlDeviceGetMemoryLimits_v1(handle, got)
        except pynvml.NVMLError:
            return None
        return None if got.hardLimit == pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX else got.hardLimit // MIB

    def set(self, cgroup, mib: int, card: int = 0) -> None:
        handle = self.node.nvml.handle(self.cards[card].id)
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t(str(cgroup).encode(), 0, mib * MIB)
        pynvml.nvmlDeviceSetMemoryLimits_v1(handle, limits)


def make_cgroup(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dmem.max").write_text("max\n")
    return folder


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


def test_a_pods_cgroup_that_is_made_anew_is_limited_again(bed, misc):
    first = bed.run("one")
    bed.tend()
    assert bed.mechanisms() == {"one": "driver"}
    shutil.move(first, bed.root / "old")
    make_cgroup(first)
    assert bed.limit(first) is None
    bed.tend()
    assert bed.limit(first) == 1000
    shutil.rmtree(first)
    bed.tend()
    assert bed.mechanisms() == {"one": "interposer"}
    assert bed.failures() == 0


def test_a_pods_cgroup_that_comes_late_is_limited(bed, misc):
    folder = bed.run("one", made=False)
    bed.run("other")
    bed.tend()
    assert bed.mechanisms() == {"one": "interposer", "other": "driver"}
    make_cgroup(folder)
    bed.tend()
    assert bed.limit(folder) == 1000


def test_limit_is_lifted_when_a_container_of_the_pod_has_none(bed, backend):
    """The kubelet asks for a pod's containers one after the other, and the agent may look in between."""
    folder = bed.run("init", mib=900, pod="uid-p", kind=ContainerKind.INIT)
    bed.tend()
    assert bed.limit(folder) == 900
    bed.run("main", pod="uid-p")
    bed.refs["main"] = ContainerRef("uid-p", "default", "uid-p", "main", ContainerKind.APP, whole_devices=True)
    bed.tend()
    assert bed.limit(folder) is None
    assert bed.mechanisms() == {"init": "interposer", "main": "whole"}


def test_containers_of_a_pod_share_what_they_may_have_together(bed, backend):
    """Init containers run before the others, sidecars beside both."""
    folder = bed.run("main", mib=1000, pod="uid-p")
    bed.run("side", mib=300, pod="uid-p", kind=ContainerKind.SIDECAR)
    bed.tend()
    assert bed.limit(folder) == 1300
    bed.run("init", mib=900, pod="uid-p", kind=ContainerKind.INIT)
    bed.tend()
    assert bed.limit(folder) == 1300
    bed.run("big", mib=1500, pod="uid-p", kind=ContainerKind.INIT)
    bed.run("far", card=1, mib=50, pod="uid-p")
    bed.tend()
    assert (bed.limit(folder), bed.limit(folder, 1)) == (1800, 50)
    assert set(bed.mechanisms().values()) == {"driver"}


def test_a_card_that_one_container_has_whole_is_not_limited(bed, misc):
    folder = bed.run("init", mib=81920, pod="uid-p", kind=ContainerKind.INIT)
    bed.refs["init"] = ContainerRef("uid-p", "default", "p", "init", ContainerKind.INIT, whole_devices=True)
    bed.run("main", pod="uid-p")
    bed.tend()
    assert bed.limit(folder) is None
    assert bed.mechanisms() == {"init": "whole", "main": "interposer"}


@pytest.mark.parametrize(
    "path",
    [
        "kubepods/besteffort/poduid-one",
        "kubepods/poduid-one",
        "kubepods.slice/kubepods-poduid_one.slice",
        "kubelet/kubepods/burstable/poduid-one",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-poduid_one.slice",
    ],
)
def test_every_layout_of_the_kubelet_is_understood(bed, misc, path):
    bed.run("one", made=False)
    folder = make_cgroup(bed.cgroups / path)
    bed.tend()
    assert bed.limit(folder) == 1000


@pytest.mark.parametrize(
    "path",
    [
        "kubepods.slice/kubepods-podother.slice/kubepods-poduid_one.slice",
        "kubepods/podother/kube/poduid-one",
        "user.slice/kubepods.slice/kubepods-poduid_one.slice",
        "kubepods/poduid-one-more",
        "kubepods/xpoduid-one",
        "kubepods/uid-one",
    ],
)
def test_a_cgroup_that_is_not_the_pods_is_not_limited(bed, misc, path):
    """Among them cgroups that another pod made below its own."""
    bed.run("one", made=False)
    folder = make_cgroup(bed.cgroups / path)
    bed.tend()
    assert bed.limit(folder) is None
    assert bed.mechanisms() == {"one": "interposer"}


def test_links_are_not_followed(bed, misc):
    bed.run("one", made=False)
    folder = make_cgroup(bed.root / "elsewhere")
    (bed.cgroups / "kubepods").mkdir()
    (bed.cgroups / "kubepods/poduid-one").symlink_to(folder)
    bed.tend()
    assert bed.limit(folder) is None


def test_what_needs_no_limit_of_the_driver(bed, misc):
    whole = bed.run("whole", mib=81920)
    bed.refs["whole"] = ContainerRef("uid-whole", "default", "w", "whole", ContainerKind.APP, whole_devices=True)
    part = bed.run("part", card=1, mib=9728, mig_profile="1g.10gb")
    bed.tend()
    assert (bed.limit(whole), bed.limit(part, 1)) == (None, None)
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


def test_an_agent_that_sees_no_pods_cgroups_says_so_once(bed, misc):
    bed.run("one", made=False)
    with capture_logs() as logs:
        for _ in range(5):
            bed.tend()
    assert [line["folder"] for line in logs if "in sight" in line["event"]] == [str(bed.cgroups)]
    assert bed.mechanisms() == {"one": "interposer"}
    assert bed.failures() == 0


def test_without_the_right_to_set_limits_there_is_one_warning(bed, misc):
    bed.state.inject(sim.Fault(SET, pynvml.NVML_ERROR_NO_PERMISSION))
    for name in ("one", "two", "three"):
        bed.run(name)
    with capture_logs() as logs:
        for _ in range(20):
            bed.tend()
    (warning,) = [line for line in logs if line["log_level"] == "warning"]
    assert "SYS_ADMIN" in warning["reason"]
    assert set(bed.mechanisms().values()) == {"interposer"}
    assert bed.failures() >= 1
    bed.state.clear()
    bed.tend(400)
    assert set(bed.mechanisms().values()) == {"driver"}


def test_a_cgroup_without_the_dmem_controller_has_a_hint(bed, monkeypatch):
    monkeypatch.setenv("HAMI_SIM_MEMORY_LIMITS", "dmem")
    folder = bed.run("one")
    (folder / "dmem.max").unlink()
    with capture_logs() as logs:
        for _ in range(20):
            bed.tend()
    (warning,) = [line for line in logs if line["log_level"] == "warning"]
    assert "cgroup.subtree_control" in warning["hint"]
    assert 1 < bed.failures() < 6
    assert bed.mechanisms() == {"one": "interposer"}


def test_the_limit_of_a_cgroup_above_is_not_taken_for_the_pods(bed, backend):
    folder = bed.run("one", mib=1000)
    bed.set(make_cgroup(folder.parent), 5000)
    bed.tend()
    assert bed.limit(folder) == 1000


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


def allocate(gpus, mib: int, cgroup: Path) -> str:
    """What a program without the interposer is answered. Its cgroup may be one that it made itself."""
    env = {"HAMI_SIM_STATE": str(gpus), "HAMI_SIM_CGROUP": str(cgroup)}
    command = [sys.executable, "-c", PROGRAM, str(sim.library_dir() / "libcuda.so.1"), str(mib)]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("below", ["", "cri-containerd-one.scope", "cri-containerd-one.scope/own/deeper"])
def test_a_program_without_the_interposer_is_limited(bed, backend, gpus, below):
    folder = bed.run("one", mib=2000)
    bed.tend()
    place = make_cgroup(folder / below)
    assert allocate(gpus, 1000, place) == "0 0 0"
    assert allocate(gpus, 3000, place) == "0 0 2", "out of memory"
    assert allocate(gpus, 3000, bed.cgroups) == "0 0 0"


EARLY = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, at = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
for mib in (3000, 1500):
    print(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib << 20)), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(("driver", "answer"), [("misc", "0"), ("dmem", "2")])
def test_the_misc_backend_never_counts_what_came_before_its_limit(bed, gpus, monkeypatch, driver, answer):
    """So a pod's cgroup is limited before its first process."""
    monkeypatch.setenv("HAMI_SIM_MEMORY_LIMITS", driver)
    folder = bed.run("one", mib=2000)
    env = {"HAMI_SIM_STATE": str(gpus), "HAMI_SIM_CGROUP": str(folder)}
    command = [sys.executable, "-c", EARLY, str(sim.library_dir() / "libcuda.so.1")]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline().strip() == "0"
        bed.tend()
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline().strip() == answer
