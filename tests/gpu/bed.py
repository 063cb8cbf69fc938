"""What the parts stand on: the library, containers, programs, and an observer outside.

A container is a folder with limits, a region and pages of turns, as the agent makes it, and processes that have the
library preloaded. On the simulated driver the same programs run with the simulated libraries in front.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, Mode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = ROOT / "interpose/tests/programs"
OURS: Final = Path(__file__).resolve().parent
MIB: Final = 1 << 20
PATIENCE_S: Final = 90.0
OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY


class KitError(Exception):
    """The kit cannot go on; the message says what is missing and what to do."""


class EndedError(KitError):
    """A program ended where it should have answered; `said` is the end of its stderr."""

    def __init__(self, command: Sequence[str], how: str, said: str) -> None:
        self.said = said
        super().__init__(f"{' '.join(command)}: {how}\n{said}")


def compile_library(out: Path) -> Path:
    """Builds `libvgpu.so` from the tree by one gcc command: no CMake, no whole-program optimisation.

    Raises:
        KitError: gcc failed.
    """
    source, library = ROOT / "interpose/src", out / "libvgpu.so"
    exports = source / f"exports.{os.uname().machine}.map"
    # dlsym.c and libc.c stand in for functions of the C library, so the compiler must not call those by itself.
    options = ["-fno-builtin", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-ftls-model=initial-exec"]
    linked = [f"-Wl,--version-script={exports}", "-Wl,-Bsymbolic,-z,now,--build-id", "-ldl", "-lpthread"]
    command = ["gcc", "-shared", "-fPIC", "-std=gnu11", "-O3", "-fvisibility=hidden", "-fno-strict-aliasing", *options]
    command += [f'-DHAMI_BUILD_ID="{"0" * 16}"', "-D_GNU_SOURCE", "-Iinterpose/include", "-Iinterpose/generated"]
    command += [str(path) for path in sorted((*source.glob("*.[cS]"), *source.glob("compute/*.c")))]
    command += ["interpose/generated/hooks.c", "-o", str(library), *linked]
    run_compiler(command)
    return library


def run_compiler(command: Sequence[str]) -> None:
    """Runs a compiler in the root of the tree.

    Raises:
        KitError: It is not there, or failed.
    """
    if shutil.which(command[0]) is None:
        raise KitError(f"{command[0]} is not installed: the kit compiles its programs with it")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KitError(f"{' '.join(command)}\n{done.stderr}")


def missing(found: Mapping[str, Any]) -> str:
    """Why a client is left out; empty if its library is there."""
    return f"{found['missing']} is not installed" if "missing" in found else ""


class Process:
    """A program that is asked line by line. Its stderr lies in a file."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], errors: Path) -> None:
        self.errors = errors
        self.command = list(command)
        with errors.open("w") as stderr:
            self.process = subprocess.Popen(
                self.command,
                env=env,
                text=True,
                bufsize=1,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def send(self, *words: object) -> None:
        """Sends a command; `answer` then has what it says."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def answer(self) -> str:
        """The next line that it prints.

        Raises:
            EndedError: It printed none and ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        return line.strip()

    def ask(self, *words: object) -> str:
        """Sends a command and waits for its line."""
        self.send(*words)
        return self.answer()

    def json(self, *words: object) -> dict[str, Any]:
        """The same, of a program that answers with JSON; other lines that libraries print are passed over."""
        if words:
            self.send(*words)
        while True:
            line = self.answer()
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found

    def numbers(self, *words: object) -> list[int]:
        """The same, of a program that answers with numbers."""
        return [int(word) for word in self.ask(*words).split()]

    def end(self, *, kill: bool = False) -> int:
        """Ends it, by the end of its input or by SIGKILL, and returns its status."""
        assert self.process.stdin is not None
        if kill:
            self.process.kill()
        with suppress(OSError):
            self.process.stdin.close()
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def _ended(self) -> EndedError:
        status = self.process.wait(PATIENCE_S)
        said = self.errors.read_text(errors="replace").strip().splitlines()[-6:]
        how = f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
        return EndedError(self.command, how, "\n".join(said))


@dataclass
class Container:
    """What its processes see of us; `root` is None for the bare host."""

    bed: Bed
    name: str
    root: Path | None
    limits: Limits | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def write_limits(self, limits: Limits) -> None:
        """Replaces the limits file as the agent does, by rename."""
        assert self.root is not None
        self.limits = limits
        (self.root / "limits/.new").write_bytes(encode(limits))
        (self.root / "limits/.new").rename(self.root / "limits/limits")

    def used(self) -> int:
        """Bytes in use, as its region says."""
        assert self.root is not None
        return region.read(self.root / "region/vgpu.cache").devices[0].used_bytes

    def env(self) -> dict[str, str]:
        """The environment of a process in it."""
        env = self.bed.host_environment() | self.environment
        if self.root is not None:
            env["LD_PRELOAD"] = str(self.bed.library)
            env["HAMI_VGPU_ROOT"] = str(self.root)
        return env

    def start(self, *command: object, **variables: str) -> Process:
        """Starts a program in it."""
        return self.bed.start([str(word) for word in command], self.env() | variables)

    def shell(self) -> Process:
        """A program that does what it is told with the driver's memory functions, on device 0."""
        shell = self.start(self.bed.program("shell"))
        if (first := shell.answer()) != "ready":
            raise KitError(f"shell: {first}")
        return shell

    def load(self, kernel: str, *graph: int) -> Process:
        """A program that gives the device work as it is told."""
        load = self.start(self.bed.program("load"), kernel, *graph)
        load.json()
        return load

    def client(self, library: str, what: str, **variables: str) -> Process:
        """A program of `clients.py`."""
        return self.start(self.bed.python, OURS / "clients.py", library, what, **variables)


class Bed:
    """Makes containers and ends everything when it is closed.

    Args:
        work: A folder of its own.
        library: A built `libvgpu.so`; compiled from the tree when None.
        simulated: The state of simulated GPUs, or None: the machine's own.
        device: Index or UUID of the card.
        python: The interpreter that has users' libraries.
    """

    def __init__(
        self,
        work: Path,
        *,
        library: Path | None = None,
        simulated: Path | None = None,
        device: str = "0",
        python: str = sys.executable,
    ) -> None:
        self.work = work
        self.python = python
        self.simulated = simulated
        self.uuid = ""
        self._programs: dict[str, Path] = {}
        self._containers = 0
        self._processes: list[Process] = []
        self.given = library is not None
        self.library = library or compile_library(work)
        self.observer = self.start([sys.executable, str(OURS / "observer.py"), device], self.host_environment())
        try:
            self.card = self.observer.json("card")
        except EndedError as error:
            raise KitError(f"no NVIDIA card {device} to be seen here: {error.said}") from None
        self.uuid = self.card["uuid"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        self.observer.end()

    def end_all(self) -> None:
        """Ends every program but the observer."""
        for process in self._processes:
            if process is not getattr(self, "observer", None):
                process.end(kill=True)
        self._processes = [process for process in self._processes if process is getattr(self, "observer", None)]

    def start(self, command: list[str], env: Mapping[str, str]) -> Process:
        """Starts a program that ends with the bed."""
        process = Process(command, env, self.work / f"stderr{len(list(self.work.glob('stderr*')))}")
        self._processes.append(process)
        return process

    def host_environment(self) -> dict[str, str]:
        """The environment of programs that no limit concerns; only the one card is there."""
        env = {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", "HAMI_VGPU_ROOT"}}
        env["KERNELS"] = str(OURS / "programs/kernels.ptx")
        env["PYTHONWARNINGS"] = "ignore"
        if self.simulated is not None:
            from hami_interpose import sim  # it needs the simulated driver, which may not be built

            return sim.environment(self.simulated, env)
        if self.uuid:  # CUDA counts the fastest card first, NVML the first slot
            env["CUDA_VISIBLE_DEVICES"] = self.uuid
        return env

    def program(self, name: str) -> Path:
        """A C program of the kit's or of the interposer's tests, compiled."""
        if name not in self._programs:
            source = OURS / f"programs/{name}.c"
            source = source if source.exists() else PROGRAMS / f"{name}.c"
            if name == "cost":
                source = ROOT / "interpose/bench/cost.c"
            out = self.work / name
            options = ["-std=gnu11", "-O1", "-Iinterpose/include", "-Iinterpose/generated"]
            run_compiler(["gcc", *options, str(source), "-o", str(out), "-ldl", "-lpthread"])
            self._programs[name] = out
        return self._programs[name]

    def bare(self) -> Container:
        """Programs as on a host without us."""
        return Container(self, "bare", None)

    def container(
        self,
        *,
        memory_mib: int = 0,
        cores: int = 0,
        policy: CorePolicy = CorePolicy.FORCE,
        priority: int = 1,
        mode: Mode = Mode.ENFORCE,
    ) -> Container:
        """A container with a slice of the card; 0: no limit of that kind."""
        self._containers += 1
        root = self.work / f"container{self._containers}"
        for name in ("limits", "region", "turns"):
            (root / name).mkdir(parents=True)
        page = self.work / "page"
        if not page.exists():
            page.write_bytes(turn.initial())
        if cores:
            os.link(page, root / "turns" / self.uuid)
        limits = self.limits(memory_mib, cores, policy=policy, priority=priority, mode=mode)
        container = Container(self, root.name, root, limits)
        container.write_limits(limits)
        (root / "region/vgpu.cache").write_bytes(region.initial(limits))
        return container

    def limits(
        self,
        memory_mib: int,
        cores: int,
        *,
        policy: CorePolicy = CorePolicy.FORCE,
        priority: int = 1,
        mode: Mode = Mode.ENFORCE,
    ) -> Limits:
        """Limits of the one card."""
        device = DeviceLimit(self.uuid, memory_mib * MIB, memory_mib * MIB, cores)
        return Limits((device,), mode=mode, core_policy=policy, priority=priority)

    def device_used(self) -> int:
        """Bytes in use of the whole card, as NVML says from outside."""
        return int(self.observer.json("card")["used"])

    def watch(self, *processes: Process) -> int:
        """Begins to keep the highest use of these; returns what the device has in use now."""
        return int(self.observer.json("watch", *(process.pid for process in processes))["device"])

    def peak(self, before: int = 0) -> int:
        """The most they had at one moment since `watch`, in bytes.

        Where NVML tells nothing of processes: what the device had more than `before`.
        """
        found = self.observer.json("peak")
        return int(found["device"] - before if found["theirs"] is None else found["theirs"])
