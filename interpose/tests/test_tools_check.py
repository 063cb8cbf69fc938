"""`python -m hami_interpose check`: silent about what is well, exact about what is not."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import _region_layout as at
from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, Mode, encode

MIB = 1 << 20
BUILD_AT = region.BLOCK_OFFSET + at.Block.build.offset
HEARTBEAT_AT = region.COMPUTE_OFFSET + at.Compute.agent_beat.offset
OTHER_BUILD = b"0123456789abcdef\0"
OTHERS_REGION = region.initial(Limits((DeviceLimit("GPU-other", 1, 1),)))
GONE = "GPU-00000000-0000-0000-0000-000000000000"
LOADER = "-Wl,--dynamic-linker="
STATES = {"ok": "ok", "wrong": "wrong", "n/a": "not applicable"}


def check(environment, *arguments, wrapper=()) -> subprocess.CompletedProcess[str]:
    command = [*map(str, wrapper), sys.executable, "-m", "hami_interpose", "check", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def expect(environment, *lines, arguments=(), wrapper=(), noise="") -> dict[str, list[str]]:
    """Checks and finds each of `lines`: "CHECK STATE part of what it says". No other check finds anything wrong.

    `noise` is the complaint of the loader. Returns all that was found, by check.
    """
    done = check(environment, "--json", *arguments, wrapper=wrapper)
    assert noise in done.stderr if noise else done.stderr == ""
    report = json.loads(done.stdout)
    found: dict[str, list[str]] = {}
    for entry in report["checks"]:
        assert bool(entry["fix"]) == (entry["state"] == "wrong"), entry
        found.setdefault(entry["check"], []).append(f"{entry['state']} {entry['found']}")
    wrong = {name for name, entries in found.items() if any(entry.startswith("wrong") for entry in entries)}
    expected = [line.split(" ", 2) for line in lines]
    assert wrong == {name for name, state, *_ in expected if state == "wrong"}, found
    assert report["ok"] == (done.returncode == 0) == (not wrong)
    for name, state, *part in expected:
        assert any(entry.startswith(STATES[state]) and "".join(part) in entry for entry in found[name]), found[name]
    return found


def put(path, offset, content) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@dataclass
class Scene:
    """A container with 4,000 MiB, to be changed before it is checked."""

    container: Any
    shells: Any
    folder: Path

    @property
    def limits_path(self) -> Path:
        return self.container.root / "limits/limits"

    @property
    def region_path(self) -> Path:
        return self.container.region_path

    def use(self, mib: int) -> None:
        """A program uses or is refused so much; it runs until the test ends."""
        assert self.shells(self.container).status("alloc", mib * MIB) == (2 if mib > 4000 else 0)

    def garble(self) -> None:
        self.limits_path.write_bytes(encode(self.container.limits).replace(b"enforce", b"maybe"))

    def limit(self, cores=0, uuid=None, generation=2, **choices) -> None:
        """Replaces the limits file."""
        [old] = self.container.limits.devices
        device = DeviceLimit(uuid or old.uuid, old.memory_bytes, old.physical_bytes, cores)
        self.container.write_limits(Limits((device,), generation, **choices))

    def limit_cores(self, page) -> None:
        """Limits cores to 30 % with this turn page of the device."""
        self.limit(30)
        path = self.container.root / "turns" / self.container.limits.devices[0].uuid
        path.parent.mkdir()
        path.write_bytes(page)

    def name_card_that_is_gone(self) -> None:
        self.limit(uuid=GONE)
        self.region_path.write_bytes(region.initial(self.container.limits))

    def beat(self, seconds) -> None:
        """An agent's sign of life, from so many seconds ago or, below 0, from no possible time."""
        put(
            self.region_path, HEARTBEAT_AT, struct.pack("<Q", int(time.time()) - seconds if seconds >= 0 else 2**64 - 1)
        )

    def link(self, path) -> None:
        path.rename(self.folder / "elsewhere")
        path.symlink_to(self.folder / "elsewhere")

    def make_pipe(self) -> None:
        self.region_path.unlink()
        os.mkfifo(self.region_path)

    def refuse_without_limits(self) -> None:
        """A program is refused since the limits file is garbage; then the file is repaired."""
        self.garble()
        assert self.shells(self.container, device=None).status("use", 0) == 2
        self.container.write_limits(self.container.limits)

    def break_nvml(self, symbol) -> None:
        with sim.State(self.container.state) as state:
            state.inject(sim.Fault(symbol, error=999))

    def set(self, **variables) -> None:
        self.container.variables |= variables

    def foreign(self) -> Path:
        """Somebody else's libvgpu.so."""
        (self.folder / "other").mkdir()
        return self.compiled("-shared", "-fPIC", name="other/libvgpu.so")

    def load_two(self) -> None:
        self.set(LD_PRELOAD=f"{self.container.environment()['LD_PRELOAD']}:{self.foreign()}")

    def compiled(self, *flags, mode=0o755, machine=None, size=None, name="program") -> Path:
        """A program of its own, changed afterwards."""
        path = self.folder / name
        source = "int main(void) { return 0; }\n"
        subprocess.run(["gcc", "-x", "c", "-", "-o", str(path), *flags], input=source, text=True, check=True)
        path.chmod(mode)
        if machine is not None:
            put(path, 18, struct.pack("<H", machine))
        if size is not None:
            os.truncate(path, size)
        return path

    def script(self, text) -> Path:
        path = self.folder / "script"
        path.write_text(text)
        path.chmod(0o755)
        return path


@pytest.fixture
def scene(make_container, shells, tmp_path):
    return Scene(make_container(4000), shells, tmp_path)


ARRANGED = {  # what is done to the container, and what is found then
    "nothing": (lambda s: None, "environment ok no variable is set that would be ignored", "region.build n/a"),
    "no folder": (lambda s: shutil.rmtree(s.container.root / "limits"), "limits.folder wrong limits is not there"),
    "garbage": (Scene.garble, "limits.file wrong line 3: mode must be one of enforce, observe, off, not 'maybe'"),
    "no limits": (lambda s: s.limits_path.unlink(), "limits.file wrong cannot be read: No such file"),
    "linked limits": (lambda s: s.link(s.limits_path), "limits.file wrong limits/limits is a symbolic link"),
    "no region": (lambda s: s.region_path.unlink(), "region.file wrong vgpu.cache cannot be read: No such file"),
    "linked region": (lambda s: s.link(s.region_path), "region.file wrong vgpu.cache is a symbolic link"),
    "short region": (lambda s: os.truncate(s.region_path, 5000), "region.file wrong offset 5000: a region has"),
    "overwritten region": (lambda s: put(s.region_path, 0, b"????"), "region.file wrong offset 0: not a region"),
    "pipe": (Scene.make_pipe, "region.file wrong offset 0: not a regular file"),
    "others' region": (
        lambda s: put(s.region_path, 0, OTHERS_REGION),
        "region.devices wrong for GPU-other; the limits name",
    ),
    "refused": (lambda s: s.use(5000), "region.refusals ok 1 refused; the last "),
    "refused for want of limits": (Scene.refuse_without_limits, f"region.refusals wrong {region.REASONS[3]}"),
    "newer limits": (
        lambda s: s.use(1) or s.limit(generation=7),
        "region.devices ok generation 1 is in force, the file has 7",
    ),
    "observe": (
        lambda s: s.limit(mode=Mode.OBSERVE),
        "limits.file ok mode observe, which",
        "nvml n/a in mode observe NVML shows the whole device",
    ),
    "off": (lambda s: s.limit(mode=Mode.OFF), "limits.file ok mode off, which", "nvml n/a in mode off NVML"),
    "no turn page": (lambda s: s.limit(30), "turns.page wrong No such file"),
    "short turn page": (
        lambda s: s.limit_cores(turn.initial()[:-1]),
        "turns.page wrong not a turn page of this version",
    ),
    "turn page": (lambda s: s.limit_cores(turn.initial()), "turns.page ok /turns/GPU-"),
    "no turns if disabled": (lambda s: s.limit(30, core_policy=CorePolicy.DISABLE), "turns.page n/a"),
    "no turns if whole": (lambda s: s.limit(100), "turns.page n/a", "agent.heartbeat n/a"),
    "agent alive": (lambda s: s.beat(0), "agent.heartbeat ok"),
    "agent silent": (lambda s: s.beat(500), "agent.heartbeat wrong"),
    "agent of no time": (lambda s: s.beat(-1), "agent.heartbeat wrong at no possible time"),
    "not loaded": (
        lambda s: s.set(LD_PRELOAD=""),
        "preload.file wrong",
        "library.loaded wrong",
        "nvml.total wrong NVML shows 81,920 MiB, the limit is 4,000 MiB",
    ),
    "two loaded": (
        Scene.load_two,
        "library.loaded wrong several are loaded: ",
        "preload.variable wrong names more than one libvgpu.so",
    ),
    # NVML is asked by a process with this library, which leaves its build; that of the program before it counts.
    "another build": (lambda s: put(s.region_path, BUILD_AT, OTHER_BUILD), "region.build wrong", "nvml.total ok"),
    "variables": (
        lambda s: s.set(CUDA_DEVICE_MEMORY_LIMIT_0="70000m", CUDA_DISABLE_CONTROL="true", CUDA_CACHE="1"),
        "environment ok /limits decides: ",
        "environment ok : CUDA_DEVICE_MEMORY_LIMIT_0=70000m, CUDA_DISABLE_CONTROL=true",
    ),
    "NVML fails at handles": (
        lambda s: s.break_nvml("nvmlDeviceGetHandleByUUID"),
        "nvml.total wrong nvmlDeviceGetHandleByUUID answers 999",
    ),
    "NVML fails at memory": (
        lambda s: s.break_nvml("nvmlDeviceGetMemoryInfo"),
        "nvml.total wrong nvmlDeviceGetMemoryInfo answers 999",
    ),
    "NVML does not start": (
        lambda s: s.set(HAMI_SIM_STATE=f"{s.folder}/nothing"),
        "nvml wrong asking NVML: nvmlInit_v2 answers ",
    ),
    "card not visible": (Scene.name_card_that_is_gone, "nvml.total wrong nvmlDeviceGetHandleByUUID answers 6"),
    "no NVML": (lambda s: s.set(LD_LIBRARY_PATH=""), "nvml n/a libnvidia-ml.so.1"),
    "dynamic": (lambda s: (s.compiled(), "--its", "own", "arguments"), "program ok"),
    "on the path": (lambda s: ("sh",), "program ok"),
    "static": (lambda s: (s.compiled("-static"),), "program wrong statically linked"),
    "static-pie": (lambda s: (s.compiled("-static-pie"),), "program wrong statically linked"),
    "musl": (lambda s: (s.compiled(f"{LOADER}/lib/ld-musl-x86_64.so.1"),), "program wrong for musl"),
    "other loader": (lambda s: (s.compiled(f"{LOADER}/system/bin/linker64"),), "program wrong which is not glibc's"),
    "missing loader": (lambda s: (s.compiled(f"{LOADER}/gone/ld-linux-x86-64.so.2"),), "program wrong is not here"),
    "other machine": (lambda s: (s.compiled(machine=243),), "program wrong 64-bit riscv, and libvgpu.so is"),
    "script": (
        lambda s: (s.script(f"#!/usr/bin/env -S {s.compiled('-static')} -v\n"),),
        "program wrong program: statically linked",
    ),
    "setuid": (lambda s: (s.compiled(mode=0o4755),), "program wrong setuid, so the loader ignores LD_PRELOAD"),
    "setgid": (lambda s: (s.compiled(mode=0o2755),), "program wrong setgid, so the loader ignores LD_PRELOAD"),
    "text": (lambda s: (s.script("hello\n"),), "program wrong not an ELF file"),
    "cut short": (lambda s: (s.compiled(size=100),), "program wrong cut short"),
    "missing": (lambda s: (s.folder / "nothing",), "program wrong no such program"),
}


@pytest.mark.parametrize("state", ARRANGED)
def test_each_state_of_a_container_is_judged(scene, state):
    arrange, *lines = ARRANGED[state]
    program = arrange(scene)
    expect(scene.container.environment(), *lines, arguments=("--", *program) if program else ())


def test_sound_container_has_its_figures_compared(started):
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 100 * MIB) == 0
    mib = container.region().devices[0].context_bytes // MIB + 100
    found = expect(
        container.environment(),
        f"nvml.used ok shows {mib} MiB in use, the region counts {mib} MiB",
        f"region.build ok {hami_interpose.build_id()}, as the library",
        "limits.mount n/a",
        "region.mount n/a",
    )
    assert [entry.split()[0] for entry in found["nvml.total"] + found["nvml.used"]] == ["ok"] * 4


@pytest.mark.parametrize(
    ("limit", "physical", "uses", "line"),
    [(4000, 1000, 1000, "ok NVML shows 4,000 MiB, the limit is 4,000 MiB"), (0, 0, 0, "n/a")],
    ids=["scaled", "none"],
)
def test_memory_is_compared_where_there_is_a_limit(started, limit, physical, uses, line):
    container, shell = started(limit, physical_mib=physical)
    assert shell.status("alloc", uses * MIB) == 0 or uses == 0
    assert (container.region().devices[0].oversubscription.used_bytes > 0) == (uses > 0)
    expect(container.environment(), f"nvml.total {line}")


def test_report_for_people_names_the_fix(scene):
    environment = scene.container.environment()
    done = check(environment)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1].endswith(" ok, 0 wrong, 8 not applicable")) == (0, True), done.stdout
    assert any(line.split()[:2] == ["ok", "nvml.total"] for line in lines)
    assert "\x1b" not in done.stdout
    scene.region_path.unlink()
    done = check(environment)
    assert done.returncode == 1
    *_, fix = done.stdout.partition("wrong  region.file")[2].splitlines()[:2]
    assert fix.strip().startswith("-> delete the pod")


def test_check_leaves_nothing_in_the_region(started, wait_until):
    container, shell = started(4000)
    assert check(container.environment()).returncode == 0
    wait_until(lambda: [process.pid for process in container.region().processes] == [shell.process.pid])


def test_other_build_in_another_container_is_named(scene, make_container):
    """The other container is only looked at: no process of ours touches its region."""
    other = make_container(3000)
    put(other.region_path, BUILD_AT, OTHER_BUILD)
    expect(
        scene.container.environment(),
        "region.build wrong a program here runs build 0123456789abcdef",
        f"nvml n/a libvgpu.so takes its limits from {scene.container.root} here",
        arguments=("--root", other.root),
    )


def test_library_that_is_foreign_or_missing_is_named(scene):
    path = scene.foreign()
    scene.set(LD_PRELOAD=str(path))
    line = f"library.loaded wrong {path} is loaded, which is not this project's"
    expect(scene.container.environment(), line, "nvml.total wrong")
    path.unlink()
    line = f"preload.variable wrong LD_PRELOAD names {path}, which is not there"
    environment = scene.container.environment()
    expect(environment, line, "library.loaded wrong", "nvml.total wrong", noise="cannot be preloaded")


# ---- drivers that programs have loaded ----


@pytest.fixture
def host(programs):
    """Starts a program in a container that opens a library which uses CUDA; returns the library."""

    def start(container, how, door="-DDIRECT"):
        plugin = programs("plugin", "-shared", "-fPIC", "-DCONTEXT", door)
        assert container.start(programs("host"), how, plugin).stdout.readline() == "opened\n"
        return plugin

    return start


@pytest.mark.parametrize("door", ["-DDIRECT", "-DDLSYM"])
@pytest.mark.parametrize("how", ["plain", "deep", "apart"])
def test_library_that_calls_past_us_is_named(scene, host, sanitized, how, door):
    if sanitized and how != "plain":
        pytest.skip("AddressSanitizer refuses RTLD_DEEPBIND and dlmopen")
    plugin = host(scene.container, how, door)
    said = "ok" if how == "plain" else f"wrong {plugin} takes "
    [found] = expect(scene.container.environment(), f"drivers {said}")["drivers"]
    assert f"{sim.library_dir()}/libcuda.so.1, " in found


@pytest.mark.parametrize("kinds", ["copy copy", "lazy lazy copy", "- eager copy"])
def test_driver_files_of_a_program_are_listed(scene, host, lay_out_drivers, kinds):
    lay_out_drivers(scene.container, kinds, "{0}.1" if kinds[0] == "-" else "{0}.1 {0}")
    host(scene.container, "plain", "-DDLSYM")
    there = sorted(str(file) for file in Path(scene.container.variables["LD_LIBRARY_PATH"]).iterdir())
    [found] = expect(scene.container.environment(), "drivers ok")["drivers"]
    assert found.endswith(f": {', '.join(there)}, called through libvgpu.so")


# ---- a container with mounts, as the agent makes them ----

BOX = r"""
set -e
mount -t tmpfs tmpfs /mnt
for part in usr/local etc; do
    mkdir -p /mnt/$part/upper /mnt/$part/work
    mount -t overlay overlay -o lowerdir=/$part,upperdir=/mnt/$part/upper,workdir=/mnt/$part/work /$part
done
V=/usr/local/vgpu
mkdir -p $V/limits $V/region
touch $V/libvgpu.so
mount --bind "$BOX_ROOT/limits" $V/limits
mount --bind "$BOX_ROOT/region" $V/region
mount --bind "$BOX_LIBRARY" $V/libvgpu.so
mount -o remount,bind,ro $V/limits
echo $V/libvgpu.so > /etc/ld.so.preload
eval "$BOX_FAULT"
exec "$@"
"""


def expect_in_box(container, *lines, fault="", variables=(), **how):
    """Checks in a mount namespace with everything where the agent puts it; `fault` is done to it first."""
    rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    environment = sim.environment(container.state) | {
        "BOX_ROOT": str(container.root),
        "BOX_LIBRARY": str(hami_interpose.library()),
        "BOX_FAULT": fault,
    }
    wrapper = ["unshare", "--mount", *rootless, "sh", "-c", BOX, "box", "env", *variables]
    return expect(environment, *lines, wrapper=wrapper, **how)


def test_container_as_the_agent_makes_it_passes_all(scene):
    program = scene.compiled(mode=0o4755)
    found = expect_in_box(scene.container, "program ok /etc/ld.so.preload counts", arguments=("--", program))
    judged = {name for name, entries in found.items() if any(entry.startswith("ok") for entry in entries)}
    assert set(found) - judged == {"turns.page", "agent.heartbeat", "region.build", "drivers"}


FAULTS = {
    "mount -o remount,bind,rw $V/limits": {"limits.mount"},
    "mount -o remount,bind,ro $V/region": {"region.writable", "nvml.used"},
    "umount $V/region; cp $BOX_ROOT/region/vgpu.cache $V/region": {"region.mount"},
    "umount $V/limits; cp $BOX_ROOT/limits/limits $V/limits": {"limits.mount"},
    "rm /etc/ld.so.preload": {"preload.file", "library.loaded", "nvml.total"},
    "cp $BOX_LIBRARY /usr/local; echo /usr/local/libvgpu.so > /etc/ld.so.preload": {"preload.file"},
    ": > /mnt/empty; mount --bind /mnt/empty $V/libvgpu.so": {"library.file", "library.loaded", "nvml.total"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_mount_that_is_wrong_is_named(scene, fault):
    noise = "cannot be preloaded" if "library.file" in FAULTS[fault] else ""
    expect_in_box(scene.container, *(f"{name} wrong" for name in FAULTS[fault]), fault=fault, noise=noise)


def test_ld_preload_that_contradicts_the_file_is_named(scene):
    two = "preload.variable wrong two different libraries"
    expect_in_box(scene.container, two, "library.loaded wrong", variables=[f"LD_PRELOAD={scene.foreign()}"])
    root = f"HAMI_VGPU_ROOT={scene.folder}"
    found = expect_in_box(scene.container, variables=[root, "LD_PRELOAD=/usr/local/vgpu/libvgpu.so"])
    assert found["environment"][0].endswith(root)


# ---- the command line ----


def test_check_explains_itself_and_refuses_unknown_options(scene):
    done = check(scene.container.environment(), "--help")
    assert done.returncode == 0
    assert "kubectl exec POD -- python -m hami_interpose check" in done.stdout
    assert check(scene.container.environment(), "--bogus").returncode == 2


def test_outside_a_container_check_fails_and_does_not_break(tmp_path):
    names = ["limits.folder", "region.file", "library.loaded", "preload.file"]
    expect({"PATH": os.environ["PATH"]}, *(f"{name} wrong" for name in names), arguments=("--root", tmp_path))
