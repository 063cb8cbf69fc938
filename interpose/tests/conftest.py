"""Containers to test in: a limits folder, a region and simulated GPUs, and C programs compiled on the spot."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits, Mode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MIB = 1 << 20
HERE = Path(__file__).resolve().parent
SANITIZE = bool(os.environ.get("HAMI_INTERPOSE_SANITIZE"))  # run everything on an ASan and UBSan build
# qemu-user keeps a record of each page of a mapping: the simulated driver's terabytes would take all memory there is.
GUEST_ADDRESS_GIB, GUEST_ADDRESS_KIB = 8, 64 << 20
GUEST_LIBC = Path("/usr/aarch64-linux-gnu")  # where Debian's libc6-arm64-cross lies
INCLUDES = [f"-I{HERE.parent / folder}" for folder in ("src", "generated")]
LIBRARY, DRIVER = "hami_interpose/lib/libvgpu.so", "hami_gpusim/lib"  # in wheels
FOR_LINKER = ("-l", "-Wl,", "/")  # a library's path as well
POOLS = {"HAMI_SIM_POOL_STEP_MIB": "2"}  # the smallest step, so that tests of sums need no large allocations
RUNTIMES = ("libasan.so", "libubsan.so") if SANITIZE else ()


@cache
def built(preset: str) -> Path:
    """libvgpu.so as a preset of CMakePresets.json makes it: a copy, since other tests beside these build it as well."""
    folder = HERE.parent / "build"
    folder.mkdir(exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix="hami-built-"))
    copy.chmod(0o755)  # some containers run as another user
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    with (folder / f"{preset}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["cmake", "--preset", preset], ["cmake", "--build", "--preset", preset]):
            done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return Path(shutil.copy(folder / preset / "lib/libvgpu.so", copy))


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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a distribution's wheel for a machine, once per session; each lies in a folder of its own."""
    for module in ("cmake", "ninja", "pip", "scikit_build_core", "wheel", "ziglang"):
        pytest.importorskip(module, reason=f"{module} is not installed: no wheels for other machines")
    work = tmp_path_factory.mktemp("wheels")

    @cache
    def build(machine: str, distribution: str = "hami-interpose") -> Path:
        out = work / f"{distribution}-{machine}-out"
        command = [sys.executable, HERE.parent / "gen/wheels.py", "--machine", machine, "--out", out, "--work", work]
        command += ["--distribution", distribution]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (found,) = out.iterdir()
        return found

    return build


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `each_machine` run here and, built for aarch64, by qemu-user, but for those marked `here_only`."""
    asked = metafunc.definition.get_closest_marker("each_machine")
    if asked and not metafunc.definition.get_closest_marker("here_only") and "processor" in metafunc.fixturenames:
        guest = pytest.param("aarch64", marks=[pytest.mark.qemu, pytest.mark.timeout(600)])
        metafunc.parametrize("processor", ["here", guest], indirect=True)


@pytest.fixture
def versioned_doors() -> dict[str, set[str]]:
    """What a library exports in place of dlsym and dlvsym: for programs linked before and since glibc 2.34."""
    return {
        machine: {f"{door}{at}" for door in ("dlsym", "dlvsym") for at in (f"@{first}", "@@GLIBC_2.34")}
        for machine, first in {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}.items()
    }


@pytest.fixture
def processor(request: pytest.FixtureRequest) -> str:
    """Whose code programs and libraries are: this machine's, or that of aarch64."""
    asked = str(getattr(request, "param", "here"))
    if asked == "aarch64":
        if SANITIZE:
            pytest.skip("the sanitizers' runtimes are this machine's")
        if shutil.which("qemu-aarch64") is None or not GUEST_LIBC.is_dir():
            pytest.skip("aarch64 needs qemu-user and libc6-arm64-cross")
    return asked


@pytest.fixture
def guest(processor: str, request: pytest.FixtureRequest) -> Path | None:
    """The folder with both packages built for aarch64, if programs are that machine's."""
    return None if processor == "here" else request.getfixturevalue("guest_packages")


@pytest.fixture
def driver(guest: Path | None) -> Path:
    """The folder with the simulated driver."""
    return sim.library_dir() if guest is None else guest / DRIVER


@pytest.fixture(scope="session")
def guest_packages(wheel: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheels for aarch64 hold."""
    folder = tmp_path_factory.mktemp("aarch64")
    for distribution in ("hami-interpose", "hami-gpusim"):
        with zipfile.ZipFile(wheel("aarch64", distribution)) as archive:
            archive.extractall(folder)
    return folder


def for_guest(env: dict[str, str], guest: Path, variables: dict[str, str]) -> dict[str, str]:
    """The environment of a program that qemu-user runs: qemu itself must not load what is meant for the program."""
    env["GUEST_PRELOAD"] = env.pop("LD_PRELOAD", "")
    env["LD_LIBRARY_PATH"] = variables.get("LD_LIBRARY_PATH", str(guest / DRIVER))
    env["HAMI_SIM_ADDRESS_GIB"] = str(GUEST_ADDRESS_GIB)
    return env


@dataclass
class Container:
    """What a process in a container sees of us."""

    root: Path
    state: Path
    limits: Limits | None = None
    variables: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    bare: bool = False  # its processes run without the library, as those of the host do
    guest: Path | None = None  # where the packages of another machine lie, if its programs are that machine's

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

    def put(self, offset: int, layout: str, *values: int) -> None:
        """Writes into the region."""
        with self.region_path.open("r+b") as file:
            os.pwrite(file.fileno(), struct.pack(layout, *values), offset)

    def region(self) -> region.Region:
        return region.read(self.region_path)

    def agreed(self, device: int = 0) -> int:
        """Bytes in use of a device by our books, and by the driver's, which must be the same."""
        counted: int = self.region().devices[device].used_bytes
        with sim.State(self.state) as books:
            assert books.devices[device].memory_used == counted
        return counted

    def environment(self) -> dict[str, str]:
        """The environment of a process of this container."""
        env = sim.environment(self.state) | POOLS
        if not self.bare:
            env["LD_PRELOAD"] = preload() if self.guest is None else str(self.guest / LIBRARY)
            env["HAMI_VGPU_ROOT"] = str(self.root)
            env["ASAN_OPTIONS"] = "detect_leaks=0"  # the simulated driver and Python keep what they have to their end
            env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        env |= self.variables
        return env if self.guest is None else for_guest(env, self.guest, self.variables)

    def environment_without_us(self) -> dict[str, str]:
        """The same without the library; what a sanitizer adds stays."""
        others = preload().rpartition(":")[0]
        return replace(self, variables=self.variables | {"LD_PRELOAD": others}).environment()

    def start(self, program: Path | str, *arguments: object) -> subprocess.Popen[str]:
        """Starts a program; its output is piped, and it gets each line of input at once."""
        command = [str(program), *map(str, arguments)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(command, env=self.environment(), text=True, bufsize=1, **pipes)
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


@pytest.fixture(scope="session")
def sanitized() -> bool:
    """Whether the library is built with sanitizers."""
    return SANITIZE


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """The state of two simulated A100 80 GB."""
    sim.create(tmp_path / "gpus", "a100x2")
    return tmp_path / "gpus"


@pytest.fixture
def full_size(tmp_path: Path, make_container: Callable[..., Container]) -> Callable[..., Container]:
    """Makes a container with all of a small card: the driver refuses as well what is too much."""

    def make(limit_mib: int, share_mib: int | None = None) -> Container:
        card = {"model": "a100", "memory_reserved_mib": 80 * 1024 - (share_mib or limit_mib)}
        (tmp_path / "small.json").write_text(json.dumps({"devices": [card]}))
        sim.create(tmp_path / "small", tmp_path / "small.json")
        return make_container(limit_mib, physical_mib=share_mib, state=tmp_path / "small")

    return make


@pytest.fixture
def start_race(programs: Callable[..., Path]) -> Callable[..., list[subprocess.Popen[str]]]:
    """Starts a racer for each seed, and lets them go together."""

    def start(
        container: Container, seeds: Iterable[int], rounds: int, threads: int, kinds: str = "m"
    ) -> list[subprocess.Popen[str]]:
        racers = [container.start(programs("race"), rounds, seed, threads, kinds) for seed in seeds]
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("go\n")
        return racers

    return start


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Waits until a condition holds, for two minutes at most; processes must not end meanwhile."""

    def wait(condition: Callable[[], object], *processes: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            for process in processes:
                assert process.poll() is None, f"exit {process.returncode}: {process.communicate()[1][:4000]}"
            assert time.monotonic() < deadline
            time.sleep(0.01)

    return wait


@pytest.fixture
def make_container(tmp_path: Path, gpus: Path, guest: Path | None) -> Iterator[Callable[..., Container]]:
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
        container = Container(tmp_path / f"container{len(made)}", state, guest=guest)
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
def compile_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles programs/NAME.c once per session, processor and set of flags."""
    folder = tmp_path_factory.mktemp("programs")
    caches = {f"ZIG_{kind}_CACHE_DIR": str(folder / f"zig-{kind}") for kind in ("GLOBAL", "LOCAL")}
    zig_environment = caches | os.environ
    built: dict[tuple[str, ...], Path] = {}

    def build(processor: str, driver: Path, name: str, *flags: str) -> Path:
        key = (processor, name, *flags)
        if key not in built:
            out = folder / f"{name}{len(built)}{'.so' if '-shared' in flags else ''}"
            options = ["-std=gnu11", "-Wall", "-Wextra", "-g", "-O1", *INCLUDES, *flags]
            linked = ["-ldl", "-lpthread"]
            if "-DDIRECT" in flags:
                linked += [f"-L{driver}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1"]
            source = str(HERE / "programs" / f"{name}.c")
            if processor == "here":
                subprocess.run(["gcc", "-Werror", source, "-o", str(out), *options, *linked], check=True)
            else:  # clang warns of other things; zig makes its runtime anew for each way of linking, so there is one
                zig = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.36", "-fno-sanitize=all"]
                kind = [flag for flag in flags if flag in {"-shared", "-rdynamic"} or flag.startswith(FOR_LINKER)]
                options = [option for option in options if option not in kind]
                subprocess.run([*zig, "-c", source, "-o", f"{out}.o", *options], env=zig_environment, check=True)
                link = [*zig, "-O3", "-s", f"{out}.o", "-o", str(out), *kind, *linked]
                subprocess.run(link, env=zig_environment, check=True)
            built[key] = out if processor == "here" or "-shared" in flags else run_by_qemu(out)
        return built[key]

    return build


def run_by_qemu(program: Path) -> Path:
    """A script that runs a program for aarch64, under the program's pid."""
    script = program.with_name(f"{program.name}-aarch64")
    qemu = f'qemu-aarch64 -L {GUEST_LIBC} -E LD_PRELOAD="$GUEST_PRELOAD" -U GUEST_PRELOAD'
    script.write_text(f'#!/bin/sh\nulimit -v {GUEST_ADDRESS_KIB}\nexec {qemu} {program} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def programs(compile_program: Callable[..., Path], processor: str, driver: Path) -> Callable[..., Path]:
    """Compiles programs/NAME.c once per session and set of flags."""
    return partial(compile_program, processor, driver)


@pytest.fixture
def lay_out_drivers(programs: Callable[..., Path], driver: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Gives a container other driver files than the simulator's two; returns those opened first, to link with."""

    def lay_out(container: Container, kinds: str, opened: str = "{0}.1") -> list[str]:
        """Makes libcuda.so, libcuda.so.1, libcuda.so.1.1, … of these kinds, likewise NVML's; programs open `opened`.

        Kinds: `copy` of the simulated library, `other`, a copy with the SONAME libcuda.so.9, `lazy` and `eager`, which
        forward to the file of the next kind, and `-`, none.
        """
        folder = tmp_path / "drivers"
        folder.mkdir()
        first = []
        for name, which, variable in (("libcuda.so", "CUDA", "CUDA_FILES"), ("libnvidia-ml.so", "NVML", "NVML_FILES")):
            content = (driver / f"{name}.1").read_bytes()
            for at, kind in enumerate(kinds.split()):
                file = folder / (name + at * ".1")
                if kind == "copy":
                    file.write_bytes(content)
                elif kind == "other":
                    (folder / f"{name}.9").write_bytes(content.replace(f"{name}.1\0".encode(), f"{name}.9\0".encode()))
                    file.symlink_to(f"{name}.9")
                elif kind != "-":
                    flags = (f"-D{which}", f"-D{kind.upper()}", f"-Wl,-soname,{file.name}")
                    shutil.copy(programs("forward", "-shared", "-fPIC", *flags), file)
            container.variables[variable] = opened.format(name)
            first.append(str(folder / opened.format(name).split()[0].removeprefix("+")))
        container.variables["LD_LIBRARY_PATH"] = str(folder)
        return first

    return lay_out


class Shell:
    """A running programs/shell.c: one command, one answer of numbers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        first = process.stdout.readline()
        assert first == "ready\n", f"{first}{process.stderr.read() if process.stderr else ''}"

    def line(self, *command: object) -> str:
        self.process.stdin.write(" ".join(map(str, command)) + "\n")
        return self.process.stdout.readline()

    def __call__(self, *command: object) -> list[int]:
        return [int(word) for word in self.line(*command).split()]

    def status(self, *command: object) -> int:
        return self(*command)[0]

    def made(self, *command: object) -> int:
        """What a command made, by its number; it must succeed."""
        status, made = self(*command)
        assert status == 0, command
        return made

    def kill(self) -> None:
        """Kills the process and waits for its end."""
        self.process.kill()
        self.process.wait()

    def free_bytes(self) -> int:
        status, free, _ = self("info")
        assert status == 0
        return free


@pytest.fixture
def shells(programs: Callable[..., Path]) -> Callable[..., Shell]:
    """Starts shells in containers, each with its context on device 0; they end with the test."""

    def start(container: Container, device: int | None = 0, inside: Sequence[str] = ()) -> Shell:
        shell = Shell(container.start(*inside, programs("shell")))
        if device is not None:
            assert shell.status("use", device) == 0
        return shell

    return start


@pytest.fixture
def in_pid_namespace(shells: Callable[..., Shell]) -> Callable[[Container], tuple[int, Shell]]:
    """Starts a shell as pid 1 of a pid namespace of its own; returns its pid out here, and the shell."""
    rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *rootless]

    def start(container: Container) -> tuple[int, Shell]:
        shell = shells(container, inside=inside)
        outside = shell.process.pid
        return int(Path(f"/proc/{outside}/task/{outside}/children").read_text()), shell

    return start


@pytest.fixture
def started(make_container: Callable[..., Container], shells: Callable[..., Shell]) -> Callable[..., Any]:
    """A container and a shell in it, with its context on this device."""

    def start(*mib: int, device: int | None = 0, variables: Mapping[str, str] | None = None, **choices: Any) -> Any:
        container = make_container(*mib, **choices)
        container.variables |= variables or {}
        return container, shells(container, device=device)

    return start


@pytest.fixture(scope="session")
def build_preset() -> Callable[[str], Path]:
    """Builds libvgpu.so by a preset; returns where it is."""
    return built


@pytest.fixture
def killed_at_each_store(programs: Callable[..., Path], build_preset: Callable[[str], Path]) -> Callable[..., Any]:
    """Runs shells to their deaths, the n-th after its n-th store to shared memory, until one outlives its scenario.

    Yields what each printed, the last one's as well. `before` is called ahead of each with n; in the scenario may stand
    {n} and what `values` returns then. `meanwhile` is called with the process. There are more than `least` points, or
    those of `points`.
    """

    def run(
        container: Container,
        *scenario: str,
        least: int = 0,
        points: Iterable[int] = (),
        before: Callable[[int], object] = bool,
        values: Callable[[], dict[str, object]] = dict,
        meanwhile: Callable[[subprocess.Popen[str]], object] = bool,
    ) -> Iterator[str]:
        n = 0
        for n in points or count(1):
            before(n)
            faults = {"LD_PRELOAD": str(build_preset("faults")), "HAMI_FAULT_AT": str(n)}
            mortal = replace(container, variables=container.variables | faults)
            process = mortal.start(programs("shell"))
            with suppress(BrokenPipeError):
                process.stdin.write("\n".join(scenario).format(n=n, **values()) + "\n")
            meanwhile(process)
            out, err = process.communicate(timeout=60)
            assert process.returncode in {0, -signal.SIGKILL}, f"point {n}: {process.returncode} {out} {err}"
            yield out
            if process.returncode == 0:
                break
        assert n > least

    return run
