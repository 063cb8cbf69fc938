"""Driver files that programs of this container have loaded, and libraries that take functions past `libvgpu.so`.

The loader puts the address of each function that a library imports into a slot of that library. Where `libvgpu.so` is
preloaded, the slot of a wrapped function holds the wrapper's address. It holds the driver's own in a library that was
opened with RTLD_DEEPBIND, or by dlmopen in a namespace of its own: what that library allocates is not counted.
"""

from __future__ import annotations

import bisect
import os
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose._regions import library_root
from hami_interpose._show import printable
from hami_interpose.checks import elf
from hami_interpose.checks.finding import not_applicable, ok, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_interpose.checks.finding import Finding

_CHECK: Final = "drivers"
_CUDA_TABLE: Final = """
cuInit cuDriverGetVersion cuDeviceGetName cuMemAlloc_v2 cuMemcpyDtoH_v2 cuModuleGetFunction cuLaunchKernel cuEventRecord
"""
_NVML_TABLE: Final = """
nvmlInit_v2 nvmlShutdown nvmlErrorString nvmlSystemGetDriverVersion nvmlDeviceGetHandleByUUID nvmlDeviceGetMemoryInfo
nvmlDeviceGetName nvmlDeviceGetTemperature
"""
_TABLES: Final = (frozenset(_CUDA_TABLE.split()), frozenset(_NVML_TABLE.split()))
"""A library that exports one of these sets of functions is a driver; resolve.c has the same."""
_DOORS: Final = frozenset(["dlsym", "dlvsym"])
_DRIVER_NAMES: Final = (b"libcuda.so", b"libnvidia-ml.so")
_FIX: Final = "open it without RTLD_DEEPBIND and dlmopen, or give this container whole cards or a MIG slice"


@dataclass(frozen=True, slots=True)
class _Object:
    """What a file says of itself."""

    start: int = 0
    size: int = 0
    exports: frozenset[str] = frozenset()
    slots: tuple[tuple[str, int], ...] = ()
    """Name and address of each that may be for a function of `libvgpu.so`: the driver's, dlsym and dlvsym."""

    @property
    def is_driver(self) -> bool:
        return any(table <= self.exports for table in _TABLES)


@lru_cache(maxsize=4096)
def _object(path: str) -> _Object:
    try:
        with Path(path).open("rb") as file:
            tables = elf.Tables(file)
            driver = any(all(map(tables.mentions, table)) for table in _TABLES)
            ours = driver or Path(path).name.startswith("libvgpu")
            slots = tuple(
                (name, at) for name, at in tables.slots() if name in _DOORS or name.startswith(("cu", "nvml"))
            )
            return _Object(tables.start, tables.size, frozenset(tables.functions()) if ours else frozenset(), slots)
    except (OSError, ValueError, OverflowError, struct.error):
        return _Object()  # no library, or a broken one, which no loader loads


def _names_a_driver(path: str) -> bool:
    """Whether a file holds a driver's name, as one does that opens it."""
    end = b""
    with Path(path).open("rb") as file:
        while content := file.read(1 << 20):
            if any(name in end + content for name in _DRIVER_NAMES):
                return True
            end = content[-max(map(len, _DRIVER_NAMES)) :]
    return False


@dataclass(slots=True)
class _Process:
    """What a process has loaded: for each mapping its first address, in order, and its file."""

    pid: int
    name: str
    firsts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    loaded: list[tuple[str, int]] = field(default_factory=list)
    """Each object's file and the address of its first mapping: a file may be loaded twice, in two namespaces."""

    def read_maps(self, folder: Path) -> None:
        for line in (folder / "maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            fields = line.split(maxsplit=5)
            first, end = (int(part, 16) for part in fields[0].split("-"))
            path = fields[5] if len(fields) == 6 else ""
            self.firsts.append(first)
            self.ends.append(end)
            self.files.append(path)
            known = max((at for file, at in self.loaded if file == path), default=-1)
            if (
                path.startswith("/")
                and int(fields[2], 16) == 0
                and not 0 <= known <= first < known + _object(path).size
            ):
                self.loaded.append((path, first))

    def file_at(self, address: int) -> str:
        at = bisect.bisect(self.firsts, address) - 1
        return self.files[at] if at >= 0 and address < self.ends[at] else ""

    @property
    def shown(self) -> str:
        return f"process {self.pid} ({printable(self.name)})"


def findings(root: Path, proc: Path = Path("/proc")) -> Iterator[Finding]:
    """One for each process of this container that has loaded a driver."""
    found = [finding for process in _processes(root, proc) for finding in _judge(process, proc)]
    yield from found or [not_applicable(_CHECK, "no program that can be looked at has loaded a driver now")]


def _processes(root: Path, proc: Path) -> Iterator[_Process]:
    """Those of this container, whose mounts are ours, that have loaded `libvgpu.so` with this root."""
    mounts = (proc / "self/ns/mnt").readlink()
    for folder in sorted((path for path in proc.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)):
        try:
            variables = (folder / "environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            source = library_root(dict(one.split("=", 1) for one in variables if "=" in one))
            process = _Process(int(folder.name), (folder / "comm").read_text(errors="replace").strip())
            if (folder / "ns/mnt").readlink() == mounts and source is not None and source.resolve() == root.resolve():
                process.read_maps(folder)
        except (OSError, ValueError):
            continue  # gone, or somebody else's
        if any(Path(path).name.startswith("libvgpu") for path, _ in process.loaded):
            yield process


def _judge(process: _Process, proc: Path) -> Iterator[Finding]:
    drivers = sorted({path for path, _ in process.loaded if _object(path).is_driver})
    if not drivers:
        return
    try:
        past = _past(process, proc)
    except (OSError, OverflowError) as error:
        said = f"{process.shown} has loaded {', '.join(drivers)}; its memory cannot be read: {error}"
        yield not_applicable(_CHECK, said)
        return
    for path, names in past.items():
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        said = f"{process.shown}: {path} takes {some} past libvgpu.so: nothing limits its use of {', '.join(drivers)}"
        yield wrong(_CHECK, printable(said), _FIX)
    if not past:
        yield ok(_CHECK, printable(f"{process.shown}: {', '.join(drivers)}, called through libvgpu.so"))


def _past(process: _Process, proc: Path) -> dict[str, list[str]]:
    """Files of the objects that take functions past `libvgpu.so`, and the names of these functions."""
    wrapped = frozenset().union(
        *(_object(path).exports for path, _ in process.loaded if Path(path).name.startswith("libvgpu"))
    )
    past: dict[str, list[str]] = {}
    memory = os.open(proc / str(process.pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for path, first in process.loaded:
            found = _object(path)
            if found.is_driver or Path(path).name.startswith("libvgpu"):
                continue
            for name, offset in found.slots:
                if name in wrapped and name not in past.get(path, ()):
                    value = int.from_bytes(os.pread(memory, 8, first - found.start + offset), "little")
                    if _is_past(name, process.file_at(value), path):
                        past.setdefault(path, []).append(name)
    finally:
        os.close(memory)
    return past


def _is_past(name: str, holder: str, path: str) -> bool:
    """Whether the slot of a file leads past the library: to a driver, or to the C library's dlsym to find one with."""
    if name in _DOORS:
        return Path(holder).name.startswith(("libc.", "libc-", "libdl")) and _names_a_driver(path)
    return _object(holder).is_driver if holder else False
