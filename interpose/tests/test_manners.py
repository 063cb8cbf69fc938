"""A process that uses CUDA is set up as if we were not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import turn

# But SIGKILL and SIGSTOP, which nobody can block, and the C library's own two.
ALL_SIGNALS = (1 << 64) - 1 & ~sum(1 << number - 1 for number in (signal.SIGKILL, signal.SIGSTOP, 32, 33))

pytestmark = pytest.mark.each_machine


def facts(env, *command):
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def different(container, *command) -> tuple[list[str], list[str]]:
    """What is so only with us, and what only without."""
    ours = facts(container.environment(), *command)
    env = {name: value for name, value in container.environment_without_us().items() if name != "HAMI_VGPU_ROOT"}
    bare = facts(env, *command)
    assert sim.environment(container.state)["HAMI_SIM_STATE"] in " ".join(bare)
    added, gone = ([line for line in one if line not in other] for one, other in ((ours, bare), (bare, ours)))
    assert [line for line in ours if line not in added] == [line for line in bare if line not in gone]
    return added, gone


@pytest.mark.parametrize("limit", [0, 4000])
def test_process_has_the_file_of_the_region_more(make_container, programs, limit):
    container = make_container(limit)
    assert different(container, programs("manners", "-lm")) == ([f"file {container.region_path}"], [])
    assert different(container, programs("manners", "-lm"), "idle") == ([], [])


@pytest.mark.here_only("qemu-user blocks signals in threads by rules of its own")
def test_core_limit_adds_turn_page_and_a_thread_without_signals(make_container, programs):
    container = make_container(4000, cores=50)
    [device] = container.limits.devices
    page = container.root / "turns" / device.uuid
    page.parent.mkdir()
    page.write_bytes(turn.initial())
    added, gone = different(container, programs("manners", "-lm"))
    assert gone == []
    assert sorted(added[:2]) == sorted([f"file {container.region_path}", f"file {page}"])
    assert added[2:] == [f"thread that blocks {ALL_SIGNALS:x}"]


@pytest.mark.here_only("glibc makes no stack below 128 KiB on aarch64")
@pytest.mark.parametrize("kib", [64, 24])
def test_thread_with_a_small_stack_may_ask_for_processes(make_container, programs, sanitized, kib):
    """The bare driver needs no more; a program that sanitizers watch does."""
    if sanitized:
        pytest.skip("sanitizers put more on the stack")
    assert make_container(2000).run(programs("manners", "-lm"), "narrow", kib) == "asked\n"


@pytest.mark.here_only("the paths of libraries are this machine's")
def test_setuid_program_reads_no_variable_of_its_user(make_container, programs):
    """Else the user would have it make a file that all may write, wherever root may."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a setuid-root program")
    libraries = [hami_interpose.library(), sim.library_dir() / "libcuda.so.1"]
    linked = ["-Wl,--no-as-needed", *(part for path in libraries for part in (f"-Wl,-rpath,{path.parent}", str(path)))]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip("the file system ignores setuid bits")
        folder.chmod(0o755)
        kept = folder / "kept"
        kept.mkdir(mode=0o700)
        program = Path(shutil.copy(programs("fill", "-DDIRECT", *linked), folder / "program"))
        program.chmod(0o4755)
        env = make_container(2000).environment() | {
            "LD_PRELOAD": "",
            "HAMI_VGPU_ROOT": "",
            "CUDA_DEVICE_MEMORY_LIMIT": "1g",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(kept / "cache"),
        }
        user = {"user": 65534, "group": 65534, "extra_groups": []}
        done = subprocess.run([program, "4096"], env=env, capture_output=True, text=True, check=False, **user)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["total"] != 1 << 30
        assert list(kept.iterdir()) == []
