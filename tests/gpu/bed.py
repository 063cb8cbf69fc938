"""What all parts use: the library, containers, programs, and an observer outside the containers.

A container is a folder with limits, a region and turn pages, as the agent makes it, and processes that preload the
library. With the simulated driver, the same programs find the simulated libraries first.
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
    """The kit can't continue. The message says what is missing and what to do."""


class EndedError(KitError):
    """A program ended without an answer. `said` is the end of its stderr."""

    def __init__(self, command: Sequence[str], how: str, said: str) -> None:
        self.said = said
        super().__init__(f"{' '.join(command)}: {how}\n{said}")


def compile_library(out: Path) -> Path:
    """Build `libvgpu.so` from the tree with one gcc command, without CMake and whole-program optimisation.

    Raises:
        KitError: gcc failed.
    """
    source, library = ROOT / "interpose/src", out / "libvgpu.so"
    exports = source / f"exports.{os.uname().machine}.map"
    # dlsym.c and libc.c replace functions of the C library. So the compiler must not insert calls to them.
    options = ["-fno-builtin", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-ftls-model=initial-exec"]
    linked = [f"-Wl,--version-script={exports}", "-Wl,-Bsymbolic,-z,now,--build-id", "-ldl", "-lpthread"]
    command = ["gcc", "-shared", "-fPIC", "-std=gnu11", "-O3", "-fvisibility=hidden", "-fno-strict-aliasing", *options]
    command += [f'-DHAMI_BUILD_ID="{"0" * 16}"', "-D_GNU_SOURCE", "-Iinterpose/src", "-Iinterpose/generated"]
    folders = (source, ROOT / "interpose/generated")
    command += [str(path) for folder in folders for path in sorted(folder.rglob("*.[cS]"))]
    command += ["-o", str(library), *linked]
    run_compiler(command)
    return library


def run_compiler(command: Sequence[str]) -> None:
    """Run a compiler in the root of the tree.

    Raises:
        KitError: The compiler is missing or failed.
    """
    if shutil.which(command[0]) is None:
        raise KitError(f"{command[0]} is not installed: the kit needs it to compile its programs")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KitError(f"{' '.join(command)}\n{done.stderr}")


def missing(found: Mapping[str, Any]) -> str:
    """Why a client is left out. Empty if its library is installed."""
    return f"{found['missing']} is not installed" if "missing" in found else ""


class Process:
    """A program that reads commands and prints answers, one a line. Its stderr goes to a file."""

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
        """Send a command. `answer` returns what the program prints."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def answer(self) -> str:
        """The next line that the program prints.

        Raises:
            EndedError: The program ended without a line.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        return line.strip()

    def ask(self, *words: object) -> str:
        """Send a command and return the answer."""
        self.send(*words)
        return self.answer()

    def json(self, *words: object) -> dict[str, Any]:
        """Send a command, if there is one, and return the JSON answer. Lines printed by libraries are skipped."""
        if words:
            self.send(*words)
        while True:
            line = self.answer()
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found

    def numbers(self, *words: object) -> list[int]:
        """Send a command and return the numbers of the answer."""
        return [int(word) for word in self.ask(*words).split()]

    def end(self, *, kill: bool = False) -> int:
        """End the program by closing its input, or by SIGKILL. Returns its exit status."""
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
    """The files and variables by which processes are limited. `root` is None for the bare host."""

    bed: Bed
    name: str
    root: Path | None
    limits: Limits | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def write_limits(self, limits: Limits) -> None:
        """Replace the limits file by a rename, as the agent does."""
        assert self.root is not None
        self.limits = limits
        (self.root / "limits/.new").write_bytes(encode(limits))
        (self.root / "limits/.new").rename(self.root / "limits/limits")

    def used(self) -> int:
        """Bytes in use according to its region."""
        assert self.root is not None
        return region.read(self.root / "region/vgpu.cache").devices[0].used_bytes

    def env(self) -> dict[str, str]:
        """The environment of a process in the container."""
        env = self.bed.host_environment() | self.environment
        if self.root is not None:
            env["LD_PRELOAD"] = str(self.bed.library)
            env["HAMI_VGPU_ROOT"] = str(self.root)
        return env

    def start(self, *command: object, **variables: str) -> Process:
        """Start a program in the container."""
        return self.bed.start([str(word) for word in command], self.env() | variables)

    def shell(self) -> Process:
        """Start the program that calls the driver's memory functions as commanded, on device 0."""
        shell = self.start(self.bed.program("shell"))
        if (first := shell.answer()) != "ready":
            raise KitError(f"shell: {first}")
        return shell

    def load(self, kernel: str, *graph: int) -> Process:
        """Start the program that launches kernels as commanded."""
        load = self.start(self.bed.program("load"), kernel, *graph)
        load.json()
        return load

    def client(self, library: str, what: str, **variables: str) -> Process:
        """Start a client of `clients.py`."""
        return self.start(self.bed.python, OURS / "clients.py", library, what, **variables)


class Bed:
    """Makes containers, and ends all programs on exit.

    Args:
        work: An empty folder for the bed.
        library: A built `libvgpu.so`. None: compile it from the tree.
        simulated: The state folder of simulated GPUs. None: use the machine's own.
        device: Index or UUID of the card.
        python: The interpreter that has PyTorch and others.
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
            raise KitError(f"can't find NVIDIA card {device}: {error.said}") from None
        self.uuid = self.card["uuid"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        self.observer.end()

    def end_all(self) -> None:
        """End all programs except the observer."""
        for process in self._processes:
            if process is not getattr(self, "observer", None):
                process.end(kill=True)
        self._processes = [process for process in self._processes if process is getattr(self, "observer", None)]

    def start(self, command: list[str], env: Mapping[str, str]) -> Process:
        """Start a program that ends with the bed."""
        process = Process(command, env, self.work / f"stderr{len(list(self.work.glob('stderr*')))}")
        self._processes.append(process)
        return process

    def host_environment(self) -> dict[str, str]:
        """The environment of programs without limits. They see only the bed's card."""
        env = {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", "HAMI_VGPU_ROOT"}}
        env["KERNELS"] = str(OURS / "programs/kernels.ptx")
        env["PYTHONWARNINGS"] = "ignore"
        if self.simulated is not None:
            import hami_gpusim as sim  # needs the simulated driver, which may not be built

            return sim.environment(self.simulated, env)
        if self.uuid:  # CUDA numbers cards by speed, NVML by slot: so use the UUID
            env["CUDA_VISIBLE_DEVICES"] = self.uuid
        return env

    def program(self, name: str) -> Path:
        """Compile a C program of the kit or of the interposer's tests and bench."""
        if name not in self._programs:
            source = OURS / f"programs/{name}.c"
            source = source if source.exists() else PROGRAMS / f"{name}.c"
            if name == "cost":
                source = ROOT / "interpose/bench/cost.c"
            out = self.work / name
            options = ["-std=gnu11", "-O1", "-Iinterpose/src", "-Iinterpose/generated"]
            run_compiler(["gcc", *options, str(source), "-o", str(out), "-ldl", "-lpthread"])
            self._programs[name] = out
        return self._programs[name]

    def bare(self) -> Container:
        """The bare host: programs without the library."""
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
        """Make a container with a slice of the card. An amount of 0 means no limit."""
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
        """Limits for the bed's card."""
        device = DeviceLimit(self.uuid, memory_mib * MIB, memory_mib * MIB, cores)
        return Limits((device,), mode=mode, core_policy=policy, priority=priority)

    def device_used(self) -> int:
        """Bytes in use on the whole card, as NVML reports outside the containers."""
        return int(self.observer.json("card")["used"])

    def watch(self, *processes: Process) -> int:
        """Start to record the peak use of these processes. Returns the bytes in use on the card now."""
        return int(self.observer.json("watch", *(process.pid for process in processes))["device"])

    def peak(self, before: int = 0) -> int:
        """The highest sum of the processes' use since `watch`, in bytes.

        If NVML does not report processes, the peak use of the card minus `before`.
        """
        found = self.observer.json("peak")
        return int(found["device"] - before if found["theirs"] is None else found["theirs"])
