"""`python -m hami_interpose check`: silent about what is well, exact about what is not."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, Mode, encode

MIB = 1 << 20
BUILD_AT = region.BLOCK_OFFSET + 32 + 40
HEARTBEAT_NAMES = '#include "compute_abi.h"\n#include <stdio.h>\nint main(void) { printf("%zu", '


def check(environment, *arguments, wrapper=()) -> subprocess.CompletedProcess[str]:
    command = [*map(str, wrapper), sys.executable, "-m", "hami_interpose", "check", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def states(environment, *arguments, wrapper=(), noise="") -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """Exit status, and what each check found; `noise` is what the loader has to complain about."""
    done = check(environment, "--json", *arguments, wrapper=wrapper)
    assert noise in done.stderr if noise else done.stderr == ""
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in report["checks"]:
        assert bool(entry["fix"]) == (entry["state"] == "wrong"), entry
        found.setdefault(entry["check"], []).append((entry["state"], entry["found"]))
    return done.returncode, found


def wrong(found) -> dict[str, str]:
    """The checks that found something wrong."""
    return {check: text for check, entries in found.items() for state, text in entries if state == "wrong"}


def sound(environment) -> dict[str, list[tuple[str, str]]]:
    """What each check found of a container where nothing is wrong."""
    status, found = states(environment)
    assert (status, wrong(found)) == (0, {})
    return found


def only_wrong(environment, name, *arguments) -> str:
    """The text of the only check that found something wrong."""
    status, found = states(environment, *arguments)
    assert (status, list(wrong(found))) == (1, [name])
    return wrong(found)[name]


def put(path, offset, content) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def limit_cores(container, cores, policy=CorePolicy.DEFAULT) -> None:
    old = container.limits
    devices = tuple(DeviceLimit(d.uuid, d.memory_bytes, d.physical_bytes, cores) for d in old.devices)
    container.write_limits(Limits(devices, old.generation + 1, core_policy=policy))


# ---- all is well ----


def test_a_sound_container_passes(started):
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 100 * MIB) == 0
    found = sound(container.environment())
    assert [state for state, _ in found["nvml.total"] + found["nvml.used"]] == ["ok"] * 4
    reserve = container.region().devices[0].context_bytes // MIB
    assert f"shows {reserve + 100} MiB in use, the region counts {reserve + 100} MiB" in found["nvml.used"][0][1]
    assert found["region.build"] == [("ok", f"{hami_interpose.build_id()}, as the library")]
    assert found["limits.mount"][0][0] == found["region.mount"][0][0] == "not applicable"


def test_scaled_memory_is_compared_whole(make_container, shells):
    container = make_container(4000, physical_mib=1000)
    assert shells(container).status("alloc", 1000 * MIB) == 0
    assert container.region().devices[0].oversubscription.used_bytes > 0
    found = sound(container.environment())
    assert "NVML shows 4,000 MiB, the limit is 4,000 MiB" in found["nvml.total"][0][1]


def test_the_report_for_people_says_the_same(make_container):
    container = make_container(4000)
    done = check(container.environment())
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1].endswith(" ok, 0 wrong, 8 not applicable")
    assert any(line.split()[:2] == ["ok", "nvml.total"] for line in lines)
    assert "\x1b" not in done.stdout
    container.region_path.unlink()
    done = check(container.environment())
    assert done.returncode == 1
    at = next(i for i, line in enumerate(done.stdout.splitlines()) if line.split()[:2] == ["wrong", "region.file"])
    assert done.stdout.splitlines()[at + 1].strip().startswith("-> delete the pod")


def test_it_leaves_nothing_in_the_region(started):
    container, shell = started(4000)
    assert check(container.environment()).returncode == 0
    deadline = time.monotonic() + 60
    while [p.pid for p in container.region().processes] != [shell.process.pid]:
        assert time.monotonic() < deadline, container.region().processes
        time.sleep(0.05)


# ---- limits and region ----


def write_garbage(container):
    (container.root / "limits/limits").write_bytes(encode(container.limits).replace(b"enforce", b"maybe"))


def link(file):
    file.rename(file.parents[1] / "elsewhere")
    file.symlink_to(file.parents[1] / "elsewhere")


def pipe_region(container):
    container.region_path.unlink()
    os.mkfifo(container.region_path)


OTHERS = region.initial(Limits((DeviceLimit("GPU-other", 1, 1),)))
DAMAGE = {
    "no folder": (lambda c: shutil.rmtree(c.root / "limits"), "limits.folder", "limits is not there"),
    "garbage": (write_garbage, "limits.file", "line 3: mode must be one of enforce, observe, off, not 'maybe'"),
    "no limits": (lambda c: (c.root / "limits/limits").unlink(), "limits.file", "cannot be read: No such file"),
    "linked limits": (lambda c: link(c.root / "limits/limits"), "limits.file", "limits/limits is a symbolic link"),
    "no region": (lambda c: c.region_path.unlink(), "region.file", "vgpu.cache cannot be read: No such file"),
    "linked region": (lambda c: link(c.region_path), "region.file", "vgpu.cache is a symbolic link"),
    "short region": (lambda c: os.truncate(c.region_path, 5000), "region.file", "offset 5000: a region has"),
    "overwritten region": (lambda c: put(c.region_path, 0, b"????"), "region.file", "offset 0: not a region"),
    "pipe": (pipe_region, "region.file", "offset 0: not a regular file"),
    "others' region": (lambda c: c.region_path.write_bytes(OTHERS), "region.devices", "for GPU-other; the limits name"),
}


@pytest.mark.parametrize(("damage", "name", "text"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_wrong_with_the_files_is_named(make_container, damage, name, text):
    container = make_container(4000)
    damage(container)
    assert text in only_wrong(container.environment(), name, "--root", container.root)


def test_a_refusal_for_want_of_limits_is_told_from_one_beyond_them(make_container, shells):
    container = make_container(4000)
    assert shells(container).status("alloc", 5000 * MIB) == 2
    _, found = states(container.environment())
    assert found["region.refusals"][0][0] == "ok"
    assert found["region.refusals"][0][1].startswith("1 refused; the last ")
    good = (container.root / "limits/limits").read_bytes()
    write_garbage(container)
    assert shells(container, device=None).status("use", 0) == 2
    (container.root / "limits/limits").write_bytes(good)
    assert region.REASONS[3] in only_wrong(container.environment(), "region.refusals")


def test_newer_limits_are_no_fault(make_container, shells):
    container = make_container(4000)
    shells(container)
    region_before = container.region()
    container.write_limits(Limits(container.limits.devices, generation=7))
    found = sound(container.environment())
    assert region_before.generation == 1
    assert "generation 1 is in force, the file has 7" in found["region.devices"][0][1]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_without_enforcement_nvml_is_not_compared(make_container, mode):
    container = make_container(4000, mode=mode)
    found = sound(container.environment())
    assert f"mode {mode}, which" in found["limits.file"][0][1]
    assert found["nvml"] == [("not applicable", f"in mode {mode} NVML shows the whole device")]


# ---- turns and the agent ----


def test_turn_pages_are_looked_at_where_a_core_limit_holds(make_container):
    container = make_container(4000)
    limit_cores(container, 30)
    page = container.root / "turns" / container.limits.devices[0].uuid
    assert "No such file" in only_wrong(container.environment(), "turns.page")
    page.parent.mkdir()
    page.write_bytes(turn.initial()[:-1])
    assert "not a turn page of this version" in wrong(states(container.environment())[1])["turns.page"]
    page.write_bytes(turn.initial())
    status, found = states(container.environment())
    assert (status, found["turns.page"]) == (0, [("ok", str(page))])
    page.unlink()
    limit_cores(container, 30, CorePolicy.DISABLE)
    assert states(container.environment())[0] == 0
    limit_cores(container, 100)
    assert states(container.environment())[0] == 0


def test_the_agents_heartbeat_is_fresh_or_named(make_container, run_c):
    container = make_container(4000)
    offset = int(run_c(HEARTBEAT_NAMES + "(size_t)HAMI_COMPUTE_OFFSET + offsetof(struct hami_compute, agent_beat)); }"))
    assert states(container.environment())[1]["agent.heartbeat"][0][0] == "not applicable"
    put(container.region_path, offset, struct.pack("<Q", int(time.time())))
    status, found = states(container.environment())
    assert (status, found["agent.heartbeat"][0][0]) == (0, "ok")
    put(container.region_path, offset, struct.pack("<Q", int(time.time()) - 500))
    only_wrong(container.environment(), "agent.heartbeat")
    put(container.region_path, offset, struct.pack("<Q", 2**64 - 1))
    assert "at no possible time" in wrong(states(container.environment())[1])["agent.heartbeat"]


# ---- preloading ----


def test_a_process_without_the_library_is_named(make_container):
    container = make_container(4000)
    environment = container.environment()
    del environment["LD_PRELOAD"]
    status, found = states(environment)
    assert status == 1
    assert set(wrong(found)) == {"preload.file", "library.loaded", "nvml.total"}
    assert "NVML shows 81,920 MiB, the limit is 4,000 MiB" in wrong(found)["nvml.total"]


@pytest.fixture
def foreign(tmp_path):
    """A libvgpu.so of somebody else's."""
    (tmp_path / "other.c").write_text("int other(void) { return 0; }\n")
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / "libvgpu.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", str(path)], check=True)
    return path


def test_another_library_of_the_name_is_named(make_container, foreign):
    container = make_container(4000)
    environment = container.environment() | {"LD_PRELOAD": str(foreign)}
    status, found = states(environment)
    assert status == 1
    assert wrong(found)["library.loaded"] == f"{foreign} is loaded, which is not this project's"
    container.variables["LD_PRELOAD"] = f"{container.environment()['LD_PRELOAD']}:{foreign}"
    status, found = states(container.environment())
    assert status == 1
    assert wrong(found)["library.loaded"].startswith("several are loaded: ")
    assert wrong(found)["preload.variable"].endswith("names more than one libvgpu.so")


def test_a_library_that_is_not_there_is_named(make_container, tmp_path):
    container = make_container(4000)
    container.variables["LD_PRELOAD"] = str(tmp_path / "libvgpu.so")
    status, found = states(container.environment(), noise="cannot be preloaded")
    assert status == 1
    assert wrong(found)["preload.variable"] == f"LD_PRELOAD names {tmp_path / 'libvgpu.so'}, which is not there"


def test_a_program_with_another_build_shows_in_the_region(make_container):
    """The other container is only looked at: no process of ours touches its region."""
    container, other = make_container(4000), make_container(3000)
    put(other.region_path, BUILD_AT, b"0123456789abcdef\0")
    assert other.region().build == "0123456789abcdef"
    status, found = states(container.environment(), "--root", other.root)
    assert (status, list(wrong(found))) == (1, ["region.build"])
    assert wrong(found)["region.build"].startswith("a program here runs build 0123456789abcdef")
    assert found["nvml"][0][1].startswith(f"libvgpu.so takes its limits from {container.root} here")


def test_asking_leaves_no_trace_that_is_then_judged(make_container):
    """What asks NVML has this library loaded; the build of the program before it is what counts."""
    container = make_container(4000)
    status, found = states(container.environment())
    assert (status, found["region.build"][0][0]) == (0, "not applicable")
    put(container.region_path, BUILD_AT, b"0123456789abcdef\0")
    status, found = states(container.environment())
    assert (status, list(wrong(found))) == (1, ["region.build"])
    assert found["nvml.total"][0][0] == "ok"


# ---- the environment ----


def test_variables_that_are_ignored_are_named(make_container):
    container = make_container(4000)
    assert states(container.environment())[1]["environment"][0][1] == "no variable is set that would be ignored"
    container.variables |= {"CUDA_DEVICE_MEMORY_LIMIT_0": "70000m", "CUDA_DISABLE_CONTROL": "true", "CUDA_CACHE": "1"}
    found = sound(container.environment())
    [(state, text)] = found["environment"]
    assert state == "ok"
    assert text.startswith(f"set and ignored, {container.root}/limits decides: ")
    assert text.endswith(": CUDA_DEVICE_MEMORY_LIMIT_0=70000m, CUDA_DISABLE_CONTROL=true")


# ---- NVML ----


@pytest.mark.parametrize("symbol", ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo"])
def test_an_nvml_that_fails_is_named(make_container, symbol):
    container = make_container(4000)
    with sim.State(container.state) as state:
        state.inject(sim.Fault(symbol, error=999))
        assert f"{symbol} answers 999" in only_wrong(container.environment(), "nvml.total")


def test_an_nvml_that_does_not_start_is_named(make_container, tmp_path):
    container = make_container(4000)
    container.variables["HAMI_SIM_STATE"] = str(tmp_path / "nothing")
    assert only_wrong(container.environment(), "nvml").startswith("asking NVML: nvmlInit_v2 answers ")


def test_a_card_that_is_not_visible_is_named(make_container):
    container = make_container(4000)
    limits = Limits((DeviceLimit("GPU-00000000-0000-0000-0000-000000000000", 4000 * MIB, 4000 * MIB),))
    container.write_limits(limits)
    container.region_path.write_bytes(region.initial(limits))
    assert "nvmlDeviceGetHandleByUUID answers 6" in only_wrong(container.environment(), "nvml.total")


def test_a_container_without_nvml_is_not_judged_by_it(make_container):
    container = make_container(4000)
    environment = container.environment()
    environment["LD_LIBRARY_PATH"] = ""
    found = sound(environment)
    assert found["nvml"][0][0] == "not applicable"
    assert "libnvidia-ml.so.1" in found["nvml"][0][1]


def test_a_device_without_a_memory_limit_is_not_compared(make_container):
    container = make_container(0)
    found = sound(container.environment())
    assert found["nvml.total"][0][0] == "not applicable"


# ---- programs ----


def compiled(folder, *flags, mode=0o755, machine=None, size=None):
    (folder / "program.c").write_text("int main(void) { return 0; }\n")
    path = folder / "program"
    subprocess.run(["gcc", str(folder / "program.c"), "-o", str(path), *flags], check=True)
    path.chmod(mode)
    if machine is not None:
        put(path, 18, struct.pack("<H", machine))
    if size is not None:
        os.truncate(path, size)
    return path


def script(folder, text):
    path = folder / "script"
    path.write_text(text)
    path.chmod(0o755)
    return path


LOADER = "-Wl,--dynamic-linker="
PROGRAMS = {
    "static": (lambda at: compiled(at, "-static"), "statically linked"),
    "static-pie": (lambda at: compiled(at, "-static-pie"), "statically linked"),
    "musl": (lambda at: compiled(at, f"{LOADER}/lib/ld-musl-x86_64.so.1"), "for musl"),
    "other loader": (lambda at: compiled(at, f"{LOADER}/system/bin/linker64"), "which is not glibc's"),
    "missing loader": (lambda at: compiled(at, f"{LOADER}/gone/ld-linux-x86-64.so.2"), "is not here"),
    "other machine": (lambda at: compiled(at, machine=243), "64-bit riscv, and libvgpu.so is"),
    "script": (
        lambda at: script(at, f"#!/usr/bin/env -S {compiled(at, '-static')} -v\n"),
        "program: statically linked",
    ),
    "setuid": (lambda at: compiled(at, mode=0o4755), "setuid, so the loader ignores LD_PRELOAD"),
    "setgid": (lambda at: compiled(at, mode=0o2755), "setgid, so the loader ignores LD_PRELOAD"),
    "text": (lambda at: script(at, "hello\n"), "not an ELF file"),
    "cut short": (lambda at: compiled(at, size=100), "cut short"),
    "missing": (lambda at: at / "nothing", "no such program"),
}


@pytest.mark.parametrize(("make", "text"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cannot_be_held_is_named(make_container, tmp_path, make, text):
    assert text in only_wrong(make_container(4000).environment(), "program", "--", make(tmp_path))


def test_a_program_that_can_be_held_passes(make_container, tmp_path):
    environment = make_container(4000).environment()
    status, found = states(environment, "--", compiled(tmp_path), "--its", "own", "arguments")
    assert (status, found["program"][0][0]) == (0, "ok")
    assert states(environment, "--", "sh")[1]["program"][0][0] == "ok"


# ---- drivers that programs have loaded ----


@pytest.mark.parametrize("door", ["-DDIRECT", "-DDLSYM"])
@pytest.mark.parametrize("how", ["plain", "deep", "apart"])
def test_library_that_takes_functions_past_us_is_named(make_container, programs, sanitized, how, door):
    if sanitized and how != "plain":
        pytest.skip("AddressSanitizer refuses RTLD_DEEPBIND and dlmopen")
    container = make_container(4000)
    plugin = programs("plugin", "-shared", "-fPIC", "-DCONTEXT", door)
    assert container.start(programs("host"), how, plugin).stdout.readline() == "opened\n"
    status, found = states(container.environment())
    [(state, text)] = found["drivers"]
    assert (status, state) == ((0, "ok") if how == "plain" else (1, "wrong"))
    assert (f"{plugin} takes " in text) == (how != "plain")
    assert "hami_gpusim/lib/libcuda.so.1, " in text


@pytest.mark.parametrize("kinds", ["copy copy", "lazy lazy copy", "- eager copy"])
def test_driver_files_of_a_program_are_listed(make_container, programs, lay_out_drivers, kinds):
    container = make_container(4000)
    lay_out_drivers(container, kinds, "{0}.1" if kinds[0] == "-" else "{0}.1 {0}")
    plugin = programs("plugin", "-shared", "-fPIC", "-DCONTEXT")
    assert container.start(programs("host"), "plain", plugin).stdout.readline() == "opened\n"
    status, found = states(container.environment())
    [(state, text)] = found["drivers"]
    there = sorted(str(file) for file in Path(container.variables["LD_LIBRARY_PATH"]).iterdir())
    assert (status, state) == (0, "ok")
    assert text.partition(": ")[2] == f"{', '.join(there)}, called through libvgpu.so"


# ---- a container with mounts, as the agent makes them ----

BOX = r"""
set -e
mount -t tmpfs tmpfs /mnt
for part in usr/local etc; do
    mkdir -p /mnt/$part/upper /mnt/$part/work
    mount -t overlay overlay -o lowerdir=/$part,upperdir=/mnt/$part/upper,workdir=/mnt/$part/work /$part
done
mkdir -p /usr/local/vgpu/limits /usr/local/vgpu/region
touch /usr/local/vgpu/libvgpu.so
mount --bind "$BOX_ROOT/limits" /usr/local/vgpu/limits
mount --bind "$BOX_ROOT/region" /usr/local/vgpu/region
mount --bind "$BOX_LIBRARY" /usr/local/vgpu/libvgpu.so
mount -o remount,bind,ro /usr/local/vgpu/limits
echo /usr/local/vgpu/libvgpu.so > /etc/ld.so.preload
eval "$BOX_FAULT"
exec "$@"
"""


def in_box(container, *arguments, fault="", noise="", **variables):
    """Checks in a mount namespace with everything where the agent puts it; `fault` is done to it first."""
    rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    environment = sim.environment(container.state) | {
        "BOX_ROOT": str(container.root),
        "BOX_LIBRARY": str(hami_interpose.library()),
        "BOX_FAULT": fault,
    }
    wrapper = ["unshare", "--mount", *rootless, "sh", "-c", BOX, "box", "env"]
    wrapper += [f"{name}={value}" for name, value in variables.items()]
    return states(environment, *arguments, wrapper=wrapper, noise=noise)


def test_a_container_as_the_agent_makes_it_passes_every_check(make_container, tmp_path):
    container = make_container(4000)
    status, found = in_box(container, "--", compiled(tmp_path, mode=0o4755))
    assert (status, wrong(found)) == (0, {})
    judged = {name for name, entries in found.items() for state, _ in entries if state == "ok"}
    assert set(found) - judged == {"turns.page", "agent.heartbeat", "region.build", "drivers"}
    assert "/etc/ld.so.preload counts" in found["program"][0][1]


UNPRELOADED = {"preload.file", "library.loaded", "nvml.total"}
UNLOADED = {"library.file", "library.loaded", "nvml.total"}
FAULTS = {
    "limits writable": ("mount -o remount,bind,rw $V/limits", {"limits.mount"}),
    "region read-only": ("mount -o remount,bind,ro $V/region", {"region.writable", "nvml.used"}),
    "region not mounted": ("umount $V/region; cp $BOX_ROOT/region/vgpu.cache $V/region", {"region.mount"}),
    "limits not mounted": ("umount $V/limits; cp $BOX_ROOT/limits/limits $V/limits", {"limits.mount"}),
    "no preload file": ("rm /etc/ld.so.preload", UNPRELOADED),
    "other path": ("cp $BOX_LIBRARY /usr/local; echo /usr/local/libvgpu.so > /etc/ld.so.preload", {"preload.file"}),
    "library empty": (": > /mnt/empty; mount --bind /mnt/empty $V/libvgpu.so", UNLOADED),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_mount_that_is_wrong_is_named(make_container, name):
    fault, expected = FAULTS[name]
    container = make_container(4000)
    noise = "cannot be preloaded" if "library.file" in expected else ""
    status, found = in_box(container, fault=f"V=/usr/local/vgpu; {fault}", noise=noise)
    assert (status, set(wrong(found))) == (1, expected)


def test_ld_preload_that_contradicts_the_file_is_named(make_container, tmp_path, foreign):
    container = make_container(4000)
    status, found = in_box(container, LD_PRELOAD=str(foreign))
    assert status == 1
    assert "two different libraries" in wrong(found)["preload.variable"]
    assert set(wrong(found)) == {"preload.variable", "library.loaded"}
    status, found = in_box(container, HAMI_VGPU_ROOT=str(tmp_path), LD_PRELOAD="/usr/local/vgpu/libvgpu.so")
    assert status == 0
    assert found["environment"][0][1].endswith(f"HAMI_VGPU_ROOT={tmp_path}")


# ---- the command line ----


def test_the_command_line_explains_itself(make_container):
    environment = make_container(4000).environment()
    done = check(environment, "--help")
    assert done.returncode == 0
    assert "kubectl exec POD -- python -m hami_interpose check" in done.stdout
    assert check(environment, "--bogus").returncode == 2


def test_outside_a_container_everything_is_wrong_and_nothing_breaks(tmp_path):
    done = check({"PATH": os.environ["PATH"]}, "--json", "--root", tmp_path)
    found = {entry["check"]: entry["state"] for entry in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert found["limits.folder"] == found["region.file"] == found["library.loaded"] == "wrong"
