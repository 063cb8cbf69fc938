"""Makes and destroys MIG instances on simulated cards, as an administrator does with nvidia-smi."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import hami_gpusim as sim

if TYPE_CHECKING:
    from pathlib import Path

# A process that has loaded the simulated driver keeps its cards, so each command runs in a new one.
PROGRAM = """
import sys
from hami_nvidia.nvml import Nvml
from hami_nvidia.nvml_mig import NvmlMig
library, index, do, *words = sys.argv[1:]
nvml = Nvml(lambda: library)
driver, card = NvmlMig(nvml), nvml.cards()[0][int(index)].uuid
if do == "make":
    profile = next(p for p in driver.profiles(card) if p.name == words[0])
    made = driver.create(card, profile.id, next(at for at in profile.placements if at.start == int(words[1])))
    compute = driver.create_compute(card, made, profile.slices)
    print(driver.devices(card)[made, compute])
else:
    for one in driver.instances(card):
        if one.placement.start == int(words[0]):
            driver.destroy_compute(card, one.id, one.compute[0])
            driver.destroy(card, one.id)
"""


def make(state: Path, card: int, profile: str, start: int) -> str:
    """Make an instance that one compute instance fills. Returns its UUID."""
    return _run(state, card, "make", profile, start)


def destroy(state: Path, card: int, start: int) -> None:
    """Destroy the instance that starts there."""
    _run(state, card, "destroy", start)


def _run(state: Path, *words: str | int) -> str:
    command = [sys.executable, "-c", PROGRAM, str(sim.library_dir() / "libnvidia-ml.so.1"), *map(str, words)]
    # The path may lead through /proc/PID/root, which must not be resolved.
    environment = sim.environment(state) | {"HAMI_SIM_STATE": str(state)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
