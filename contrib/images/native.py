"""Compile the small C programs of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contrib.images.command import run

if TYPE_CHECKING:
    from pathlib import Path

GCC: Final = "install gcc and libc6-dev"
_FLAGS: Final = ("-std=gnu11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none")


def static(source: Path, out: Path) -> Path:
    """Compile a static program."""
    run(["gcc", *_FLAGS, "-static", source, "-o", out], needs=GCC)
    return out


def on_driver(source: Path, libraries: Path, out: Path) -> Path:
    """Compile a program that is linked with the CUDA driver, like any client.

    Args:
        source: The C file.
        libraries: Folder with a libcuda.so.1 to link against. At start the program loads the node's library.
        out: Path of the program.
    """
    run(["gcc", *_FLAGS, source, "-o", out, f"-L{libraries}", "-l:libcuda.so.1"], needs=GCC)
    return out


def musl(source: Path, tree: Path, out: Path) -> Path:
    """Compile a program with musl's loader.

    Args:
        source: The C file.
        tree: Folder with Debian's packages musl and musl-dev, unpacked.
        out: Path of the program.
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
