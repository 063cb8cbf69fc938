"""The agent's records: one folder for each container, from which everything else can be rebuilt after a crash.

``record.json`` says who the container is and what it holds. ``limits/`` is mounted read-only, ``region/`` read-write,
and the empty file ``mark`` read-only (`hami_core.agent.cdi_check`). The record is written and synced first, and the CDI
spec is written last, so a spec without its record can't exist. The record has everything to write the other files again
without the API server. That happens after each boot, so the other files need not survive a loss of power.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from hami_core.agent import files
from hami_core.agent.serial import SerialFolders
from hami_core.model import ContainerKind, ContainerRef, ContainerSlices, MigInstance, Mount, Slice
from hami_core.wire import env

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hami_core.model import ContainerEdits

log = structlog.get_logger(__name__)

VERSION: Final = 1
RECORD: Final = "record.json"
LIMITS: Final = "limits"
REGION: Final = "region"
MARK: Final = "mark"
_LIMIT: Final = 1 << 20
_ID: Final = re.compile(r"(?P<uid>[^_/]+)_(?P<container>[^_/]+)_(?P<name>[0-9a-f]{8})")
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What one container is and what it holds of one resource.

    Attributes:
        version: Version of this form.
        name: Fresh CDI name; in `serial` mode the random part of the path that Allocate mounted.
        vendor: Entry-point name of the vendor.
        resource: Extended resource.
        pod_uid: UID of the pod.
        namespace: Namespace of the pod.
        pod: Name of the pod.
        container: Name of the container.
        kind: Kind of the container: init, sidecar or app.
        slot_ids: Slot ids that the kubelet gave.
        slices: The container's slices of this resource.
        pod_slices: The slices of all containers of the pod, to check whether another pod fits beside it.
        epoch: Epoch of the leader that signed the allocation; 0 if unsigned.
        signature: The signature as found on the pod.
        boot_id: Boot in which the spec was written.
        whole: Every slice is a whole device.
        limits: Resource requests and limits of the container; a limit replaces the request of its resource.
        annotations: The pod annotations that the vendor declares.
        created: Unix seconds.
        gone: The pod is gone from API server and checkpoint. Only `release` and deletion are left to do.
        serial: Given in `serial` mode. Limits and region are in the folder that Allocate mounted; there is no spec.
        mig_instances: The MIG instances that the vendor made for the container.
        marked: The spec mounts the record's mark. Older agents, which made no marks, left this field out.
    """

    name: str
    vendor: str
    resource: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    kind: ContainerKind
    slot_ids: tuple[str, ...]
    slices: tuple[Slice, ...]
    pod_slices: tuple[ContainerSlices, ...]
    epoch: int = 0
    signature: str = ""
    boot_id: str = ""
    whole: bool = False
    limits: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created: float = 0.0
    gone: bool = False
    serial: bool = False
    marked: bool = False
    mig_instances: tuple[MigInstance, ...] = ()
    version: int = VERSION

    @property
    def id(self) -> str:
        """Name of the record's folder."""
        return f"{self.pod_uid}_{self.container}_{self.name[:8]}"

    @property
    def ref(self) -> ContainerRef:
        """The container as the hook `allocate` receives it."""
        return ContainerRef(
            pod_uid=self.pod_uid,
            namespace=self.namespace,
            pod=self.pod,
            container=self.container,
            kind=self.kind,
            limits=self.limits,
            annotations=self.annotations,
            whole_devices=self.whole,
        )


_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(Record)


class RecordStore:
    """The folder of records. All calls block; callers use a worker thread where latency matters."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "containers"
        self.serial = SerialFolders(state_dir)
        self.problems: dict[str, str] = {}
        """Problem of each folder that can't be used, by folder name, as of the last `load`."""

    def prepare(self) -> None:
        """Make the folder (0755, its parents as needed)."""
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)

    def load(self) -> dict[str, Record]:
        """All records by CDI name.

        A folder without a record is left over from a crash and is removed. A record that can't be decoded stays on disk
        and is listed in `problems`.
        """
        self.prepare()
        self.problems = {}
        records: dict[str, Record] = {}
        with files.folder(self.path) as fd:
            for folder_name in files.names(inside=fd):
                record = self._load_one(folder_name, fd)
                if record:
                    records[record.name] = record
        return records

    def _load_one(self, folder_name: str, fd: int) -> Record | None:
        try:
            with files.folder(folder_name, inside=fd) as inside:
                record = _decoder.decode(files.read(RECORD, inside=inside, limit=_LIMIT))
        except FileNotFoundError:
            files.remove_tree(folder_name, inside=fd)
            return None
        except (OSError, msgspec.DecodeError) as error:
            self._problem(folder_name, str(error))
            return None
        if record.version != VERSION:
            self._problem(folder_name, f"version {record.version}, this agent knows {VERSION}")
            return None
        if record.id != folder_name:
            self._problem(folder_name, f"its record belongs to {record.id}")
            return None
        return record

    def _problem(self, folder_name: str, problem: str) -> None:
        self.problems[folder_name] = problem
        log.error("a container's record can't be used", record=folder_name, problem=problem)

    def write(self, record: Record) -> None:
        """Write ``record.json``, the first of a container's files."""
        if not _ID.fullmatch(record.id):
            raise ValueError(f"{record.id!r} can't be the name of a record")
        with files.folder(self.path) as fd:
            files.make_folder(record.id, 0o755, inside=fd)
            with files.folder(record.id, inside=fd) as inside:
                files.write(RECORD, _encode(record), 0o600, inside=inside)

    def write_limits(self, record: Record, limits: Mapping[str, bytes]) -> None:
        """Write the limits files into the folder that the container sees read-only."""
        with self._home(record) as inside:
            files.make_folder(LIMITS, 0o755, inside=inside, durable=False)
            with files.folder(LIMITS, inside=inside) as folder:
                for name, data in limits.items():
                    files.write(_checked(name), data, 0o644, inside=folder, durable=False)

    def write_region(self, record: Record, region: Mapping[str, bytes], *, after_reboot: bool) -> None:
        """Make the region files, with mode 0666 since any user in the container writes them.

        Args:
            record: The container's record.
            region: First content of each file by name.
            after_reboot: Replace existing files. Otherwise an existing file of the right size stays, since processes
                may have it mapped.
        """
        with self._home(record) as inside:
            files.make_folder(REGION, 0o755, inside=inside, durable=False)
            with files.folder(REGION, inside=inside) as folder:
                for name, data in region.items():
                    if after_reboot or not files.is_regular(_checked(name), len(data), inside=folder):
                        files.write(name, data, 0o666, inside=folder, durable=False)

    def write_mark(self, record: Record) -> None:
        """Write the empty file that the CDI spec mounts."""
        with self._home(record) as inside:
            files.write(MARK, b"", 0o444, inside=inside, durable=False)

    @contextlib.contextmanager
    def _home(self, record: Record) -> Iterator[int]:
        """Open the folder that holds limits and region."""
        parent, name = (self.serial.path, record.name) if record.serial else (self.path, record.id)
        with files.folder(parent) as fd, files.folder(name, inside=fd) as inside:
            yield inside

    def remove(self, record_id: str) -> None:
        """Remove a record and its folder."""
        if not _ID.fullmatch(record_id):
            raise ValueError(f"{record_id!r} is not the name of a record")
        with files.folder(self.path) as fd:
            files.remove_tree(record_id, inside=fd)

    def mounts(self, record: Record, edits: ContainerEdits) -> tuple[Mount, ...]:
        """The mounts of limits, region and mark for the container."""
        found: list[Mount] = []
        if edits.limits_path:
            found.append(Mount(str(self.path / record.id / LIMITS), edits.limits_path))
        if edits.region_path:
            found.append(Mount(str(self.region_dir(record)), edits.region_path, read_only=False))
        if record.marked:
            found.append(Mount(str(self.path / record.id / MARK), f"{env.MARKS_DIR}/{record.resource}"))
        return tuple(found)

    def shared(self, record: Record) -> tuple[Path, ...]:
        """The files and folders of a record that its container mounts. Some of them need not exist."""
        home = self.serial.path / record.name if record.serial else self.path / record.id
        return home / LIMITS, home / REGION, home / MARK

    def expected_mount(self, record: Record) -> str:
        """End of the host path that this record's container must have mounted; empty if it needs no mount.

        Older agents made no marks. They mounted only the limits folder, and only if the vendor has limits.
        """
        if record.serial:
            return f"/{record.name}/{LIMITS}"
        if record.marked:
            return f"/{record.id}/{MARK}"
        return f"/{record.id}/{LIMITS}" if (self.path / record.id / LIMITS).is_dir() else ""

    def region_dir(self, record: Record) -> Path:
        """The host folder of a container's region."""
        return (self.serial.path / record.name if record.serial else self.path / record.id) / REGION


def _checked(name: str) -> str:
    if not _FILE.fullmatch(name):
        raise ValueError(f"{name!r} can't be the name of a file in a container's record")
    return name
