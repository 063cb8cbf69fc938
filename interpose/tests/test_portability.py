"""The wheels that users install: for both machines, against glibc 2.17, and whole."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# A build takes half a minute of CPU, and a busy machine several times that.
pytestmark = pytest.mark.timeout(900)

INTERPOSE = Path(__file__).resolve().parent.parent
OLDEST = (2, 17)
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
LIBRARIES = {
    "hami-interpose": {"hami_interpose/lib/libvgpu.so"},  # a node gets no fake driver
    "hami-gpusim": {f"hami_gpusim/lib/{name}" for name in ("libcuda.so.1", "libnvidia-ml.so.1")},
}

on_each_machine = pytest.mark.parametrize("machine", MACHINES)
of_each_distribution = pytest.mark.parametrize("distribution", LIBRARIES)
here = platform.machine()


def readelf(what: str, file: Path) -> str:
    return subprocess.run(["readelf", "-W", what, file], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def distribution():
    return "hami-interpose"


@pytest.fixture
def compiled(wheel, machine, distribution, tmp_path):
    """Every ELF file of a wheel, unpacked by a tool that compares each file with the wheel's record."""
    command = [sys.executable, "-m", "wheel", "unpack", "--dest", tmp_path, wheel(machine, distribution)]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (root,) = tmp_path.iterdir()
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path for name, path in files.items() if path.read_bytes()[:4] == b"\x7fELF"}


def pip(*words: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@on_each_machine
@of_each_distribution
def test_wheel_says_where_it_runs(wheel, machine, distribution):
    found = wheel(machine, distribution)
    name, version, python, abi, platforms = found.stem.split("-")
    assert (name, python, abi) == (distribution.replace("-", "_"), "py3", "none")
    assert set(platforms.split(".")) == {f"manylinux_2_17_{machine}", f"manylinux2014_{machine}"}
    with zipfile.ZipFile(found) as archive:
        lines = archive.read(f"{name}-{version}.dist-info/WHEEL").decode().splitlines()
    tags = {line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")}
    assert tags == {f"py3-none-{one}" for one in platforms.split(".")}
    assert "Root-Is-Purelib: false" in lines


@on_each_machine
@of_each_distribution
def test_wheel_needs_nothing_newer_than_glibc_2_17(compiled, machine, distribution):
    assert set(compiled) == LIBRARIES[distribution]
    for path in compiled.values():
        (kind,) = re.findall(r"Machine:\s+(.*)", readelf("--file-header", path))
        assert kind == MACHINES[machine]
        needs = readelf("--version-info", path).partition("Version needs section")[2]
        versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", needs)}
        assert versions
        assert max(versions) <= OLDEST


@on_each_machine
def test_library_of_a_wheel_exports_what_is_wrapped(compiled, machine, versioned_doors):
    hooks = set(re.findall(r"HAMI_EXPORT \w+ (\w+)\(", (INTERPOSE / "generated/hooks.c").read_text()))
    listing = readelf("--dyn-syms", compiled["hami_interpose/lib/libvgpu.so"])
    exported = set(re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)", listing))
    assert exported == hooks | versioned_doors[machine]


@pytest.mark.skipif(here not in MACHINES, reason=f"no wheel for {here}")
def test_wheel_of_this_machine_installs_and_limits(wheel, make_container, programs, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    both = [wheel(here, distribution) for distribution in LIBRARIES]
    pip("--python", venv / "bin/python", "install", "--no-deps", "--no-index", "--no-cache-dir", *both)
    script = "import hami_gpusim, hami_interpose as it; print(it.library(), hami_gpusim.library_dir(), sep='\\n')"
    # -I: nothing of this Python's, and no variable of it, reaches the fresh one.
    found = subprocess.run([venv / "bin/python", "-I", "-c", script], capture_output=True, text=True, check=True)
    library, simulated = map(Path, found.stdout.splitlines())
    assert library.is_relative_to(venv)
    assert simulated.is_relative_to(venv)
    container = make_container(4000)
    container.variables |= {"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(simulated)}
    filled = json.loads(container.run(programs("fill"), 64))
    assert filled["total"] == 4000 << 20
    assert filled["status"] == 2


@on_each_machine
def test_wheel_installs_for_its_machine_and_no_other(wheel, machine, tmp_path):
    """As an image for another machine is made: pip is told what that runs."""
    options = ["--no-deps", "--no-index", "--no-cache-dir", "--only-binary=:all:", "-f", wheel(machine).parent]
    chosen = [f"--platform=manylinux_2_17_{machine}", "--python-version=3.12", "hami-interpose"]
    pip("install", *options, "--target", tmp_path / "there", *chosen)
    (library,) = (tmp_path / "there").rglob("libvgpu.so")
    (kind,) = re.findall(r"Machine:\s+(.*)", readelf("--file-header", library))
    assert kind == MACHINES[machine]
    (other,) = MACHINES.keys() - {machine}
    with pytest.raises(AssertionError, match="No matching distribution"):
        pip("install", *options, "--target", tmp_path / "none", f"--platform=manylinux_2_17_{other}", *chosen[1:])


def test_missing_tool_is_named(tmp_path):
    """Outside an environment that has them: nothing is built and nothing is written."""
    command = [sys.executable, "-I", "-S", INTERPOSE / "gen/wheels.py", "--out", tmp_path / "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.match(r"wheels: not installed in .*: .*scikit-build-core.*ziglang", done.stderr)
    assert list(tmp_path.iterdir()) == []
