"""Every way a symbol is found, and nothing else changed."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import hami_interpose
import pytest

pytestmark = pytest.mark.each_machine

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent / "spec"


def wrapped_symbols() -> set[str]:
    """The symbols that the specification says are wrapped."""
    found: set[str] = set()
    for name in ("cuda", "nvml"):
        for family in tomllib.loads((SPEC / f"{name}.toml").read_text())["family"]:
            if "policy" in family:
                found.update(family["symbols"])
    return found


def test_exports_are_the_table_and_dlsym():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", hami_interpose.library()], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    versions = {name for name in exported if name.startswith("GLIBC_")}
    doors = {name for name in exported if re.match(r"dlv?sym@", name)}
    assert exported - versions - doors == wrapped_symbols()
    assert {name.split("@")[0] for name in doors} == {"dlsym", "dlvsym"}
    assert len(doors) == 4


def test_the_library_needs_the_c_library_alone():
    dynamic = subprocess.run(
        ["readelf", "-d", hami_interpose.library()], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    sanitizers = [name for name in needed if re.match(r"lib(a|ub|t)san", name)]
    assert set(needed) - set(sanitizers) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def test_generated_code_is_what_the_specification_says():
    check = subprocess.run(
        ["python3", HERE.parent / "gen/emit.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_cuget_proc_address_answers_with_the_drivers_own_variant(make_container, programs):
    """All requests of libcudart: same status and same variant as the bare driver's, wrapped where it is to be."""
    lines = (HERE / "data/cudart_requests.tsv").read_text().splitlines(keepends=True)
    requests = "".join(line for line in lines if not line.startswith("#"))
    program, container = programs("requests"), make_container(4000)
    bare, ours = (
        subprocess.run(
            [program], env=env, input=requests, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for env in (container.environment_without_us(), container.environment())
    )
    wrapped = wrapped_symbols()
    assert len(bare) == len(ours) == 505
    expected = [f"{line}*" if line.split()[-1] in wrapped else line for line in bare]
    assert ours == expected
    assert sum(line.endswith("*") for line in ours) >= 20


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_every_door(make_container, programs, optimised):
    other = programs("other", optimised, "-shared", "-fPIC")
    make_container(4000).run(programs("doors", optimised, "-rdynamic"), other)


def test_a_process_without_cuda_is_left_alone(make_container, programs):
    container = make_container(4000)
    program = programs("plain")
    with_us = container.run(program)
    env = container.environment_without_us()
    without = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
    assert with_us == without
    assert container.region().processes == ()


def test_nothing_is_opened_before_the_first_cuda_call(make_container):
    """The limits folder may even be gone for programs that never ask."""
    container = make_container(4000)
    (container.root / "limits/limits").unlink()
    assert container.run("/bin/sh", "-c", "echo hello") == "hello\n"
