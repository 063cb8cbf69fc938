"""The demo's stage with simulated NVIDIA GPUs or the machine's own, and its client programs.

`hami_core.testing.Stage` does the rest.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core import ConfigError
from hami_core.testing import Stage, StagedCard, StageError, StageNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

LIBRARY_DIR: Final = "/usr/local/nvidia/lib64"
"""Where containers find the driver's libraries. It is on the library path of every CUDA image."""
HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
PYTHON_PROGRAMS: Final = {"cuda-fill": "cuda.py", "nvml-look": "nvml.py"}
"""Source file of each command in the containers."""
C_PROGRAM: Final = "cuda-probe"


@dataclass(frozen=True, slots=True)
class GpuNode(StageNode):
    """A node of the stage with GPUs.

    Attributes:
        profile: Name or file of its simulated GPUs, for `hami_gpusim.create`. Unused if no agent of NVIDIA's
            vendor runs on the node (`agents`).
        split: Number of slots of each GPU.
    """

    profile: str = ""
    split: int = 10


@dataclass
class GpuStage(Stage):
    """The stage with GPUs.

    Attributes:
        nodes: The nodes.
        vendors: Vendors that the scheduler loads. The stage itself only knows NVIDIA's.
        real: Use the machine's own GPUs instead of simulated ones; for one node.
    """

    nodes: Sequence[GpuNode]
    vendors: Sequence[str] = ("nvidia",)
    real: bool = field(default=False, kw_only=True)

    @property
    def read_vendors(self) -> Sequence[str]:
        """Only NVIDIA's package. The other vendors of the scheduler may even be broken."""
        return ("nvidia",)

    def prepare(self) -> None:
        """Make the simulated GPUs and the client programs."""
        self._make_gpus()
        self._make_programs()

    def agent_environment(self, node: StageNode) -> dict[str, str]:
        """Paths of the node's driver libraries and devices."""
        environment = super().agent_environment(node) | {"HAMI_NVIDIA_SPLIT_COUNT": str(_gpus(node).split)}
        if self._simulates(node):
            libraries = str(_simulated().library_dir())
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
        """Environment of every image: the path of the client programs, and the library path of CUDA images."""
        return {"PATH": f"{self.work / 'bin'}:{super().image_env['PATH']}", "LD_LIBRARY_PATH": LIBRARY_DIR}

    def node_env(self, node: StageNode) -> dict[str, str]:
        """Environment by which programs find a node's simulated GPUs."""
        state = str(self.gpu_state(node.name))
        return {"HAMI_SIM_STATE": state, "HAMI_SIM_DEV": "/dev"} if self._simulates(node) else {}

    def shared_folders(self, node: StageNode) -> Sequence[Path]:
        """The state of a node's GPUs represents hardware, so all containers of the node see the same files."""
        return (self.gpu_state(node.name),) if self._simulates(node) else ()

    def gpu_state(self, node: str) -> Path:
        """State folder of a node's simulated GPUs."""
        return self.work / node / "gpus"

    def _simulates(self, node: StageNode) -> bool:
        return not self.real and "nvidia" in self.agents_on(node)

    def _make_gpus(self) -> None:
        for node in filter(self._simulates, self.nodes):
            self.gpu_state(node.name).parent.mkdir(parents=True, exist_ok=True)
            _simulated().create(self.gpu_state(node.name), node.profile)

    def _make_programs(self) -> None:
        """Put the client programs on the containers' path. The one in C is linked with the driver's library."""
        folder = self.work / "bin"
        folder.mkdir(exist_ok=True)
        for name, source in PYTHON_PROGRAMS.items():
            (folder / name).write_text(f"#!{sys.executable}\n{(PROGRAMS / source).read_text('utf-8')}", "utf-8")
            (folder / name).chmod(0o755)
        build = ["cc", "-std=c11", "-O1", str(PROGRAMS / "probe.c"), "-o", str(folder / C_PROGRAM)]
        # The simulated driver has the real one's interface. A real one may lie where no linker looks.
        driver = [f"-L{_simulated().library_dir()}", "-l:libcuda.so.1"]
        done = subprocess.run([*build, *driver], capture_output=True, text=True, check=False)
        if done.returncode:
            raise StageError(f"the C client program does not compile:\n{done.stderr}")

    def devices(self) -> dict[str, list[StagedCard]]:
        """The cards of each node as the driver itself reports them: from the simulated driver's state or from NVML."""
        if self.real:
            return {self.nodes[0].name: _real_cards()}
        simulated = _simulated()
        found = {}
        for node in filter(self._simulates, self.nodes):
            with simulated.State(self.gpu_state(node.name)) as state:
                found[node.name] = [
                    StagedCard(d.uuid, d.name, d.memory_total, {p.pid: p.memory_used for p in d.processes})
                    for d in state.devices
                ]
        return found


def _real_cards() -> list[StagedCard]:
    argv = [sys.executable, str(PROGRAMS / "nvml.py")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageError(f"NVML cannot be asked on this machine:\n{done.stderr}")
    return [
        StagedCard(d["uuid"], d["name"], d["total_bytes"], {p["pid"]: p["used_bytes"] for p in d["processes"]})
        for d in json.loads(done.stdout)["devices"]
    ]


def _gpus(node: StageNode) -> GpuNode:
    if not isinstance(node, GpuNode):
        raise ConfigError(f"node {node.name}", "has no description of its GPUs", "pass a GpuNode")
    return node


def _require(*, real: bool) -> None:
    """Check that this machine has what stage and programs need.

    Raises:
        ConfigError: Something is missing; names it and how to install it.
    """
    packages = {
        "cuda.bindings": "cuda-bindings",
        "pynvml": "nvidia-ml-py",
        "hami_interpose": "hami-interpose",
        "hami_gpusim": "hami-gpusim",
    }
    missing = [name for module, name in packages.items() if not _is_installed(module)]
    if missing:
        raise ConfigError("demo", f"not installed: {', '.join(missing)}", "pip install 'hami[demo]'")
    if shutil.which("cc") is None:
        raise ConfigError("demo", "there is no C compiler cc on the PATH", "install gcc: apt-get install gcc libc6-dev")
    if real:
        nvml = import_module("pynvml")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            fix = "install NVIDIA's driver, or leave --gpu out for simulated cards"
            raise ConfigError("--gpu real", f"no NVIDIA driver answers: {error}", fix) from error
        nvml.nvmlShutdown()


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around the module
        return False


def _simulated() -> ModuleType:
    try:
        return import_module("hami_gpusim")
    except ImportError as error:
        raise ConfigError("demo", "hami-gpusim is not installed", "pip install 'hami[demo]'") from error


class GpuDemo:
    """NVIDIA's part of `hami demo`: two nodes with two simulated cards each, or the machine's own cards."""

    manifests: Path = HERE / "pods"
    programs: tuple[str, ...] = (C_PROGRAM, *PYTHON_PROGRAMS)

    def stage(self, work: Path, *, real: bool, env: Mapping[str, str]) -> GpuStage:
        """The stage.

        Raises:
            ConfigError: This machine lacks a package, a compiler or, for real GPUs, a driver.
        """
        _require(real=real)
        profiles = {"gpu-1": ""} if real else {"gpu-1": "h100x2", "gpu-2": str(HERE / "gpu-2.yaml")}
        return GpuStage(work, [GpuNode(name, profile, env=env) for name, profile in profiles.items()], real=real)
