"""Whether a program can be held at all: a preloaded library reaches only what glibc's loader starts."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose.checks import elf
from hami_interpose.checks.finding import not_applicable, ok, wrong

if TYPE_CHECKING:
    from hami_interpose.checks.elf import Elf
    from hami_interpose.checks.finding import Finding

_CHECK: Final = "program"
_GLIBC_LOADER: Final = re.compile(r"(ld-linux.*|ld64)\.so\.\d+|ld\.so\.1|ld-\d.*\.so")
_MOST_SCRIPTS = 5  # one calls another; the kernel stops there too
_OTHER_MEANS: Final = (
    "its memory and compute time are not limited; use a build for glibc, or a MIG slice or a whole card"
)


def check(command: str, library: Path | None, *, preloaded_by_file: bool) -> Finding:
    """Judges a program.

    Args:
        command: Name or path, as the shell takes it.
        library: The libvgpu.so to be loaded, for its architecture.
        preloaded_by_file: /etc/ld.so.preload names the library, which counts for setuid programs too.
    """
    try:
        path = _program(command)
        if path is None:
            return wrong(_CHECK, f"{command}: no such program", "name it by a path, or set PATH")
        return _judge(path, elf.read(path), library, preloaded_by_file=preloaded_by_file)
    except (OSError, elf.ElfError) as error:
        return wrong(_CHECK, f"{command}: {error}", "name an ELF program or a script that starts with #!")


def _program(command: str) -> Path | None:
    """The ELF file that runs in the end: a script's interpreter, `env`'s program."""
    for _ in range(_MOST_SCRIPTS):
        found = shutil.which(command)
        if found is None:
            return None
        with Path(found).open("rb") as file:
            first = file.readline(512)
        if not first.startswith(b"#!"):
            return Path(found)
        words = first[2:].decode("utf-8", "replace").split()
        if not words:
            return None
        behind_env = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        command = behind_env[0] if Path(words[0]).name == "env" and behind_env else words[0]
    return None


def obstacle(program: Elf, library: Elf | None) -> str:
    """Why no library can be preloaded into this program; empty: it can."""
    if not program.loader:
        return "statically linked, so no loader that would preload libvgpu.so"
    loader = Path(program.loader)
    if loader.name.startswith("ld-musl"):
        return f"for musl ({loader}), which reads no /etc/ld.so.preload and cannot load a library for glibc"
    if not _GLIBC_LOADER.fullmatch(loader.name):
        return f"for the loader {loader}, which is not glibc's"
    if library is not None and (program.bits, program.machine) != (library.bits, library.machine):
        ours = f"{library.bits}-bit {library.machine}"
        return f"{program.bits}-bit {program.machine}, and libvgpu.so is {ours}"
    return ""


def _judge(path: Path, program: Elf, library: Path | None, *, preloaded_by_file: bool) -> Finding:
    why = obstacle(program, elf.read(library) if library is not None else None)
    if why:
        return wrong(_CHECK, f"{path}: {why}", _OTHER_MEANS)
    if not Path(program.loader).exists():
        return wrong(_CHECK, f"{path}: its loader {program.loader} is not here", "it cannot start in this image")
    privileges = _privileges(path)
    if privileges and not preloaded_by_file:
        found = f"{path}: {privileges}, so the loader ignores LD_PRELOAD"
        return wrong(_CHECK, found, "preload by /etc/ld.so.preload, which counts for such programs too")
    if library is None:
        return not_applicable(_CHECK, f"{path}: could be held, but there is no libvgpu.so here")
    note = f", {privileges} (/etc/ld.so.preload counts for it all the same)" if privileges else ""
    return ok(_CHECK, f"{path}: {program.bits}-bit {program.machine}, loaded by {program.loader}{note}")


def _privileges(path: Path) -> str:
    """What makes the loader distrust the environment of this program."""
    mode = path.stat().st_mode
    if mode & stat.S_ISUID:
        return "setuid"
    if mode & stat.S_ISGID:
        return "setgid"
    try:
        return "with file capabilities" if os.getxattr(path, "security.capability") else ""
    except OSError:
        return ""
