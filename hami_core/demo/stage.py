"""The stage with NVIDIA GPUs, simulated ones or the machine's own, and the demo's client programs.

Everything else is `hami_core.testing.Stage`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core.errors import ConfigError
from hami_core.plugins import load
from hami_core.sim import NodeSpec
from hami_core.testing.parts import StageError
from hami_core.testing.stage import Stage, StageNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from hami_core.plugins import Loaded

LIBRARY_DIR: Final = "/usr/local/nvidia/lib64"
"""Where containers find the driver's libraries: on the path of every CUDA image."""
PROGRAMS: Final = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class GpuNode(StageNode):
    """A node of the stage with GPUs.

    Attributes:
        profile: The simulated GPUs in it, by the name of `hami_interpose.sim`.
        split: How often each GPU is offered.
    """

    profile: str = ""
    split: int = 10


@dataclass(frozen=True, slots=True)
class Card:
    """One card as the driver describes it on the node; bytes, and bytes by process id."""

    uuid: str
    name: str
    total: int
    used_by: Mapping[int, int]


@dataclass
class GpuStage(Stage):
    """The stage with GPUs.

    Attributes:
        nodes: The nodes.
        vendors: Vendors the scheduler loads; the stage itself knows NVIDIA's.
        real: Use the machine's own GPUs in place of simulated ones (one node).
    """

    nodes: Sequence[GpuNode]
    vendors: Sequence[str] = ("nvidia",)
    real: bool = field(default=False, kw_only=True)

    def load(self) -> Loaded:
        """NVIDIA's package alone: what else the scheduler is told to load need not even be sound."""
        loaded = load(self.device_config, only=["nvidia"], named_by="vendors")
        loaded.require()
        return loaded

    def prepare(self) -> None:
        """Make the simulated GPUs and the C client program."""
        self._make_gpus()
        self._build_probe()

    def agent_environment(self, node: StageNode) -> dict[str, str]:
        """Where the node's driver libraries and devices are."""
        environment = super().agent_environment(node) | {"HAMI_NVIDIA_SPLIT_COUNT": str(_gpus(node).split)}
        if not self.real:
            libraries = str(_interposer().sim_library_dir())
            environment |= {
                "HAMI_SIM_STATE": str(self.gpu_state(node.name)),
                "LD_LIBRARY_PATH": libraries,
                "HAMI_NVIDIA_DEV_ROOT": str(self.gpu_state(node.name) / "dev"),
                "HAMI_NVIDIA_DRIVER_LIBRARIES": f"{libraries}/libcuda.so.1,{libraries}/libnvidia-ml.so.1",
                "HAMI_NVIDIA_CONTAINER_LIBRARY_DIR": LIBRARY_DIR,
            }
        return environment

    @property
    def image_env(self) -> dict[str, str]:
        """Environment of every image: the client programs, and where CUDA images look for the driver's libraries."""
        return {"PATH": f"{self.work / 'bin'}:{super().image_env['PATH']}", "LD_LIBRARY_PATH": LIBRARY_DIR}

    def node_spec(self, node: StageNode) -> NodeSpec:
        """An embedded node; the books of its GPUs are hardware, so all containers see them as they are."""
        if self.real:
            return super().node_spec(node)
        env = self.image_env | {"HAMI_SIM_STATE": str(self.gpu_state(node.name)), "HAMI_SIM_DEV": "/dev"}
        return NodeSpec(name=node.name, image_env=env, shared=[self.gpu_state(node.name)], **self.kubelet)

    def gpu_state(self, node: str) -> Path:
        """State folder of a node's simulated GPUs."""
        return self.work / node / "gpus"

    def _make_gpus(self) -> None:
        if self.real:
            return
        simulated = _simulated()
        for node in self.nodes:
            self.gpu_state(node.name).parent.mkdir(parents=True, exist_ok=True)
            simulated.create(self.gpu_state(node.name), node.profile)

    def _build_probe(self) -> None:
        """Compile the C client program against the driver's library."""
        (self.work / "bin").mkdir(exist_ok=True)
        where = [] if self.real else [f"-L{_interposer().sim_library_dir()}"]
        build = ["cc", "-std=c11", "-O1", str(PROGRAMS / "probe.c"), "-o", str(self.work / "bin" / "cuda-probe")]
        done = subprocess.run([*build, *where, "-l:libcuda.so.1"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise StageError(f"the C client program does not compile:\n{done.stderr}")

    def devices(self) -> dict[str, list[Card]]:
        """What the driver itself says, by node: the simulated one's books, or the real one's NVML."""
        if self.real:
            return {self.nodes[0].name: _real_cards()}
        simulated = _simulated()
        found = {}
        for node in self.nodes:
            with simulated.State(self.gpu_state(node.name)) as state:
                found[node.name] = [
                    Card(d.uuid, d.name, d.memory_total, {p.pid: p.memory_used for p in d.processes})
                    for d in state.devices
                ]
        return found


def _real_cards() -> list[Card]:
    argv = [sys.executable, "-m", "hami_core.demo.programs.nvml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageError(f"NVML cannot be asked on this machine:\n{done.stderr}")
    return [
        Card(d["uuid"], d["name"], d["total_bytes"], {p["pid"]: p["used_bytes"] for p in d["processes"]})
        for d in json.loads(done.stdout)["devices"]
    ]


def _gpus(node: StageNode) -> GpuNode:
    if not isinstance(node, GpuNode):
        raise ConfigError(f"node {node.name}", "says nothing of GPUs", "give a GpuNode")
    return node


def _simulated() -> ModuleType:
    _interposer()
    return import_module("hami_interpose.sim")


def _interposer() -> ModuleType:
    try:
        return import_module("hami_interpose")
    except ImportError as error:
        raise ConfigError("demo", "hami-interpose is not installed", "pip install 'hami[nvidia]'") from error
