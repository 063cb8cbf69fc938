"""SIGKILL before every single change to the disk: the next agent finishes the work."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("scenario", "least"), [("arrive", 14), ("leave", 8), ("reboot", 12)])
def test_the_next_agent_finishes_after_a_kill_at_every_step(short_dir, scenario, least):
    run = subprocess.run(
        [sys.executable, "-m", "hami_core.tests.agent.crash_driver", str(short_dir), scenario],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    steps = json.loads(run.stdout.splitlines()[-1])["steps"]
    assert steps >= least, "the driver must see the agent's writes"
