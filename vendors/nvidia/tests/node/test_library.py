"""The interposer's library on the host: agents with an older or newer one follow each other while programs run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import region
from hami_nvidia.allocate import LIBRARY_PATH
from hami_nvidia.library import SWEEP_INTERVAL_S, LibraryFolder

from hami_core import ContainerKind, ContainerRef, DeviceError, Slice

MIB = 1 << 20
ROUNDS = 100
HELD, EXTRA = 64 * MIB, 32 * MIB

WORKS = f"""
import ctypes, select, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
def made(name, *arguments):
    found = ctypes.c_void_p()
    call(name, ctypes.byref(found), *arguments)
    return found
call("cuInit", 0)
made("cuCtxCreate_v2", 0, 0)
kernel = made("cuModuleGetFunction", made("cuModuleLoadData", b"any image"), b"k_1ms")
made("cuMemAlloc_v2", ctypes.c_size_t({HELD}))
print("works", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    extra = made("cuMemAlloc_v2", ctypes.c_size_t({EXTRA}))
    call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    call("cuMemFree_v2", extra)
"""
"""Holds HELD bytes, and works with EXTRA bytes more until it gets a line. Any error ends it with a traceback."""

ASKS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
found = ctypes.c_void_p()
status = [cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(found), 0, 0)]
status += [cuda.cuMemAlloc_v2(ctypes.byref(found), ctypes.c_size_t(int(size))) for size in sys.argv[1:]]
print(*status)
"""
"""Asks for memory, and prints the answers of the driver's calls."""


def other_build(folder: Path) -> Path:
    """Another build of the library, by its content and its build id: this one, or the one that a variable names."""
    named = os.environ.get("HAMI_TEST_OTHER_LIBRARY")
    if named:
        return Path(named)
    content = hami_interpose.library().read_bytes()
    mark = b"hami-build-id=" + hami_interpose.build_id().encode()
    made = folder / "libvgpu.so"
    made.write_bytes(content.replace(mark, mark[:-4] + b"0the"))
    assert made.read_bytes() != content
    return made


class Clock:
    """A clock that the test moves."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def unix(self) -> float:
        return 1_900_000_000 + self.passed


class Container:
    """A container's folder as it sees it, and its programs, each with the library of the agent that is there then."""

    def __init__(self, root: Path, gpus: Path, name: str, piece: Slice) -> None:
        self.root, self.gpus, self.slices = root, gpus, (piece,)
        self.ref = ContainerRef(f"uid-{name}", "default", name, "main", ContainerKind.APP)
        self.spec: dict[str, str] = {}
        self.programs: list[subprocess.Popen[str]] = []

    def prepare(self, agent) -> None:
        """What the agent does for a container that is new, or whose spec is to be written again."""
        edits = agent.allocate(self.slices, self.ref)
        self.spec = {mount.container_path: mount.host_path for mount in edits.mounts}
        for folder, files in (("limits", edits.limits), ("region", edits.region)):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                path = self.root / folder / name
                if not path.exists():  # as the agent's records do: a region of the right size stays
                    path.write_bytes(data)
        for inside, host in self.spec.items():
            page = self.root / "turns" / Path(inside).name
            if "/turns/" in inside and not page.exists():
                page.parent.mkdir()
                os.link(host, page)

    def start(self, program: str, *arguments: object) -> subprocess.Popen[str]:
        env = sim.environment(self.gpus) | {"LD_PRELOAD": self.spec[LIBRARY_PATH], "HAMI_VGPU_ROOT": str(self.root)}
        command = [sys.executable, "-I", "-S", "-c", program, *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(command, env=env, text=True, **pipes)

    def work(self) -> None:
        """Start one more program, and wait until it works."""
        process = self.start(WORKS)
        self.programs.append(process)
        assert process.stdout.readline() == "works\n"

    def end_oldest(self) -> None:
        process = self.programs.pop(0)
        process.communicate("end\n", timeout=30)
        assert process.returncode == 0

    def region(self) -> region.Region:
        return region.read(self.root / "region/vgpu.cache")

    def mapped(self) -> set[str]:
        """Libraries that its programs have mapped now."""
        maps = "".join(Path(f"/proc/{process.pid}/maps").read_text() for process in self.programs)
        return set(re.findall(r"libvgpu-[0-9a-f]{16}\.so", maps))


class Bed:
    """One card, two containers with limits of memory and compute on it, and agents that follow each other."""

    def __init__(self, node, gpus: Path, root: Path, monkeypatch) -> None:
        self.node, self.patch, self.root = node, monkeypatch, root
        self.clock = Clock()
        self.agent = None
        self.pinned: set[str] = set()
        self.builds = (hami_interpose.library(), other_build(root))
        self.replace_agent(0)
        card = self.agent.discover()[0].id
        self.containers = [
            Container(root / name, gpus, name, Slice(card, "NVIDIA", mib, cores, type="NVIDIA"))
            for name, mib, cores in (("a", 4000, 30), ("b", 3000, 40))
        ]

    def replace_agent(self, build: int) -> None:
        """The next agent, whose image has this build of the library."""
        if self.agent is not None:
            self.agent.nvml.close()
        self.patch.setattr(hami_interpose, "library", lambda: self.builds[build])
        self.agent = self.node(clocks=(self.clock.monotonic, self.clock.unix), mounted=self.mounted)

    def mounted(self) -> frozenset[str]:
        return frozenset(self.pinned.union(*(c.spec.values() for c in self.containers)))

    def tend(self) -> dict[tuple[str, str], float]:
        """One round of the agent's care, and its metrics of containers by name and pod."""
        self.clock.passed += SWEEP_INTERVAL_S
        refs = {c.ref.pod: c.ref for c in self.containers}
        folders = {c.ref.pod: str(c.root / "region") for c in self.containers}
        self.agent.tend(refs, {c.ref.pod: c.slices for c in self.containers}, folders)
        found = [s for s in self.agent.metrics(refs, folders) if "pod" in s.labels and "device_uuid" in s.labels]
        assert len({(s.name, *sorted(s.labels.items())) for s in found}) == len(found), "a sample twice"
        return {(s.name, s.labels["pod"]): s.value for s in found}

    def libraries(self) -> set[str]:
        return {path.name for path in (self.root / "lib").glob("libvgpu-*")}


@pytest.fixture
def bed(node, gpus, tmp_path, monkeypatch):
    made = Bed(node, gpus, tmp_path, monkeypatch)
    yield made
    for process in [p for c in made.containers for p in c.programs]:
        process.kill()
        process.communicate()


def test_programs_and_counters_survive_a_hundred_upgrades(bed):
    """Old and new programs share a container's region and the card's turn page. Limits hold over both together."""
    first, second = bed.containers
    seen, mixed = [], 0
    for number in range(ROUNDS):
        bed.replace_agent(number % 2)
        for container in bed.containers:
            container.prepare(bed.agent)
        if number == 0:
            bed.pinned = {first.spec[LIBRARY_PATH]}  # the spec of a third container, which never changes
        if number == ROUNDS // 2:
            bed.pinned = set()
        first.work()
        if len(first.programs) > 3:
            first.end_oldest()
        if number % 4 < 2:  # so it meets both builds
            second.work()
        if len(second.programs) > 2:
            second.end_oldest()
        mixed += len(first.mapped()) == 2
        refused_before = first.region().devices[0].denied
        device, others = first.region().devices[0], len(first.programs)
        own, limit = device.context_bytes, 4000 * MIB
        too_much = limit - others * (own + HELD) - own + 2 * MIB
        # What the other container takes while a program loads its module counts as the module's (64 MiB at most).
        rest = limit - others * (own + HELD + EXTRA) - own - device.parts.modules_bytes
        answer, _ = first.start(ASKS, too_much, rest).communicate(timeout=30)
        assert answer.split() == ["0", "0", "2", "0"], f"round {number}"
        metrics = bed.tend()
        for container in bed.containers:
            assert [p.poll() for p in container.programs] == [None] * len(container.programs), f"round {number}"
            held = len(container.programs) * (own + HELD) + container.region().devices[0].parts.modules_bytes
            used = metrics["hami_vgpu_memory_used_bytes", container.ref.pod]
            assert held <= used <= held + len(container.programs) * EXTRA, f"round {number}"
        assert first.region().devices[0].denied == refused_before + 1 == number + 1
        assert metrics["hami_vgpu_memory_denied_total", "a"] == number + 1
        assert metrics["hami_vgpu_memory_limit_bytes", "a"] == limit
        seen.append([(c.region().launches, c.region().devices[0].compute.turns) for c in bed.containers])
        current = Path(first.spec[LIBRARY_PATH]).name
        assert bed.libraries() == {current} | {Path(path).name for path in bed.pinned}
    assert mixed > ROUNDS * 3 // 4, "old and new were seldom side by side"
    for before, after in pairwise(seen):
        for (launches, turns), (more_launches, more_turns) in zip(before, after, strict=True):
            assert launches <= more_launches
            assert turns <= more_turns
    assert min(launches for launches, _ in seen[-1]) > ROUNDS // 2
    assert min(turns for _, turns in seen[-1]) > ROUNDS // 4
    for container in bed.containers:
        while container.programs:
            container.end_oldest()
        assert container.region().devices[0].used_bytes == 0


@pytest.fixture
def folder(tmp_path):
    clock = Clock()
    made = LibraryFolder(tmp_path / "lib", clock.monotonic)
    made.clock = clock
    return made


OLD = "libvgpu-0123456789abcdef.so"


def test_an_old_library_stays_while_a_container_mounts_it(folder):
    old = folder.path / OLD
    own = folder.install().library
    old.write_bytes(b"old")
    (folder.path / "notes.txt").write_text("of an administrator")
    folder.remove_unused(lambda: frozenset({str(old)}))
    assert old.exists()
    folder.remove_unused(frozenset)
    assert old.exists(), "it looks once in a minute"
    folder.clock.passed += SWEEP_INTERVAL_S
    folder.remove_unused(frozenset)
    assert {path.name for path in folder.path.iterdir()} == {own.name, "ld.so.preload", "notes.txt"}


def test_nothing_is_removed_while_the_mounts_are_unknown(folder):
    folder.install()
    old = folder.path / OLD
    old.write_bytes(b"old")

    def unknown():
        raise DeviceError("CDI spec hami-x.json has an unknown form")

    with pytest.raises(DeviceError):
        folder.remove_unused(unknown)
    folder.clock.passed += SWEEP_INTERVAL_S
    folder.remove_unused(None)
    assert old.exists()


def test_a_library_that_was_removed_is_installed_again(folder):
    own = folder.install().library
    own.unlink()
    assert folder.install().library.read_bytes() == hami_interpose.library().read_bytes()


def test_a_damaged_library_is_replaced_by_the_next_agent(folder):
    own = folder.install().library
    with own.open("r+b") as mapped:
        own.write_bytes(b"torn")
        LibraryFolder(folder.path, folder.clock.monotonic).install()
        assert mapped.read() == b"torn", "the file below running programs does not change"
    assert own.read_bytes() == hami_interpose.library().read_bytes()
