"""`kubelet_internal_checkpoint`, the file that the kubelet's device manager writes."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from hami_core.agent.proto import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from pathlib import Path

NAME = "kubelet_internal_checkpoint"
_NO_NUMA = "-1"


@dataclass(frozen=True)
class Entry:
    """Devices of one resource that one container holds, with the plugin's answer."""

    pod_uid: str
    container: str
    resource: str
    devices: dict[str, tuple[str, ...]]
    """Device ids by NUMA node; ``-1`` if the plugin names none."""
    response: api.ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        """All device ids."""
        return frozenset(i for ids in self.devices.values() for i in ids)


def _checksum(data: bytes) -> int:
    """FNV-1a, 32 bits, over the JSON. The real kubelet hashes Go's print of the structure."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def encode(entries: list[Entry], registered: dict[str, list[str]]) -> bytes:
    """The file's content."""
    listed = [
        {
            "PodUID": e.pod_uid,
            "ContainerName": e.container,
            "ResourceName": e.resource,
            "DeviceIDs": {numa: list(ids) for numa, ids in e.devices.items()},
            "AllocResp": base64.b64encode(e.response.SerializeToString()).decode(),
        }
        for e in entries
    ]
    data = {"PodDeviceEntries": listed or None, "RegisteredDevices": registered}
    return orjson.dumps({"Data": data, "Checksum": _checksum(orjson.dumps(data))})


def decode(content: bytes) -> tuple[list[Entry], list[str]]:
    """Entries and names of registered resources.

    Raises:
        ValueError: The checksum is wrong or the content is not JSON.
    """
    document = orjson.loads(content)
    data = document["Data"]
    if _checksum(orjson.dumps(data)) != document["Checksum"]:
        raise ValueError("checkpoint is corrupted: checksum differs")
    entries = []
    for item in data["PodDeviceEntries"] or []:
        response = api.ContainerAllocateResponse.FromString(base64.b64decode(item["AllocResp"]))
        devices = {numa: tuple(ids) for numa, ids in item["DeviceIDs"].items()}
        entries.append(Entry(item["PodUID"], item["ContainerName"], item["ResourceName"], devices, response))
    return entries, list(data["RegisteredDevices"])


def save(folder: Path, content: bytes) -> None:
    """Writes under a temporary name, syncs, renames."""
    temporary = folder / f".{NAME}{os.getpid()}"
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / NAME)


def by_numa(ids: list[str], devices: dict[str, api.Device]) -> dict[str, tuple[str, ...]]:
    """Groups ids by the NUMA nodes that the plugin named for them."""
    found: dict[str, list[str]] = {}
    for one in ids:
        nodes = [str(n.ID) for n in devices[one].topology.nodes] if one in devices else []
        for numa in nodes or [_NO_NUMA]:
            found.setdefault(numa, []).append(one)
    return {numa: tuple(group) for numa, group in found.items()}
