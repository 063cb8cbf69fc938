from __future__ import annotations

import os

import pytest
from hami_interpose import sim
from hami_nvidia.nvml import Nvml

LIBRARY = str(sim.LIBRARIES / "libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def gpus(tmp_path_factory):
    """State of two simulated cards. One for all tests: a driver library stays with the cards it has seen."""
    folder = tmp_path_factory.mktemp("gpus") / "state"
    sim.create(folder, "a100x2")
    os.environ["HAMI_SIM_STATE"] = str(folder)
    yield folder
    del os.environ["HAMI_SIM_STATE"]


@pytest.fixture
def state(gpus):
    """The cards' books, put right again afterwards."""
    with sim.State(gpus) as state:
        yield state
        for index in range(2):
            state.restore(index)
        state.clear()


@pytest.fixture
def nvml(gpus):
    """NVML on the simulated cards."""
    opened = Nvml(lambda: LIBRARY)
    yield opened
    opened.close()
