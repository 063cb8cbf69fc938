"""Containers to test in: a limits folder, a region and simulated GPUs, and C programs compiled on the spot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hami_interpose
import pytest
from hami_interpose import region, sim
from hami_interpose.limits import DeviceLimit, Limits, Mode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MIB = 1 << 20
HERE = Path(__file__).resolve().parent
SANITIZE = bool(os.environ.get("HAMI_INTERPOSE_SANITIZE"))  # run everything on an ASan and UBSan build
RUNTIMES = ("libasan.so", "libubsan.so") if SANITIZE else ()


@cache
def built(preset: str) -> Path:
    """libvgpu.so as a preset of CMakePresets.json makes it."""
    for command in (["cmake", "--preset", preset], ["cmake", "--build", "--preset", preset]):
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return HERE.parent / "build" / preset / "lib/libvgpu.so"


@cache
def library() -> Path:
    """The library under test: the installed one, or the sanitizer preset."""
    return built("asan") if SANITIZE else hami_interpose.library()


@cache
def preload() -> str:
    """What goes into LD_PRELOAD: sanitizers' runtimes must come before what they watch."""
    found = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in RUNTIMES
    ]
    return ":".join([*found, str(library())])


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the wheel for a machine, once per session; each lies in a folder of its own."""
    for module in ("cmake", "ninja", "pip", "scikit_build_core", "wheel", "ziglang"):
        pytest.importorskip(module, reason=f"{module} is not installed: no wheels for other machines")
    work = tmp_path_factory.mktemp("wheels")

    @cache
    def build(machine: str) -> Path:
        out = work / f"{machine}-out"
        command = [sys.executable, HERE.parent / "gen/wheels.py", "--machine", machine, "--out", out, "--work", work]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (found,) = out.iterdir()
        return found

    return build


@dataclass
class Container:
    """What a process in a container sees of us."""

    root: Path
    state: Path
    limits: Limits | None = None
    variables: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    bare: bool = False  # its processes run without the library, as those of the host do

    def write_limits(self, limits: Limits) -> None:
        """Replaces the limits file as the agent does, by rename."""
        self.limits = limits
        folder = self.root / "limits"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".new").write_bytes(encode(limits))
        (folder / ".new").rename(folder / "limits")

    @property
    def region_path(self) -> Path:
        return self.root / "region" / "vgpu.cache"

    def region(self) -> region.Region:
        return region.read(self.region_path)

    def environment(self) -> dict[str, str]:
        """The environment of a process of this container."""
        env = sim.environment(self.state)
        if self.bare:
            return env | self.variables
        env["LD_PRELOAD"] = preload()
        env["HAMI_VGPU_ROOT"] = str(self.root)
        env["ASAN_OPTIONS"] = "detect_leaks=0"  # the simulated driver and Python keep what they have to their end
        env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        return env | self.variables

    def start(self, program: Path | str, *arguments: object) -> subprocess.Popen[str]:
        """Starts a program; its output is piped."""
        command = [str(program), *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=self.environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.processes.append(process)
        return process

    def stop(self) -> None:
        """Ends what still runs and closes its pipes."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()

    def run(self, program: Path | str, *arguments: object) -> str:
        """Runs a program to its end; it must succeed and be silent on stderr."""
        process = self.start(program, *arguments)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"{program} {arguments}: exit {process.returncode}\n{out}\n{err}"
        assert err == ""
        return out

    def json(self, program: Path | str, *arguments: object) -> dict[str, int]:
        """Runs a program that prints one JSON object."""
        found = json.loads(self.run(program, *arguments))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """The state of two simulated A100 80 GB."""
    sim.create(tmp_path / "gpus", "a100x2")
    return tmp_path / "gpus"


@pytest.fixture
def make_container(tmp_path: Path, gpus: Path) -> Iterator[Callable[..., Container]]:
    """Makes containers on the simulated GPUs, each with its own root."""
    made = []

    def make(
        *memory_mib: int,
        physical_mib: int | None = None,
        cores: int = 0,
        mode: Mode = Mode.ENFORCE,
        order: tuple[int, ...] | None = None,
        uuids: Sequence[str] = (),
        state: Path = gpus,
    ) -> Container:
        container = Container(tmp_path / f"container{len(made)}", state)
        made.append(container)
        with sim.State(state) as books:
            uuids = uuids or [device.uuid for device in books.devices]
        chosen = order or range(len(memory_mib))
        devices = tuple(
            DeviceLimit(uuids[i], mib * MIB, (mib if physical_mib is None else physical_mib) * MIB, cores)
            for i, mib in zip(chosen, memory_mib, strict=True)
        )
        container.write_limits(Limits(devices, mode=mode))
        container.region_path.parent.mkdir(parents=True)
        assert container.limits is not None
        container.region_path.write_bytes(region.initial(container.limits))
        return container

    yield make
    for container in made:
        container.stop()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles programs/NAME.c once per session and set of flags."""
    folder = tmp_path_factory.mktemp("programs")
    built: dict[tuple[str, ...], Path] = {}

    def build(name: str, *flags: str) -> Path:
        key = (name, *flags)
        if key not in built:
            out = folder / f"{name}{len(built)}"
            libraries = str(hami_interpose.sim_library_dir())
            command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", f"-I{HERE.parent / 'include'}"]
            command += [str(HERE / "programs" / f"{name}.c"), "-o", str(out), *flags]
            if "-DDIRECT" in flags:
                command += [f"-L{libraries}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1"]
            subprocess.run([*command, "-ldl", "-lpthread"], check=True)
            built[key] = out
        return built[key]

    return build


PARTITION = """
import json, sys
import pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
if n.nvmlDeviceGetMigMode(card)[0] == 0:
    assert n.nvmlDeviceSetMigMode(card, 1) == 0
infos = {}
for profile in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        info = n.nvmlDeviceGetGpuInstanceProfileInfo(card, profile, version=2)
    except n.NVMLError_NotSupported:
        continue
    name = info.name if isinstance(info.name, str) else info.name.decode()
    infos[name.removeprefix("MIG ")] = info.id
for name in sys.argv[2:]:
    n.nvmlGpuInstanceCreateComputeInstance(n.nvmlDeviceCreateGpuInstance(card, infos[name]), 0)
"""


@pytest.fixture
def partition() -> Callable[..., list[str]]:
    """Makes MIG devices of the named profiles on a card, as an administrator does; returns their UUIDs."""

    def make(state: Path, card: int, *profiles: str) -> list[str]:
        command = [sys.executable, "-c", PARTITION, str(card), *profiles]
        with sim.State(state) as books:
            before = {device.uuid for device in books.mig_devices}
            subprocess.run(command, env=sim.environment(state), check=True)
            return [device.uuid for device in books.mig_devices if device.uuid not in before]

    return make


class Shell:
    """A running programs/shell.c: one command, one answer of numbers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "ready\n", f"{first}{process.stderr.read() if process.stderr else ''}"

    def line(self, *command: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, command)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def __call__(self, *command: object) -> list[int]:
        return [int(word) for word in self.line(*command).split()]

    def status(self, *command: object) -> int:
        return self(*command)[0]

    def free_bytes(self) -> int:
        status, free, _ = self("info")
        assert status == 0
        return free


@pytest.fixture
def shells(programs: Callable[..., Path]) -> Callable[..., Shell]:
    """Starts shells in containers, each with its context on device 0; they end with the test."""

    def start(container: Container, *flags: str, device: int | None = 0, program: str = "shell") -> Shell:
        shell = Shell(container.start(programs(program, *flags)))
        if device is not None:
            assert shell.status("use", device) == 0
        return shell

    return start


@pytest.fixture(scope="session")
def build_preset() -> Callable[[str], Path]:
    """Builds libvgpu.so by a preset; returns where it is."""
    return built


@pytest.fixture
def run_c(tmp_path: Path) -> Callable[[str], str]:
    """Compiles and runs a C program given as text; returns what it prints."""

    def run(text: str) -> str:
        (tmp_path / "program.c").write_text(text)
        command = ["gcc", "-std=gnu11", f"-I{HERE.parent / 'include'}", str(tmp_path / "program.c"), "-o"]
        subprocess.run([*command, str(tmp_path / "program")], check=True)
        return subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout

    return run
