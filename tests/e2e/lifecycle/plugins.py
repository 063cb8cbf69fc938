"""Run the device plugins of `tests.e2e.lifecycle.device_plugin` on a node."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.bed import Bed
    from tests.e2e.lifecycle.device_plugin import Settings

SOURCES = Path(__file__).parents[3]


@contextlib.contextmanager
def running(bed: Bed, node: str, settings: Settings) -> Iterator[None]:
    """Run a plugin on a node during the block. At its start the node already offers the plugin's slots."""
    name = f"plugin-{settings.resource.replace('/', '-')}:{node}"
    file = bed.work / f"{name.replace(':', '-')}.json"
    file.write_bytes(msgspec.json.encode(settings))
    command = [sys.executable, "-m", "tests.e2e.lifecycle.device_plugin", str(file)]
    bed.components.define(name, node, command, {"PYTHONPATH": f"{SOURCES}:{SOURCES}/interpose/python"})
    try:
        bed.wait(f"{settings.resource} on {node}", lambda: allocatable(bed, node, settings.resource), 30)
        yield
    finally:
        bed.stop(name)


def allocatable(bed: Bed, node: str, resource: str) -> int:
    """Amount of a resource that the node offers."""
    return int(bed.call("GET", f"/api/v1/nodes/{node}")["status"].get("allocatable", {}).get(resource, 0))
