"""What this node has promised to each container: one folder a container, the truth after any crash.

``record.json`` says who the container is and what it holds; ``limits/`` is mounted read-only, ``region/``
read-write, and the empty file ``mark`` read-only (`hami_core.agent.cdi_check`). They are written in that order and the
CDI spec comes last: a spec without its record cannot exist. The record is synced before anything else is done; it says
everything needed to write the rest again without the API server, which is what happens after each boot, so the rest
need not outlive a loss of power.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from hami_core.agent import files
from hami_core.agent.serial import SerialFolders
from hami_core.model import ContainerKind, ContainerRef, ContainerSlices, Mount, Slice
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
    """One container's promise.

    Attributes:
        version: Of this form.
        name: CDI name; in `serial` mode the random part of the folder that Allocate mounted.
        vendor: Entry-point name of the vendor.
        resource: Extended resource.
        pod_uid: Pod.
        namespace: Its namespace.
        pod: Its name.
        container: Container.
        kind: Its lifetime.
        slot_ids: Slots the kubelet gave.
        slices: What the container holds of this vendor.
        pod_slices: What all containers of its pod hold, for judging who fits beside.
        epoch: Epoch of the leader that signed; 0 when unsigned.
        signature: The signature as found on the pod.
        boot_id: Boot under which the spec was written.
        whole: Every slice is a whole device.
        limits: Resource limits of the container.
        annotations: Declared pod annotations.
        created: Unix seconds.
        gone: The pod is gone from API and checkpoint: only `release` and deletion are left.
        serial: Given in `serial` mode: limits and region lie where Allocate mounted them from, there is no spec.
        marked: The spec mounts the record's mark. Agents that knew no mark left this out.
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
    version: int = VERSION

    @property
    def id(self) -> str:
        """Name of the record's folder."""
        return f"{self.pod_uid}_{self.container}_{self.name[:8]}"

    @property
    def ref(self) -> ContainerRef:
        """The container as `allocate` sees it."""
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
    """The folder of records. Synchronous: callers run it in a worker thread where latency matters."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "containers"
        self.serial = SerialFolders(state_dir)
        self.problems: dict[str, str] = {}
        """Folder name → what is wrong with it, as of the last `load`."""

    def prepare(self) -> None:
        """Make the folder (0755, its parents as needed)."""
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)

    def load(self) -> dict[str, Record]:
        """All records by CDI name.

        Folders without a record are left-overs of a crash and removed; a record that cannot be understood is kept
        aside and listed in `problems`.
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
            self._problem(folder_name, f"its record says {record.id}")
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
        """Write the limits files into the folder the container sees read-only."""
        with self._home(record) as inside:
            files.make_folder(LIMITS, 0o755, inside=inside, durable=False)
            with files.folder(LIMITS, inside=inside) as folder:
                for name, data in limits.items():
                    files.write(_checked(name), data, 0o644, inside=folder, durable=False)

    def write_region(self, record: Record, region: Mapping[str, bytes], *, after_reboot: bool) -> None:
        """Make the region files (0666: any user of the container writes them).

        Args:
            record: Whose.
            region: Name → first content.
            after_reboot: Replace those that exist, after a reboot; else a file of the right size stays as it is, since
                processes may have it mapped.
        """
        with self._home(record) as inside:
            files.make_folder(REGION, 0o755, inside=inside, durable=False)
            with files.folder(REGION, inside=inside) as folder:
                for name, data in region.items():
                    if after_reboot or not files.is_regular(_checked(name), len(data), inside=folder):
                        files.write(name, data, 0o666, inside=folder, durable=False)

    def write_mark(self, record: Record) -> None:
        """Write the empty file that a container with a CDI spec has mounted."""
        with self._home(record) as inside:
            files.write(MARK, b"", 0o444, inside=inside, durable=False)

    @contextlib.contextmanager
    def _home(self, record: Record) -> Iterator[int]:
        """The open folder that limits and region lie in."""
        parent, name = (self.serial.path, record.name) if record.serial else (self.path, record.id)
        with files.folder(parent) as fd, files.folder(name, inside=fd) as inside:
            yield inside

    def remove(self, record_id: str) -> None:
        """Remove a record with everything in its folder."""
        if not _ID.fullmatch(record_id):
            raise ValueError(f"{record_id!r} is not the name of a record")
        with files.folder(self.path) as fd:
            files.remove_tree(record_id, inside=fd)

    def mounts(self, record: Record, edits: ContainerEdits) -> tuple[Mount, ...]:
        """The record's own mounts, as the container is to see them."""
        found: list[Mount] = []
        if edits.limits_path:
            found.append(Mount(str(self.path / record.id / LIMITS), edits.limits_path))
        if edits.region_path:
            found.append(Mount(str(self.region_dir(record)), edits.region_path, read_only=False))
        if record.marked:
            found.append(Mount(str(self.path / record.id / MARK), f"{env.MARKS_DIR}/{record.resource}"))
        return tuple(found)

    def expected_mount(self, record: Record) -> str:
        """End of the host path that a container of this record must have mounted; empty: it need not have any.

        An agent that knew no mark mounted the limits folder alone, and that only where the vendor has one.
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
        raise ValueError(f"{name!r} can't be a file in a container's record")
    return name
