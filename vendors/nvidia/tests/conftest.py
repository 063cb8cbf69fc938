from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import hami_gpusim as sim
import pytest
from hami_nvidia.node import NvidiaNode
from hami_nvidia.nvml import Nvml
from hami_nvidia.settings import NodeSettings

from hami_core import NodeContext

LIBRARY = str(sim.library_dir() / "libnvidia-ml.so.1")


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
            state.set_memory_repair(index)
        state.clear()
        state.forget_cgroups()


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
            "driver_libraries": (sim.library_dir() / "libcuda.so.1", sim.library_dir() / "libnvidia-ml.so.1"),
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
        made.mps.close()


class MpsStandIn:
    """A control daemon that `mps_stand_in` plays, in folders of its own.

    Attributes:
        control: Its program.
        folder: Folder of its sockets, logs and shared memory. The path is short, as a socket's must be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "m"
        self.control = folder / "nvidia-cuda-mps-control"
        program = Path(__file__).parent / "node/mps_stand_in.py"
        self.control.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {program} "$@"\n')
        self.control.chmod(0o755)
        for name in ("pipe", "log", "shm"):
            (self.folder / name).mkdir(parents=True)
        self.env = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }
        self.daemon: subprocess.Popen | None = None

    def fault(self, word: str) -> None:
        """Let it fail from now on; an empty word: no more."""
        (self.folder / "fault").write_text(word)

    def ask(self, command: str = "get_default_active_thread_percentage") -> subprocess.CompletedProcess:
        env = os.environ | self.env
        return subprocess.run([self.control], input=command, env=env, capture_output=True, text=True, check=False)

    def pid(self) -> int:
        """The daemon's pid, by its own file."""
        return int((self.folder / "pipe/nvidia-cuda-mps-control.pid").read_text())

    def start(self) -> None:
        """Run the daemon, without a supervisor, until it answers."""
        self.daemon = subprocess.Popen([self.control, "-f"], env=os.environ | self.env)
        while self.ask().returncode:
            assert self.daemon.poll() is None
            time.sleep(0.02)

    def kill(self) -> None:
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None


@pytest.fixture
def mps():
    folder = Path(tempfile.mkdtemp(prefix="hami-mps-"))
    made = MpsStandIn(folder)
    yield made
    made.kill()
    shutil.rmtree(folder, ignore_errors=True)
