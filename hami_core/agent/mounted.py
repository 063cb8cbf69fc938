"""Lists the host files that containers mount: by the specs in our CDI folder, and by the kubelet's stored answers.

A container that restarts inside its pod mounts the same files again. So a listed file is in use even while no process
has it open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.agent import files, identity
from hami_core.agent.cdi import SpecFolder
from hami_core.errors import DeviceError, WireError

if TYPE_CHECKING:
    from pathlib import Path


def mounted_paths(cdi_dir: Path, plugin_dir: Path) -> frozenset[str]:
    """Host paths of all mounts in specs of any of our agents, and in answers of any device plugin (`serial` mode).

    Args:
        cdi_dir: The folder of our specs.
        plugin_dir: The kubelet's folder of device plugins, which has its checkpoint.

    Raises:
        DeviceError: A spec or the checkpoint can't be read, so the list would not be complete.
    """
    specs, found = SpecFolder(cdi_dir), set[str]()
    try:
        for name in specs.names():
            found.update(specs.mounts(name).values())
        checkpoint = plugin_dir / identity.CHECKPOINT
        if checkpoint.exists():
            for entry in identity.decode(files.read(str(checkpoint), limit=identity.LIMIT)).entries:
                found.update(host for _, host in entry.mounts)
    except (OSError, ValueError, WireError) as error:
        raise DeviceError(f"can't tell which host files containers mount: {error}") from error
    return frozenset(found)
