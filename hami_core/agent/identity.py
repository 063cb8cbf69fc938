"""Reads from the kubelet's device checkpoint which container got which CDI name.

Before it admits a pod, the kubelet stores Allocate's answers in ``kubelet_internal_checkpoint``, with the pod's UID,
the container's name and the slot ids. The format is internal to the kubelet, and the same in Kubernetes 1.30 to 1.36.
It is therefore read strictly: an unknown form is an error that says what was found where.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from google.protobuf.message import DecodeError

from hami_core.agent import files
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.errors import WireError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

CHECKPOINT: Final = "kubelet_internal_checkpoint"
"""Name of the checkpoint in the kubelet's device-plugin folder."""
LIMIT: Final = 64 << 20
"""Size limit of the checkpoint in bytes; 110 pods of 16 slots take about 100 KiB."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the kubelet recorded for one container and one resource.

    Attributes:
        pod_uid: UID of the pod; for a static pod, that of its manifest.
        container: Container name.
        resource: Extended resource name.
        slot_ids: The given slot ids, sorted, since the kubelet keeps a set.
        names: CDI names (``vendor/class=name``) in the stored answer of Allocate.
        mounts: Container path and host path of the mounts in the stored answer. They identify the container in
            `serial` mode.
        devices: Container paths of the device nodes in the stored answer.
    """

    pod_uid: str
    container: str
    resource: str
    slot_ids: tuple[str, ...]
    names: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The kubelet's device state.

    Attributes:
        entries: One for each container and resource.
        registered: The slot ids that the kubelet knows, by resource.
    """

    entries: tuple[Entry, ...] = ()
    registered: tuple[tuple[str, frozenset[str]], ...] = ()

    def of(self, resources: frozenset[str]) -> tuple[Entry, ...]:
        """Entries of some resources."""
        return tuple(e for e in self.entries if e.resource in resources)


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    """Base of the checkpoint's parts: an unknown field means a format we have not seen."""


class _PodEntry(_Wire):
    PodUID: str
    ContainerName: str
    ResourceName: str
    DeviceIDs: dict[str, list[str]] | None
    AllocResp: str | None = None


class _Data(_Wire):
    PodDeviceEntries: list[_PodEntry] | None = None
    RegisteredDevices: dict[str, list[str] | None] | None = None


class _File(_Wire):
    Data: _Data
    Checksum: int


_decoder = msgspec.json.Decoder(_File)


def decode(
    data: bytes, *, resources: frozenset[str] | None = None, container: tuple[str, str] | None = None
) -> Checkpoint:
    """Read a checkpoint. The answers stored in entries that are not kept are not decoded.

    Args:
        data: Content of the file.
        resources: Resources whose entries to keep; None: all.
        container: Pod UID and container name whose entries to keep; None: all.

    Raises:
        WireError: The data does not have the form that we know.
    """
    try:
        file = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(CHECKPOINT, -1, f"not a device checkpoint of a form we know: {error}") from error
    entries = tuple(
        _entry(index, raw)
        for index, raw in enumerate(file.Data.PodDeviceEntries or ())
        if (resources is None or raw.ResourceName in resources)
        and (container is None or (raw.PodUID, raw.ContainerName) == container)
    )
    registered = tuple((r, frozenset(ids or ())) for r, ids in sorted((file.Data.RegisteredDevices or {}).items()))
    return Checkpoint(entries, registered)


def _entry(index: int, raw: _PodEntry) -> Entry:
    for field in ("PodUID", "ContainerName"):
        value: Any = getattr(raw, field)
        if not value or "/" in value or "\0" in value or value.startswith("."):
            raise WireError(CHECKPOINT, index, f"PodDeviceEntries: {field} {value!r} is not a name")
    slots = tuple(sorted(i for ids in (raw.DeviceIDs or {}).values() for i in ids))
    try:
        answer = _answer(raw.AllocResp or "")
    except (binascii.Error, ValueError, DecodeError) as error:
        where = f"PodDeviceEntries: AllocResp of container {raw.ContainerName}"
        raise WireError(CHECKPOINT, index, f"{where}: {error}") from error
    return Entry(raw.PodUID, raw.ContainerName, raw.ResourceName, slots, answer.names, answer.mounts, answer.devices)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The parts of a stored answer of Allocate that we use."""

    names: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]


@lru_cache(maxsize=2048)
def _answer(text: str) -> _Answer:
    """Decode a stored answer. Cached, since every version of the file repeats the same answers."""
    response = api.ContainerAllocateResponse.FromString(base64.b64decode(text, validate=True))
    return _Answer(
        names=tuple(d.name for d in response.cdi_devices),
        mounts=tuple((m.container_path, m.host_path) for m in response.mounts),
        devices=tuple(d.container_path for d in response.devices),
    )


class CheckpointReader:
    """Reads the checkpoint in a folder, and reads it again only after the file changed.

    A kubelet that has never served a device has no file, which counts as an empty checkpoint. If the file can't be read
    or decoded, `read` raises and `last` keeps the last good state.
    """

    def __init__(self, folder: Path, resources: frozenset[str]) -> None:
        self.path = folder / CHECKPOINT
        self.last = Checkpoint()
        self._resources = resources
        self._seen: tuple[int, int, int] | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the file changed since it was last read."""
        try:
            return _stamp(self.path.stat()) != self._seen
        except OSError:
            return self._seen is not None

    def stamp(self) -> tuple[int, int, int] | None:
        """An identity of the file's current version; None if there is no file."""
        try:
            return _stamp(self.path.stat())
        except OSError:
            return None

    def read(self) -> Checkpoint:
        """The checkpoint as it is now.

        Raises:
            WireError: The file exists, but can't be read or has an unknown form.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self.last, self._seen = Checkpoint(), None
            return self.last
        except OSError as error:
            raise WireError(str(self.path), -1, f"can't be read: {error.strerror}") from error
        seen = _stamp(status)
        if seen != self._seen:
            self.last = decode(self._content(), resources=self._resources)
            self._seen = seen
        return self.last

    def beside(self, is_own: Callable[[Entry], bool]) -> tuple[Entry, ...]:
        """The entries of a container's other resources, as they are now, also those of other device plugins.

        Args:
            is_own: Says whether an entry of our resources is the container's. If none is, the result is empty.

        Raises:
            WireError: The file can't be read or has an unknown form.
        """
        if not self.path.exists():
            return ()
        data = self._content()
        own = next(filter(is_own, decode(data, resources=self._resources).entries), None)
        if own is None:
            return ()
        found = decode(data, container=(own.pod_uid, own.container)).entries
        return tuple(entry for entry in found if entry.resource != own.resource)

    def _content(self) -> bytes:
        try:
            return files.read(str(self.path), limit=LIMIT)
        except OSError as error:
            raise WireError(str(self.path), -1, f"can't be read: {error}") from error


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size
