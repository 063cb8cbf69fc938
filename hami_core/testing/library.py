"""Builds a simulated driver library from its C source."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS: Final = ("-std=c11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")


def build_library(source: Path, library: Path) -> Path:
    """Compile one C file into a shared library, unless the library is newer than its source.

    A vendor without hardware tests its node side against such a library: the driver's public functions, over state in
    a folder that the test writes.

    Args:
        source: The C file.
        library: The library to write, such as ``libdcmi.so``. Its folder is made.

    Returns:
        ``library``.

    Raises:
        ConfigError: There is no C compiler, or the source does not compile.

    Example:
        >>> from pathlib import Path
        >>> build_library(Path("no-such.c"), Path("/nowhere/libacme.so"))
        Traceback (most recent call last):
        hami_core.errors.ConfigError: no-such.c: there is no such file (name the C source of the library)
    """
    if not source.is_file():
        raise ConfigError(str(source), "there is no such file", "name the C source of the library")
    if library.is_file() and library.stat().st_mtime >= source.stat().st_mtime:
        return library
    compiler = shutil.which("cc")
    if compiler is None:
        raise ConfigError(
            str(source), "there is no C compiler cc on the PATH", "install gcc: apt-get install gcc libc6-dev"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    made = library.with_suffix(".new")
    built = subprocess.run(
        [compiler, *_FLAGS, str(source), "-o", str(made)], capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise ConfigError(str(source), f"does not compile: {built.stderr.strip()[:2000]}", "correct the source")
    made.replace(library)
    return library
