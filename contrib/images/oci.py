"""OCI image archives. The same content gives the same bytes: times and owners are 0, entries are sorted."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from contrib.images.sbom import Component

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MEDIA: Final = "application/vnd.oci.image."
_CREATED: Final = "1970-01-01T00:00:00Z"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: bytes
    mode: int
    content: bytes | Path = b""
    target: str = ""


class Files:
    """Files of one layer. A later entry of the same name replaces an earlier one."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def names(self) -> list[str]:
        """Absolute paths of all entries, in order."""
        return [f"/{name}" for name in sorted(self._entries)]

    def folder(self, path: str, mode: int = 0o755) -> None:
        """Add a folder and its parents."""
        name = path.strip("/")
        for parent in reversed(PurePosixPath(name).parents):
            if str(parent) != ".":
                self._entries.setdefault(str(parent), _Entry(tarfile.DIRTYPE, 0o755))
        if name:
            self._entries[name] = _Entry(tarfile.DIRTYPE, mode)

    def file(self, path: str, content: bytes | str | Path, mode: int = 0o644) -> None:
        """Add a regular file with a content, or with the content of another file."""
        self._above(path)
        data = content.encode() if isinstance(content, str) else content
        self._entries[path.strip("/")] = _Entry(tarfile.REGTYPE, mode, data)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._above(path)
        self._entries[path.strip("/")] = _Entry(tarfile.SYMTYPE, 0o777, target=target)

    def tree(self, source: Path, at: str = "/", *, keep: Callable[[str], bool] = lambda _: True) -> None:
        """Add the content of a folder. Modes become 0755 or 0644, and set-id bits are dropped.

        Args:
            source: The folder.
            at: Its path in the image.
            keep: Says for each absolute path in the image whether to add it.
        """
        for path in sorted(source.rglob("*")):
            name = str(PurePosixPath(at) / path.relative_to(source).as_posix())
            if not keep(name):
                continue
            if path.is_symlink():
                self.link(name, str(path.readlink()))
            elif path.is_dir():
                self.folder(name)
            elif path.is_file():
                self.file(name, path, 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)

    def _above(self, path: str) -> None:
        parent = str(PurePosixPath(path.strip("/")).parent)
        if parent != "." and parent not in self._entries:
            self.folder(parent)

    def tar(self) -> bytes:
        """The layer, uncompressed."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, entry in sorted(self._entries.items()):
                info = tarfile.TarInfo(name)
                info.type, info.mode, info.linkname = entry.kind, entry.mode, entry.target
                data = entry.content.read_bytes() if isinstance(entry.content, Path) else entry.content
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Layer:
    """A finished layer on disk, and its components."""

    path: Path
    digest: str
    diff_id: str
    size: int
    components: tuple[Component, ...]

    @classmethod
    def write(cls, folder: Path, files: Files, components: Sequence[Component]) -> Layer:
        """Write a layer and its description into an empty folder."""
        raw = files.tar()
        packed = gzip.compress(raw, 6, mtime=0)
        path = folder / "layer.tar.gz"
        path.write_bytes(packed)
        layer = cls(path, digest(packed), digest(raw), len(packed), tuple(sorted(components)))
        described = {"digest": layer.digest, "diff_id": layer.diff_id, "size": layer.size}
        described["components"] = [c.as_dict() for c in layer.components]
        (folder / "layer.json").write_text(json.dumps(described, indent=1))
        return layer

    @classmethod
    def read(cls, folder: Path) -> Layer:
        """The layer that `write` left in a folder."""
        described = json.loads((folder / "layer.json").read_text())
        components = tuple(Component(**c) for c in described.pop("components"))
        return cls(folder / "layer.tar.gz", components=components, **described)


@dataclass(frozen=True, slots=True)
class Image:
    """One image.

    Attributes:
        names: All full names, such as ``localhost/hami/scheduler:dev``.
        layers: The layers, lowest first.
        entrypoint: Program and first arguments.
        cmd: Arguments if the container sets none.
        env: Variables in addition to PATH.
        user: ``uid:gid``. Both are numbers, so that Kubernetes can check ``runAsNonRoot``.
        labels: Labels.
    """

    names: tuple[str, ...]
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "0:0"
    labels: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> bytes:
        """The image's configuration."""
        return _json(
            {
                "created": _CREATED,
                "architecture": "amd64",
                "os": "linux",
                "config": {
                    "Env": [f"{k}={v}" for k, v in ({"PATH": PATH} | dict(self.env)).items()],
                    "Entrypoint": list(self.entrypoint),
                    "Cmd": list(self.cmd),
                    "User": self.user,
                    "WorkingDir": "/",
                    "Labels": dict(self.labels),
                },
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in self.layers]},
                "history": [{"created": _CREATED, "created_by": "contrib/images/build.py"} for _ in self.layers],
            }
        )

    def manifest(self) -> bytes:
        """The image's manifest."""
        config = self.config()
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}manifest.v1+json",
                "config": _descriptor("config.v1+json", digest(config), len(config)),
                "layers": [_descriptor("layer.v1.tar+gzip", x.digest, x.size) for x in self.layers],
            }
        )

    def digest(self) -> str:
        """The image's digest."""
        return digest(self.manifest())

    def write(self, archive: Path) -> None:
        """Write the image as an OCI archive. The file appears only once it is complete."""
        temporary = archive.with_name(f".{archive.name}.{os.getpid()}")
        with tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as out:
            for name, data in self._blobs(self.manifest()):
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o644
                out.addfile(info, io.BytesIO(data))
        temporary.replace(archive)

    def unpack(self, into: Path) -> None:
        """Unpack the image's files into a folder, upper layers over lower ones."""
        for layer in self.layers:
            with tarfile.open(layer.path) as archive:
                # Python has filters since 3.11.4. The layers are ours, so older versions may do without.
                archive.extraction_filter = getattr(tarfile, "tar_filter", None)
                archive.extractall(into)  # noqa: S202

    def _blobs(self, manifest: bytes) -> Iterator[tuple[str, bytes]]:
        yield "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
        described = _descriptor("manifest.v1+json", digest(manifest), len(manifest))
        described["platform"] = {"architecture": "amd64", "os": "linux"}
        entries = [described | {"annotations": _annotations(name)} for name in self.names]
        yield "index.json", _json({"schemaVersion": 2, "mediaType": f"{_MEDIA}index.v1+json", "manifests": entries})
        blobs = {digest(data): data for data in (self.config(), manifest)}
        blobs |= {layer.digest: layer.path.read_bytes() for layer in self.layers}
        for name in sorted(blobs):
            yield f"blobs/sha256/{name.removeprefix('sha256:')}", blobs[name]


def digest(data: bytes) -> str:
    """Digest of a content in OCI's form."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _annotations(name: str) -> dict[str, str]:
    # containerd reads the first annotation, podman and skopeo the second.
    return {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}


def _descriptor(kind: str, of: str, size: int) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}{kind}", "digest": of, "size": size}


def _json(content: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
