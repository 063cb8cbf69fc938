"""Simulated GPUs of a node. They are laid out like a driver installation, so that programs need not know.

::

    opt/nvidia-sim/lib/      libcuda.so.1, libnvidia-ml.so.1: the driver root's libraries
    opt/nvidia-sim/state/    the simulated cards; all processes of the node share it
    etc/cdi/nvidia.yaml      the CDI spec, as `nvidia-ctk cdi generate` writes it
    dev/nvidia0 ...          character devices, with the numbers of NVIDIA's driver
    dev/nvidia-caps/         those of MIG: its configuration, and each instance that a card can have

Containers get the driver's files through the CDI spec. The spec also adds the simulation's state and two variables.
It has no hooks (links, ldconfig), unlike nvidia-ctk's: images set LD_LIBRARY_PATH to the folder of the libraries, as
NVIDIA's do.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, Final

import hami_gpusim as sim
import yaml

from tests.e2e.bed.errors import BedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DRIVER_ROOT: Final = "/opt/nvidia-sim"
STATE: Final = f"{DRIVER_ROOT}/state"
CONTAINER_LIBRARIES: Final = "/usr/local/nvidia/lib64"
LIBRARIES: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
MAJOR: Final = 195
CONTROL: Final = {
    "nvidia-modeset": (MAJOR, 254),
    "nvidiactl": (MAJOR, 255),
    # On real nodes the kernel picks this major number. Here it is a number that no driver uses.
    "nvidia-uvm": (507, 0),
    "nvidia-uvm-tools": (507, 1),
}
CAPS_MAJOR: Final = 508
CAPS_PER_CARD: Final = 135
"""Nodes of nvidia-caps for each card: 15 GPU instances, each with 8 compute instances. Three nodes come before them."""


def prepare(root: Path, profile: str) -> None:
    """Lay out a node's simulated GPUs in a folder. Existing files are kept.

    Args:
        root: Folder in place of the node's root.
        profile: Profile for `hami_gpusim.create`, such as ``a100x2``.

    Raises:
        BedError: Device nodes cannot be made here.
    """
    libraries = root / DRIVER_ROOT.strip("/") / "lib"
    libraries.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        if not (libraries / name).exists():
            shutil.copy(sim.library_dir() / name, libraries / name)
    state = root / STATE.strip("/")
    if not (state / "books").exists():
        sim.create(state, profile)
    cards = json.loads((state / "profile.json").read_text())["devices"]
    _device_nodes(root / "dev", {f"nvidia{c['minor']}": (MAJOR, int(c["minor"])) for c in cards} | CONTROL)
    if any(card.get("mig_profiles") for card in cards):
        caps = range(1, 3 + CAPS_PER_CARD * len(cards))
        _device_nodes(root / "dev/nvidia-caps", {f"nvidia-cap{number}": (CAPS_MAJOR, number) for number in caps})
    spec = root / "etc/cdi/nvidia.yaml"
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(yaml.safe_dump(cdi_spec(cards), sort_keys=False))


def _device_nodes(folder: Path, numbers: dict[str, tuple[int, int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (major, minor) in numbers.items():
        path = folder / name
        if path.exists():
            continue
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        except PermissionError as error:
            raise BedError(f"{path}: device nodes can't be made here; be root, and not in a container") from error
        path.chmod(0o666)


def cdi_spec(cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A spec like nvidia-ctk's for such a node: each card by index and by UUID, and all cards together."""
    nodes = {str(card["index"]): f"/dev/nvidia{card['minor']}" for card in cards}
    by_uuid = {_uuid(card["uuid"]): f"/dev/nvidia{card['minor']}" for card in cards}
    devices = [_device(name, path) for name, path in (nodes | by_uuid).items()]
    mounts = [
        _mount(f"{DRIVER_ROOT}/lib/{name}", f"{CONTAINER_LIBRARIES}/{name}", ["ro", "nosuid", "nodev", "bind"])
        for name in LIBRARIES
    ]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [*devices, _device("all", *nodes.values())],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", f"HAMI_SIM_STATE={STATE}", "HAMI_SIM_DEV=/dev"],
            "deviceNodes": [{"path": f"/dev/{name}"} for name in CONTROL],
            "mounts": [*mounts, _mount(STATE, STATE, ["rw", "nosuid", "nodev", "bind"])],
        },
    }


def _device(name: str, *paths: str) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}


def _mount(host: str, container: str, options: list[str]) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": container, "options": options}


def _uuid(text: str) -> str:
    return text if text.startswith("GPU-") else f"GPU-{text}"
