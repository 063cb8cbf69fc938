"""Every way a symbol is found, and nothing else changed."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
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
            if {"policy", "after"} & family.keys():
                found.update(family["symbols"])
    return found


def test_exports_are_wrapped_functions_and_dlsym(versioned_doors):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", hami_interpose.library()], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    versions = {name for name in exported if name.startswith("GLIBC_")}
    doors = {name for name in exported if re.match(r"dlv?sym@", name)}
    assert exported - versions - doors == wrapped_symbols()
    assert doors == versioned_doors[platform.machine()]


def test_library_needs_the_c_library_alone():
    dynamic = subprocess.run(
        ["readelf", "-d", hami_interpose.library()], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    sanitizers = [name for name in needed if re.match(r"lib(a|ub|t)san", name)]
    assert set(needed) - set(sanitizers) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


IN_ACCESS, IN_OPEN = 0x1, 0x20  # of inotify(7)
PUBLIC, PRIVATE = {}, {"HAMI_SIM_PRIVATE_ADDRESSES": "1"}
GET = ["cuGetProcAddress", "cuGetProcAddress_v2", "cuGetProcAddress_v2_ptsz"]


def requests_of_cudart() -> list[str]:
    lines = (HERE / "data/cudart_requests.tsv").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def requests_of_all_variants() -> list[str]:
    """Each wrapped name at the versions at which it changes and just before, in every stream mode."""
    wrapped, versions = wrapped_symbols(), {}
    rows = [line.split("\t") for line in (SPEC / "cuda_prototypes.tsv").read_text().splitlines()]
    for name, base, since, *_ in (row for row in rows if not row[0].startswith("#")):
        known = versions.setdefault(base, {"wrapped": False, "since": {13000}})
        known["wrapped"] |= name in wrapped
        known["since"] |= {int(since), int(since) - 10}
    return [
        f"{base}\t{version}\t{flags}"
        for base, known in versions.items()
        for version in sorted(known["since"])
        for flags in (0, 1, 2)
        if known["wrapped"] and version > 0
    ]


def ask(program, door, env, requests, *how) -> list[str]:
    text = "".join(f"{line}\n" for line in requests)
    done = subprocess.run([program, door, *how], env=env, input=text, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(requests)
    return done.stdout.splitlines()


def chosen(line: str) -> str:
    return line.rsplit(maxsplit=1)[-1]


@pytest.mark.parametrize("door", GET)
@pytest.mark.parametrize("addresses", [PUBLIC, PRIVATE], ids=["public", "private"])
@pytest.mark.parametrize("files", ["- copy", "- lazy copy", "- eager eager copy"])
def test_cugetprocaddress_answers_with_the_variant_asked(
    make_container, programs, lay_out_drivers, files, door, addresses
):
    """Same status and same variant as the bare driver's, wrapped where it is to be; also where the driver's addresses
    are not those it exports, so that the variant is known by its version and stream mode alone.
    """
    requests = requests_of_cudart() + requests_of_all_variants()
    program, container, wrapped = programs("requests"), make_container(4000), wrapped_symbols()
    lay_out_drivers(container, files)
    bare = ask(program, door, container.environment_without_us(), requests)
    container.variables |= addresses
    hidden = ask(program, door, container.environment_without_us(), requests)
    assert [chosen(line) == "?" for line in hidden] == [addresses is PRIVATE and chosen(line) != "-" for line in bare]
    ours = ask(program, door, container.environment(), requests)
    expected = [f"{line}*" if chosen(line) in wrapped else other for line, other in zip(bare, hidden, strict=True)]
    assert list(zip(requests, ours, strict=True)) == list(zip(requests, expected, strict=True))
    assert len(requests_of_cudart()) == 505
    assert {chosen(line)[:-1] for line in ours if line.endswith("*")} > {"cuMemAlloc", "cuMemAlloc_v2"}
    threaded = {chosen(line) for line in ours if line.endswith(("_ptsz*", "_ptds*"))}
    assert {"cuLaunchKernel_ptsz*", "cuMemAllocAsync_ptsz*"} <= threaded


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_every_lookup_finds_the_right_function(make_container, programs, optimised):
    behind, astray = (programs("behind", "-shared", "-fPIC", *flags) for flags in ([], ["-DASTRAY"]))
    other = programs("other", optimised, "-shared", "-fPIC", "-Wl,--no-as-needed", str(behind))
    make_container(4000).run(programs("doors", optimised, "-rdynamic"), other, astray)


@pytest.mark.here_only("the driver of its own lies in a folder of this machine's libraries")
def test_dlvsym_of_a_driver_whose_functions_have_versions(make_container, programs, tmp_path):
    (tmp_path / "map").write_text("CUDA_1 { global: cuInit; cuMemAlloc_v2; local: *; };\n")
    linked = (f"-Wl,--version-script={tmp_path / 'map'}", "-Wl,-soname,libcuda.so.1")
    driver = programs("versioned", "-shared", "-fPIC", "-DLIBRARY", *linked)
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/libcuda.so.1").symlink_to(driver)
    container = make_container(4000)
    container.variables["LD_LIBRARY_PATH"] = str(tmp_path / "driver")
    assert container.run(programs("versioned")).splitlines() == [
        "cuMemAlloc_v2 CUDA_1: wrapped",
        "cuMemAlloc_v2 CUDA_2: none, dlerror",
        "cuInit CUDA_1: there",
        "cuNoSuchFunction CUDA_1: none, dlerror",
    ]


@pytest.fixture
def alone(driver, tmp_path):
    """A folder with the simulated libcuda.so.1, and no NVML."""
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(driver / "libcuda.so.1")
    return folder


@pytest.mark.here_only("the folder is this machine's")
def test_our_failed_lookups_leave_dlerror_alone(make_container, programs, alone):
    """NVML where there is none; functions that an old driver lacks."""
    container = make_container(4000)
    container.variables["LD_LIBRARY_PATH"] = str(alone)
    calls = ["dlsym", "cuGetProcAddress", "cuInit", "cuCtxCreate", "cuMemAlloc", "cuMemAlloc"]
    assert container.run(programs("errors")).splitlines() == [f"{call}: none" for call in calls]
    driver = programs("versioned", "-shared", "-fPIC", "-DLIBRARY", "-Wl,-soname,libcuda.so.1")
    (alone / "libcuda.so.1").unlink()
    (alone / "libcuda.so.1").symlink_to(driver)
    calls = ["dlsym", "cuInit", "cuMemAlloc", "cuMemAlloc"]
    assert container.run(programs("errors")).splitlines() == [f"{call}: none" for call in calls]


class Watch:
    """Tells what has been opened or read in folders, by whatever process, and closed again or not."""

    def __init__(self, *folders: Path) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.file = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            assert self.libc.inotify_add_watch(self.file, os.fsencode(folder), IN_ACCESS | IN_OPEN) >= 0

    def seen(self) -> set[str]:
        found = set()
        while True:
            try:
                events = os.read(self.file, 1 << 16)
            except BlockingIOError:
                return found
            while events:
                length = struct.unpack("iIII", events[:16])[3]
                found.add(events[16 : 16 + length].rstrip(b"\0").decode())
                events = events[16 + length :]


def test_nothing_is_opened_before_the_first_cuda_call(make_container, programs):
    """Nor in a program that has loaded the driver and looked its functions up."""
    container = make_container(4000)
    watch = Watch(container.root, container.root / "limits", container.region_path.parent)
    try:
        assert container.run("/bin/sh", "-c", "echo hello") == "hello\n"
        assert "mapped" not in container.run(programs("manners", "-lm"), "idle")
        ask(programs("requests"), GET[1], container.environment(), requests_of_cudart(), "idle")
        assert watch.seen() == set()
        container.run(programs("fill"), 64)
        assert {"limits", "vgpu.cache"} <= watch.seen()
    finally:
        os.close(watch.file)
