"""A process that uses CUDA is set up as if we were not there."""

from __future__ import annotations

import subprocess

import pytest
from hami_interpose import sim

pytestmark = pytest.mark.each_machine


def facts(program, env):
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("limit", [0, 4000])
def test_the_process_is_as_without_us_but_for_the_regions_file(make_container, programs, limit):
    container, program = make_container(limit), programs("manners", "-lm")
    ours = facts(program, container.environment())
    env = {name: value for name, value in container.environment_without_us().items() if name != "HAMI_VGPU_ROOT"}
    bare = facts(program, env)
    assert sim.environment(container.state)["HAMI_SIM_STATE"] in " ".join(bare)
    ours.remove(f"file {container.region_path}")
    assert ours == bare
