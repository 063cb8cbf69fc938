"""Builds the wheels of hami-interpose and hami-gpusim: one for each machine, for all Linux with glibc 2.17 or newer.

    python gen/wheels.py                              all wheels, into dist/
    python gen/wheels.py --distribution hami-interpose --machine aarch64 --out DIR
                                                      one of them, somewhere else
    python gen/wheels.py --work DIR                   keep what was built: the next time is quicker

The C compiler is zig's, which brings the C library of every machine along; no other compiler is needed, and the
machine that builds does not matter. Needs pip, wheel, scikit-build-core, cmake, ninja and ziglang in this Python
(`nox -s wheels` has them), and no network.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
# Folder of each distribution, and the compiled files that its wheel holds. The production wheel has no fake driver.
DISTRIBUTIONS = {
    "hami-interpose": (ROOT, {"hami_interpose/lib/libvgpu.so"}),
    "hami-gpusim": (ROOT / "gpusim", {f"hami_gpusim/lib/{name}" for name in ("libcuda.so.1", "libnvidia-ml.so.1")}),
}
OLDEST = (2, 17)  # glibc of CentOS 7: no distribution that runs a CUDA driver of today has an older one
# The number of each machine in the header of an ELF file.
MACHINES = {"x86_64": 62, "aarch64": 183}
NEEDED = ("pip", "wheel", "scikit-build-core", "cmake", "ninja", "ziglang")
SHT_GNU_VERNEED = 0x6FFFFFFE
# Flags meant for this machine's compiler.
FOREIGN = ("CC", "AR", "RANLIB", "CFLAGS", "CPPFLAGS", "ASMFLAGS", "LDFLAGS", "CMAKE_TOOLCHAIN_FILE", "CMAKE_ARGS")


class WheelError(RuntimeError):
    """No wheel; the text says why."""


def need_tools() -> None:
    """Says what is missing, all at once."""
    missing = []
    for name in NEEDED:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        raise WheelError(f"not installed in {sys.executable}: {', '.join(missing)}; `nox -s wheels` has them all")


def tag(machine: str) -> str:
    """What the wheel says it runs on, with the name that older tools know it by."""
    return f"manylinux_{OLDEST[0]}_{OLDEST[1]}_{machine}.manylinux2014_{machine}"


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Runs a command to its end and returns its output."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise WheelError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def toolchain(machine: str, work: Path) -> Path:
    """Writes a CMake toolchain file for a machine, and the archive programs that it names."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise WheelError("the ziglang wheel has no files")
    zig = Path(found.origin).parent / "zig"
    for tool in ("ar", "ranlib"):  # one word each, as CMake wants them
        script = work / tool
        script.write_text(f'#!/bin/sh\nexec "{zig}" {tool} "$@"\n')
        script.chmod(0o755)
    # zig builds its runtime once for each kind of output: let CMake's trials be of the same kind as the libraries.
    # Symbols go at the link: this machine's `strip` may not know the other machine.
    compiler = f'"{zig}" cc -target {machine}-linux-gnu.{OLDEST[0]}.{OLDEST[1]} -O3 -s'
    lines = [
        "set(CMAKE_SYSTEM_NAME Linux)",
        f"set(CMAKE_SYSTEM_PROCESSOR {machine})",
        f"set(CMAKE_C_COMPILER {compiler})",
        f"set(CMAKE_ASM_COMPILER {compiler})",
        *(f'set(CMAKE_{part}AR "{work / "ar"}")' for part in ("", "C_COMPILER_")),
        *(f'set(CMAKE_{part}RANLIB "{work / "ranlib"}")' for part in ("", "C_COMPILER_")),
    ]
    file = work / "toolchain.cmake"
    file.write_text("\n".join(lines) + "\n")
    return file


def asked(elf: bytes) -> Iterator[str]:
    """Versions of symbols that a library asks others for."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    (count,) = struct.unpack_from("<H", elf, 0x3C)
    sections = [struct.unpack_from("<IIQQQQII", elf, table + 64 * i) for i in range(count)]
    for _, kind, _, _, start, _, strings, libraries in sections:
        if kind != SHT_GNU_VERNEED:
            continue
        names, library = sections[strings][4], start
        for _ in range(libraries):
            _, versions, _, first, behind = struct.unpack_from("<HHIII", elf, library)
            version = library + first
            for _ in range(versions):
                _, _, _, name, following = struct.unpack_from("<IHHII", elf, version)
                yield elf[names + name : elf.index(b"\0", names + name)].decode("ascii")
                version += following
            library += behind


def check(wheel: Path, machine: str, libraries: set[str]) -> None:
    """The tag is a promise: the wheel holds these compiled files, for the machine, for the C library or newer ones."""
    with zipfile.ZipFile(wheel) as archive:
        compiled = {name: data for name in archive.namelist() if (data := archive.read(name))[:4] == b"\x7fELF"}
    if set(compiled) != libraries:
        raise WheelError(f"{wheel.name}: {sorted(libraries)} expected, found {sorted(compiled)}")
    for name, data in compiled.items():
        if int.from_bytes(data[18:20], "little") != MACHINES[machine]:
            raise WheelError(f"{wheel.name}: {name} is not for {machine}")
        newest = max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", " ".join(asked(data))))
        if newest > OLDEST:
            raise WheelError(f"{wheel.name}: {name} needs glibc {'.'.join(map(str, newest))}")


def build(distribution: str, machine: str, out: Path, work: Path) -> Path:
    """Builds a distribution's wheel for one machine; nothing is written outside `out` and `work`."""
    folder, libraries = DISTRIBUTIONS[distribution]
    here = work / distribution / machine
    here.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    environment["_PYTHON_HOST_PLATFORM"] = f"linux-{machine}"  # what scikit-build-core takes the tag from
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(work / "zig"))
    environment["ZIG_LOCAL_CACHE_DIR"] = str(here / "zig")
    for old in here.glob("*.whl"):
        old.unlink()
    options = [
        f"build-dir={here / 'build'}",
        f"cmake.define.CMAKE_TOOLCHAIN_FILE={toolchain(machine, here)}",
        "install.strip=false",
    ]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--verbose", "--no-cache-dir"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(here)]
    run([*command, *(word for option in options for word in ("--config-settings", option)), str(folder)], environment)
    (plain,) = here.glob("*.whl")
    check(plain, machine, libraries)
    name = run([sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag(machine), str(plain)]).split()
    # Renamed within the folder, so that nobody finds half a wheel there.
    hidden = out / f".{name[-1]}.{os.getpid()}"
    hidden.write_bytes((here / name[-1]).read_bytes())
    return hidden.rename(out / name[-1])


def main() -> int:
    """Builds, or says why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distribution", action="append", choices=DISTRIBUTIONS, help="may be repeated; default: both")
    parser.add_argument("--machine", action="append", choices=sorted(MACHINES), help="may be repeated; default: all")
    parser.add_argument("--out", type=Path, default=ROOT.parent / "dist", help="where the wheels go (default: dist/)")
    parser.add_argument("--work", type=Path, help="where to build; default: a temporary folder")
    given = parser.parse_args()
    try:
        need_tools()
        with tempfile.TemporaryDirectory(prefix="hami-wheels-") as temporary:
            work = given.work or Path(temporary)
            given.out.mkdir(parents=True, exist_ok=True)
            machines = given.machine or sorted(MACHINES, reverse=True)
            for distribution, machine in itertools.product(given.distribution or DISTRIBUTIONS, machines):
                began = time.monotonic()
                print(f"{distribution}, {machine}: building …", flush=True)
                wheel = build(distribution, machine, given.out.resolve(), work.resolve())
                print(f"{wheel} ({time.monotonic() - began:.0f} s)", flush=True)
    except (WheelError, OSError) as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
