"""A process that uses CUDA is set up as if we were not there."""

from __future__ import annotations

import signal
import subprocess

import pytest
from hami_interpose import sim, turn

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
