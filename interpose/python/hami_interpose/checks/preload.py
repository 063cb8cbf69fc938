"""Whether the library is preloaded: the file that says so, the variable that may say otherwise, and this process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hami_interpose
from hami_interpose._regions import STANDARD_ROOT
from hami_interpose.checks import elf
from hami_interpose.checks.finding import not_applicable, ok, wrong
from hami_interpose.checks.program import obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_interpose.checks.finding import Finding

PRELOAD_FILE: Final = Path("/etc/ld.so.preload")
LIBRARY: Final = "libvgpu.so"
_BUILD: Final = re.compile(rb"hami-build-id=([0-9a-z]{1,47})\0")
_LARGEST: Final = 64 << 20
_MOUNTS: Final = "the agent mounts it; look at the container's events and at `hami doctor` on the node"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A libvgpu.so in this process; `build` is empty where it is not one of this project."""

    path: str
    build: str


def build_of(path: Path) -> str:
    """Build id in a library file; empty when there is none.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        found = _BUILD.search(file.read(_LARGEST))
    return found[1].decode("ascii") if found else ""


def mapped(proc: Path = Path("/proc/self")) -> tuple[Mapped, ...]:
    """Every libvgpu.so that this process has loaded, with the build id read from memory, not from a file."""
    builds: dict[str, str] = {}
    for line in (proc / "maps").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        path = fields[5].removesuffix(" (deleted)") if len(fields) == 6 else ""
        if Path(path).name.startswith("libvgpu"):
            first, last = (int(part, 16) for part in fields[0].split("-"))
            found = _build_in_memory(proc, first, last) if fields[1].startswith("r") else ""
            builds[path] = found or builds.get(path, "")
    return tuple(Mapped(path, build) for path, build in builds.items())


def _build_in_memory(proc: Path, first: int, last: int) -> str:
    with (proc / "mem").open("rb", buffering=0) as memory:
        memory.seek(first)
        found = _BUILD.search(memory.read(min(last - first, _LARGEST)) or b"")
    return found[1].decode("ascii") if found else ""


def preload_file(path: Path = PRELOAD_FILE) -> tuple[str, ...]:
    """The libraries that the loader's file names: separated by blanks or colons, `#` begins a comment."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(re.split(r"[\s:]+", re.sub(r"#[^\n]*", "", text).strip())) if text.strip() else ()


class Preload:
    """What is known of the library in this container."""

    def __init__(self, root: Path, environ: Mapping[str, str], *, from_file: tuple[str, ...] | None = None) -> None:
        self.own = root / LIBRARY
        self.standard = root == STANDARD_ROOT
        self.in_file = preload_file() if from_file is None else from_file
        self.in_variable = tuple(word for word in re.split(r"[\s:]+", environ.get("LD_PRELOAD", "")) if word)
        self.mapped = mapped()
        self.build = self._own_build()

    def _own_build(self) -> str:
        try:
            return build_of(self.own)
        except OSError:
            return ""

    @property
    def by_file(self) -> bool:
        """Whether /etc/ld.so.preload names a libvgpu.so."""
        return any(Path(name).name == LIBRARY for name in self.in_file)

    @property
    def library(self) -> Path | None:
        """The library to go by: the mounted one, else the preloaded one."""
        named = [Path(name) for name in (*self.in_file, *self.in_variable) if Path(name).name == LIBRARY]
        return next((path for path in (self.own, *named) if path.is_file()), None)

    def findings(self) -> Iterator[Finding]:
        """The checks, in the order of the loader's work."""
        yield self._library()
        yield self._file()
        yield self._variable()
        yield self._process()

    def _library(self) -> Finding:
        check = "library.file"
        if self.own.is_file():
            if not self.build:
                return wrong(check, f"{self.own} is no libvgpu.so of this project: it has no build id", _MOUNTS)
            return ok(check, f"{self.own}, build {self.build}{self._package()}")
        if self.standard:
            return wrong(check, f"{self.own} is not there", _MOUNTS)
        return not_applicable(check, f"no {LIBRARY} under {self.own.parent}: another path is preloaded, or none")

    def _package(self) -> str:
        """How the tools at hand compare with the library, where that tells something."""
        try:
            package = hami_interpose.build_id()
        except (OSError, ValueError):
            return ""
        return "" if package == self.build else f" (these tools come with build {package})"

    def _file(self) -> Finding:
        check = "preload.file"
        named = [name for name in self.in_file if Path(name).name == LIBRARY]
        if str(self.own) in named and len(named) == 1:
            others = [name for name in self.in_file if name not in named]
            return ok(check, f"{PRELOAD_FILE} names {self.own}" + (f", beside {', '.join(others)}" if others else ""))
        if named:
            names = " ".join(self.in_file)
            return wrong(check, f"{PRELOAD_FILE} names {names}", f"the one line has to be {self.own}; {_MOUNTS}")
        if not self.standard and any(Path(name).name == LIBRARY for name in self.in_variable):
            return not_applicable(check, f"{PRELOAD_FILE} does not name it; LD_PRELOAD does, as in development")
        state = "names other libraries only" if self.in_file else "is not there or empty"
        return wrong(check, f"{PRELOAD_FILE} {state}: nothing is preloaded by it", _MOUNTS)

    def _variable(self) -> Finding:
        check, names = "preload.variable", " ".join(self.in_variable)
        ours = [name for name in self.in_variable if Path(name).name.startswith("libvgpu")]
        gone = [name for name in ours if "/" in name and not Path(name).is_file()]
        if not self.in_variable:
            return ok(check, "LD_PRELOAD is not set")
        if gone:
            return wrong(check, f"LD_PRELOAD names {gone[0]}, which is not there", "unset LD_PRELOAD in the pod")
        if self.by_file and any(not self._same(name) for name in ours):
            found = f"LD_PRELOAD={names} beside {PRELOAD_FILE}: two different libraries of this kind would be loaded"
            return wrong(check, found, "unset LD_PRELOAD in the pod's specification or the image")
        if len(ours) > 1:
            return wrong(check, f"LD_PRELOAD={names} names more than one libvgpu.so", "name one")
        return ok(check, f"LD_PRELOAD={names}" + ("" if ours else ", which does not touch libvgpu.so"))

    def _same(self, name: str) -> bool:
        try:
            return self.own.samefile(name)
        except OSError:
            return False

    def _process(self) -> Finding:
        check = "library.loaded"
        if not self.mapped:
            return wrong(check, "libvgpu.so is not loaded into this process", self._why_not())
        if len(self.mapped) > 1:
            paths = ", ".join(one.path for one in self.mapped)
            return wrong(check, f"several are loaded: {paths}", "preload one: see preload.file and preload.variable")
        [one] = self.mapped
        if not one.build:
            return wrong(check, f"{one.path} is loaded, which is not this project's", "preload this project's")
        if self.build and one.build != self.build:
            found = f"{one.path} is loaded with build {one.build}; {self.own} has build {self.build}"
            return wrong(check, found, "unset LD_PRELOAD, or restart the container")
        return ok(check, f"{one.path}, build {one.build}")

    def _why_not(self) -> str:
        try:
            reason = obstacle(elf.read(Path("/proc/self/exe")), elf.read(self.library) if self.library else None)
        except (OSError, elf.ElfError):
            reason = ""
        if reason:
            return f"this Python is {reason}: check with a Python for glibc, and take such an image for CUDA programs"
        return "see library.file and preload.file; a process started before they were there stays without it"
