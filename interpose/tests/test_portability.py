"""The library builds for both machines against glibc 2.17 and asks for nothing newer."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ziglang = pytest.importorskip("ziglang", reason="the ziglang wheel is not installed: no cross-compiler")

INTERPOSE = Path(__file__).resolve().parent.parent
OLDEST = (2, 17)
MACHINES = ["x86_64", "aarch64"]


@pytest.fixture(scope="module")
def cross_built(tmp_path_factory):
    """libvgpu.so for a machine, by zig's C compiler."""

    @cache
    def build(machine: str) -> Path:
        out = tmp_path_factory.mktemp(machine) / "libvgpu.so"
        sources = [*(INTERPOSE / "src").rglob("*.[cS]"), INTERPOSE / "generated/hooks.c"]
        flags = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall"]
        flags += ["-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{INTERPOSE / 'include'}", f"-I{INTERPOSE / 'generated'}"]
        script = INTERPOSE / f"src/exports.{machine}.map"
        flags += [f"-Wl,--version-script={script}", "-ldl", "-lpthread", "-o", str(out)]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17", *flags]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out

    return build


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_newer_than_glibc_2_17_is_needed(cross_built, machine):
    library = cross_built(machine)
    needed = subprocess.run(["readelf", "-W", "--version-info", library], capture_output=True, text=True, check=True)
    section = needed.stdout[needed.stdout.index("Version needs section") :]
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", section)}
    assert versions
    assert max(versions) <= OLDEST


@pytest.mark.parametrize("machine", MACHINES)
def test_the_cross_built_library_exports_the_same(cross_built, machine):
    listing = subprocess.run(
        ["readelf", "-W", "--dyn-syms", cross_built(machine)], capture_output=True, text=True, check=True
    ).stdout
    exported = {name.split("@")[0] for name in re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)", listing)}
    hooks = set(re.findall(r"HAMI_EXPORT \w+ (\w+)\(", (INTERPOSE / "generated/hooks.c").read_text()))
    assert exported == hooks | {"dlsym", "dlvsym"}


def test_the_library_built_for_glibc_2_17_limits_here(cross_built, make_container, programs):
    container = make_container(4000)
    container.variables["LD_PRELOAD"] = str(cross_built(platform.machine()))
    found = json.loads(container.run(programs("fill"), 64))
    assert found["total"] == 4000 << 20
    assert found["status"] == 2
