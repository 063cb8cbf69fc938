"""The agent finds a bed's simulated GPUs like real ones: by NVML below the driver root, and NVIDIA's own CDI spec."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import hami_gpusim as sim
import pytest
import yaml

from tests.e2e.bed import gpus

# The agent's NVIDIA side with a driver root and a CDI folder, as on any node. It needs a process of its own, because a
# loaded driver library keeps the first cards that it saw.
NODE = """
import json
import os
from pathlib import Path
from hami_core import ContainerKind, ContainerRef, NodeContext, Slice
from hami_nvidia.node import NvidiaNode

node = NvidiaNode()
node.families(None, NodeContext("n1", Path(os.environ["STATE"]), cdi_dirs=(Path(os.environ["CDI"]),)))
devices = node.discover()
pieces = tuple(Slice(d.id, "NVIDIA", 1000, 0, type="NVIDIA") for d in devices[1:])
edits = node.allocate(pieces, ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP))
print(json.dumps({
    "nvml": next(line.split()[-1] for line in open("/proc/self/maps") if "libnvidia-ml" in line),
    "driver": node.nvml.driver_version(),
    "devices": [(d.index, d.id, d.healthy, d.memory_mib) for d in devices],
    "env": dict(edits.env),
    "mounts": {m.container_path: [m.host_path, m.read_only] for m in edits.mounts},
    "nodes": [n.path for n in edits.device_nodes],
}))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    if os.getuid() != 0:
        pytest.skip("making device nodes needs root")
    folder = tmp_path_factory.mktemp("node")
    gpus.prepare(folder, "a100x2")
    return folder


def agent(root, script=NODE, **env):
    driver = root / "opt/nvidia-sim"
    settings = {
        "HAMI_NVIDIA_DRIVER_ROOT": str(driver),
        "CDI": str(root / "etc/cdi"),
        "STATE": str(root / "var-lib-hami"),
        "HAMI_SIM_STATE": str(driver / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | settings | env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_device_nodes_have_nvidias_numbers(root):
    numbers = {}
    for node in (root / "dev").rglob("*"):
        if node.is_dir():
            continue
        found = node.stat()
        assert stat.S_ISCHR(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o666
        numbers[str(node.relative_to(root / "dev"))] = (os.major(found.st_rdev), os.minor(found.st_rdev))
    assert numbers["nvidia0"] == (195, 0)
    assert numbers["nvidia1"] == (195, 1)
    assert numbers["nvidiactl"] == (195, 255)
    assert numbers["nvidia-caps/nvidia-cap1"] == (gpus.CAPS_MAJOR, 1)
    instances = {name for name in numbers if name.startswith("nvidia-caps/")}
    assert set(numbers) - instances == {"nvidia0", "nvidia1", *gpus.CONTROL}


def test_cdi_spec_names_cards_by_index_by_uuid_and_all(root):
    spec = yaml.safe_load((root / "etc/cdi/nvidia.yaml").read_text())
    with sim.State(root / "opt/nvidia-sim/state") as state:
        uuids = [card.uuid for card in state.devices]
    devices = {d["name"]: [n["path"] for n in d["containerEdits"]["deviceNodes"]] for d in spec["devices"]}
    assert spec["kind"] == "nvidia.com/gpu"
    assert list(devices) == ["0", "1", *uuids, "all"]
    assert devices[uuids[1]] == devices["1"] == ["/dev/nvidia1"]
    assert devices["all"] == ["/dev/nvidia0", "/dev/nvidia1"]
    for mount in spec["containerEdits"]["mounts"]:
        assert (root / mount["hostPath"].lstrip("/")).exists()


def test_agent_finds_nvml_in_driver_root_and_files_in_the_spec(root):
    said = agent(root)
    assert said["nvml"] == str(root / "opt/nvidia-sim/lib/libnvidia-ml.so.1")
    assert [(index, healthy) for index, _, healthy, _ in said["devices"]] == [(0, True), (1, True)]
    assert said["nodes"][0] == "/dev/nvidia1"
    assert set(said["nodes"]) == {"/dev/nvidia1", *(f"/dev/{name}" for name in gpus.CONTROL)}
    library = "/usr/local/nvidia/lib64/libcuda.so.1"
    assert said["mounts"][library] == ["/opt/nvidia-sim/lib/libcuda.so.1", True]
    assert said["mounts"][gpus.STATE] == [gpus.STATE, False]
    assert said["env"]["HAMI_SIM_STATE"] == gpus.STATE
    assert said["env"]["HAMI_SIM_DEV"] == "/dev"
    assert said["env"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "/usr/local/vgpu/libvgpu.so" in said["mounts"]


def test_agent_without_a_spec_searches_the_driver_root(root, tmp_path):
    said = agent(root, CDI=str(tmp_path), HAMI_NVIDIA_CONTAINER_LIBRARY_DIR="/usr/local/nvidia/lib64")
    host = str(root / "opt/nvidia-sim/lib/libcuda.so.1")
    assert said["mounts"]["/usr/local/nvidia/lib64/libcuda.so.1"] == [host, True]


def test_second_preparation_changes_nothing(root):
    def everything():
        return {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in root.rglob("*") if p.name != "nvidia.yaml"}

    before = everything()
    gpus.prepare(root, "a100x2")
    assert everything() == before
