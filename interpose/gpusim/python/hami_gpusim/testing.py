"""Steps that tests on simulated GPUs have in common. They need nvidia-ml-py: `pip install 'hami-gpusim[testing]'`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from hami_gpusim._run import environment
from hami_gpusim._state import State

if TYPE_CHECKING:
    from pathlib import Path

_PARTITION = """
import sys
import pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
if n.nvmlDeviceGetMigMode(card)[0] == 0:
    assert n.nvmlDeviceSetMigMode(card, 1) == 0
infos = {}
for profile in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        info = n.nvmlDeviceGetGpuInstanceProfileInfo(card, profile, version=2)
    except n.NVMLError_NotSupported:
        continue
    name = info.name if isinstance(info.name, str) else info.name.decode()
    infos[name.removeprefix("MIG ")] = info.id
for name in sys.argv[2:]:
    n.nvmlGpuInstanceCreateComputeInstance(n.nvmlDeviceCreateGpuInstance(card, infos[name]), 0)
"""


def partition(state: Path, card: int, *profiles: str) -> list[str]:
    """Makes MIG devices on a card through NVML, as an administrator does, and returns their UUIDs.

    A process keeps the cards that it saw first, so this one does not load the driver: another process makes them.

    Args:
        state: State directory.
        card: Index of the card. MIG mode is switched on if it is off.
        profiles: Names as NVML tells them, without "MIG ": ``1g.10gb``, ``3g.40gb``.

    Raises:
        RuntimeError: The card has no such profile or no room.
    """
    with State(state) as books:
        before = {device.uuid for device in books.mig_devices}
        command = [sys.executable, "-c", _PARTITION, str(card), *profiles]
        done = subprocess.run(command, env=environment(state), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{state}: card {card}: no MIG devices {' '.join(profiles)}:\n{done.stderr}")
        return [device.uuid for device in books.mig_devices if device.uuid not in before]
