"""A process that uses CUDA is set up as if we were not there."""

from __future__ import annotations

import os
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


def facts(program, env):
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def different(container, program) -> tuple[list[str], list[str]]:
    """What is so only with us, and what only without."""
    ours = facts(program, container.environment())
    env = {name: value for name, value in container.environment_without_us().items() if name != "HAMI_VGPU_ROOT"}
    bare = facts(program, env)
    assert sim.environment(container.state)["HAMI_SIM_STATE"] in " ".join(bare)
    added, gone = ([line for line in one if line not in other] for one, other in ((ours, bare), (bare, ours)))
    assert [line for line in ours if line not in added] == [line for line in bare if line not in gone]
    return added, gone


@pytest.mark.parametrize("limit", [0, 4000])
def test_the_process_is_as_without_us_but_for_the_regions_file(make_container, programs, limit):
    container = make_container(limit)
    assert different(container, programs("manners", "-lm")) == ([f"file {container.region_path}"], [])


@pytest.mark.here_only("qemu-user blocks signals in threads by rules of its own")
def test_a_core_limit_adds_the_turn_page_and_one_thread_that_takes_no_signals(make_container, programs):
    container = make_container(4000, cores=50)
    [device] = container.limits.devices
    page = container.root / "turns" / device.uuid
    page.parent.mkdir()
    page.write_bytes(turn.initial())
    added, gone = different(container, programs("manners", "-lm"))
    assert gone == []
    assert sorted(added[:2]) == sorted([f"file {container.region_path}", f"file {page}"])
    assert added[2:] == [f"thread that blocks {ALL_SIGNALS:x}"]


@pytest.mark.parametrize("kib", [64, 24])
def test_a_thread_with_a_small_stack_may_ask_for_processes(make_container, programs, sanitized, kib):
    """The bare driver needs no more; a program that sanitizers watch does."""
    if sanitized:
        pytest.skip("sanitizers put more on the stack")
    assert make_container(2000).run(programs("narrow"), kib) == "asked\n"


SETUID = r"""
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned), cuDeviceTotalMem_v2(size_t *, int);
int main(void) {
    size_t bytes = 0;
    int status = cuInit(0) + cuDeviceTotalMem_v2(&bytes, 0);
    printf("%d %d %zu\n", geteuid(), status, bytes >> 20);
    return 0;
}
"""


@pytest.mark.here_only("gcc is this machine's")
def test_a_setuid_program_reads_no_variable_of_its_user(make_container):
    """Else the user would have it make a file that all may write, wherever root may."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a setuid-root program")
    container = make_container(2000)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        kept = folder / "kept"
        kept.mkdir(mode=0o700)
        (folder / "program.c").write_text(SETUID)
        libraries = [hami_interpose.library(), sim.library_dir() / "libcuda.so.1"]
        linked = [part for path in libraries for part in (f"-Wl,-rpath,{path.parent}", path)]
        command = ["gcc", folder / "program.c", "-o", folder / "program", "-Wl,--no-as-needed", *linked]
        subprocess.run([*map(str, command)], check=True)
        (folder / "program").chmod(0o4755)
        env = container.environment() | {
            "LD_PRELOAD": "",
            "HAMI_VGPU_ROOT": "",
            "CUDA_DEVICE_MEMORY_LIMIT": "1g",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(kept / "cache"),
        }
        user = {"user": 65534, "group": 65534, "extra_groups": []}
        done = subprocess.run([folder / "program"], env=env, capture_output=True, text=True, check=False, **user)
        if done.stdout.startswith("65534 "):
            pytest.skip("the file system ignores setuid bits")
        assert done.stdout.startswith("0 "), done.stderr
        assert list(kept.iterdir()) == []
        assert int(done.stdout.split()[2]) != 1024
