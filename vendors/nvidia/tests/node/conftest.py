from __future__ import annotations

import pytest
from hami_interpose import sim
from hami_nvidia.nvml import Nvml

LIBRARY = str(sim.LIBRARIES / "libnvidia-ml.so.1")


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """Make simulated cards and a fresh NVML on them: ``simulated("a100x2") -> (Nvml, state folder)``."""
    opened = []

    def make(profile):
        folder = tmp_path / f"gpus-{len(opened)}"
        sim.create(folder, profile)
        monkeypatch.setenv("HAMI_SIM_STATE", str(folder))
        nvml = Nvml(LIBRARY)
        opened.append(nvml)
        return nvml, folder

    yield make
    for nvml in opened:
        nvml.close()
