from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hami_interpose import sim
from hami_nvidia.node import NvidiaNode
from hami_nvidia.nvml import Nvml
from hami_nvidia.settings import NodeSettings

from hami_core import NodeContext

LIBRARY = str(sim.LIBRARIES / "libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def gpus(tmp_path_factory):
    """State of two simulated cards. All tests share it, since a loaded driver library keeps its cards."""
    folder = tmp_path_factory.mktemp("gpus") / "state"
    sim.create(folder, "a100x2")
    os.environ["HAMI_SIM_STATE"] = str(folder)
    yield folder
    del os.environ["HAMI_SIM_STATE"]


@pytest.fixture
def state(gpus):
    """The cards' state, which is restored after the test."""
    with sim.State(gpus) as state:
        yield state
        for index in range(2):
            state.restore(index)
            state.set_modes(index, compute="default", mig=False)
        state.clear()


@pytest.fixture
def nvml(gpus):
    """NVML on the simulated cards."""
    opened = Nvml(lambda: LIBRARY)
    yield opened
    opened.close()


@pytest.fixture
def node(gpus, tmp_path):
    """Make node sides with the given settings."""
    opened = []

    def make(config=None, clocks=(), **settings):
        fixed = {
            "nvml_library": LIBRARY,
            "driver_libraries": (sim.LIBRARIES / "libcuda.so.1", sim.LIBRARIES / "libnvidia-ml.so.1"),
            "container_library_dir": "/usr/local/nvidia/lib64",
            "dev_root": gpus / "dev",
            "library_dir": tmp_path / "lib",
        }
        context = NodeContext("n1", tmp_path / "hami")
        told = {name: settings.pop(name) for name in tuple(settings) if hasattr(context, name)}
        made = NvidiaNode(NodeSettings(**(fixed | settings)), *clocks)
        made.families(config, replace(context, **told))
        made.folder = gpus
        opened.append(made)
        return made

    yield make
    for made in opened:
        made.nvml.close()
