"""Small C programs for images that need nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contrib.images.command import run

if TYPE_CHECKING:
    from pathlib import Path

GCC: Final = "install gcc and libc6-dev"
_FLAGS: Final = ("-std=gnu11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none")


def static(source: Path, out: Path) -> Path:
    """A program that needs no library."""
    run(["gcc", *_FLAGS, "-static", source, "-o", out], needs=GCC)
    return out


def on_driver(source: Path, libraries: Path, out: Path) -> Path:
    """A program linked with the CUDA driver, as any client is.

    Args:
        source: The C file.
        libraries: A folder with a libcuda.so.1 to link against; the program finds the node's own when it starts.
        out: The program.
    """
    run(["gcc", *_FLAGS, source, "-o", out, f"-L{libraries}", "-l:libcuda.so.1"], needs=GCC)
    return out


def musl(source: Path, tree: Path, out: Path) -> Path:
    """A program whose loader is musl's.

    Args:
        source: The C file.
        tree: Debian's musl and musl-dev, unpacked.
        out: The program.
    """
    library = tree / "usr/lib/x86_64-linux-musl"
    shared = tree / "lib/x86_64-linux-musl"
    command = ["gcc", *_FLAGS, "-DDYNAMIC", "-no-pie", "-nostdinc", "-nostdlib", "-fno-stack-protector"]
    command += ["-isystem", str(tree / "usr/include/x86_64-linux-musl")]
    command += ["-Wl,-dynamic-linker=/lib/ld-musl-x86_64.so.1"]
    command += [str(library / "crt1.o"), str(library / "crti.o"), str(source)]
    command += [f"-L{shared}", "-l:libc.so", str(library / "crtn.o"), "-o", str(out)]
    run(command, needs=GCC)
    return out
