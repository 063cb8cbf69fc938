"""Nodes and pods of several vendors on the embedded cluster.

The devices are simulated. On most nodes our agents serve them, each in a process of its own. Other nodes stand for
those of HAMi's Ascend plugin and of Cambricon's plugin: the node objects say which devices there are, and the stage
finishes Binds in place of the plugins.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hami_ascend import sim as ascend_sim
from hami_cambricon import sim as cambricon_sim
from hami_nvidia.demo.stage import GpuNode, GpuStage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hami_core.testing import StageNode

VENDORS = ("nvidia", "ascend", "cambricon")
CHIP = "Ascend910B4"
CHIP_MIB = 32768
MLU_MIB = 24576
KEYS = {
    "nvidia": "hami.io/vgpu-devices-allocated",
    "ascend": f"hami.io/{CHIP}-devices-allocated",
    "cambricon": "hami.io/cambricon-mlu-devices-allocated",
}
"""Allocation annotation of each vendor. Other chips than `CHIP` have their own."""


@dataclass(frozen=True, slots=True)
class MixedNode(GpuNode):
    """A node of several vendors.

    Attributes:
        npus: Number of NPUs that our agent serves.
        mlus: Number of MLUs that our agent serves.
    """

    npus: int = 0
    mlus: int = 0


@dataclass
class MixedStage(GpuStage):
    """The stage with three vendors, all of which this process reads, too."""

    vendors: Sequence[str] = VENDORS
    _devices: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """Environment by which the agents of a node find its NPUs and MLUs."""

    @property
    def read_vendors(self) -> Sequence[str]:
        """Every vendor of the scheduler."""
        return self.vendors

    def prepare(self) -> None:
        """Make the simulated devices. The agent makes vNPUs, so that NPUs refuse what does not fit on them."""
        super().prepare()
        for number, node in enumerate(self.nodes):
            made = self._devices[node.name] = {"HAMI_ASCEND_VNPU_CREATOR": "agent"}
            if isinstance(node, MixedNode) and node.npus:
                made |= ascend_sim.create(self.npus(node.name), node.npus, "910B4", first_die=1 + 16 * number)
            if isinstance(node, MixedNode) and node.mlus:
                made |= cambricon_sim.create(self.mlus(node.name), cards=node.mlus, memory_mib=MLU_MIB)

    def agent_environment(self, node: StageNode) -> dict[str, str]:
        """Paths of the node's simulated devices."""
        return super().agent_environment(node) | self._devices[node.name]

    def npus(self, node: str) -> Path:
        """Folder of a node's simulated NPUs."""
        return self.work / node / "npus"

    def mlus(self, node: str) -> Path:
        """Folder of a node's simulated MLUs."""
        return self.work / node / "mlus"

    def stop(self, name: str) -> None:
        """End one of our parts with SIGTERM and leave it so; `restart` starts it again."""
        self.parts[name].signal(signal.SIGTERM)
        self.parts[name].wait()


def node(name: str, gpus: str = "", npus: int = 0, mlus: int = 0) -> MixedNode:
    """A node with simulated GPUs of a profile, NPUs and MLUs. Our agents serve all of them."""
    there = {"nvidia": gpus, "ascend": npus, "cambricon": mlus}
    return MixedNode(name, gpus, agents=[vendor for vendor, has in there.items() if has], npus=npus, mlus=mlus)


def foreign_node(name: str, npus: int = 0, mlus: int = 0, *, chip: str = CHIP, soft: bool = False) -> MixedNode:
    """A node with NPUs and MLUs as their vendors' device plugins leave them, and without our agents."""
    annotations, capacity = {}, {}
    if npus:
        annotations = {f"hami.io/node-register-{chip}": register(npus, chip), "hami-vnpu-core": str(soft).lower()}
        capacity[f"huawei.com/{chip}"] = str(4 * npus)
    if mlus:
        # The kubelet would take sMLU resources from Cambricon's plugin; the test's node object already has them.
        capacity |= {
            "cambricon.com/vmlu": str(mlus * 100),
            "cambricon.com/mlu.smlu.vcore": str(mlus * 100),
            "cambricon.com/mlu.smlu.vmemory": str(mlus * MLU_MIB // 256),
        }
    return MixedNode(name, agents=(), annotations=annotations, capacity=capacity)


def register(count: int, chip: str = CHIP) -> str:
    """The register annotation of HAMi's Ascend device plugin."""
    size = CHIP_MIB if chip == CHIP else 2 * CHIP_MIB
    common = {"count": 4, "devmem": size, "devcore": 20, "type": chip, "health": True, "custominfo": {"NetworkID": 0}}
    return json.dumps([{"id": f"VDIE-{chip}-{i}", "index": i} | common for i in range(count)])


def gpu(memory: int, count: int = 1) -> dict[str, Any]:
    """Limits for NVIDIA's cards."""
    return {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory}


def npu(memory: int, count: int = 1) -> dict[str, Any]:
    """Limits for Ascend's."""
    return {f"huawei.com/{CHIP}": count, f"huawei.com/{CHIP}-memory": memory}


def mlu(memory: int, cores: int = 25, count: int = 1) -> dict[str, Any]:
    """Limits for Cambricon's; memory in MiB."""
    return {
        "cambricon.com/vmlu": count,
        "cambricon.com/mlu.smlu.vmemory": memory // 256,
        "cambricon.com/mlu.smlu.vcore": cores,
    }


def pod(name: str, *limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container for each of the limits: c0, c1, …"""
    containers = [
        {"name": f"c{i}", "image": "any", "command": ["sleep", "600"], "resources": {"limits": wanted}}
        for i, wanted in enumerate(limits)
    ]
    body = {"restartPolicy": "Never", "containers": containers, **spec}
    return {"kind": "Pod", "metadata": {"name": name, "annotations": annotations or {}}, "spec": body}


def booked(pod: dict[str, Any], vendor: str) -> list[list[tuple[str, int]]]:
    """(device, MiB) of each container's slices of a vendor, parsed without the product's code."""
    text = pod["metadata"]["annotations"].get(KEYS.get(vendor, f"hami.io/{vendor}-devices-allocated"), "")
    return [
        [(parts[0], int(parts[2])) for piece in entry.split(":") if piece and (parts := piece.split(","))]
        for entry in text.split(";")[: len(pod["spec"]["containers"])]
    ]
