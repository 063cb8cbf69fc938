"""CDI specs: one file for each container, under a name that nobody can guess.

A container starts only if the runtime can resolve the CDI name that Allocate answered. The file that defines the name
is therefore the barrier. A spec says what one container gets, and does not change until the next boot.
"""

from __future__ import annotations

import re
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from hami_core.agent import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hami_core.model import ContainerEdits, Mount

VERSION: Final = "0.6.0"
"""Version of the CDI specification that the files declare (``hostPath`` of device nodes needs 0.5)."""
_LIMIT: Final = 1 << 20
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_FILE: Final = re.compile(r"hami-([0-9a-f]{32})\.json")
_DOMAIN: Final = ".hami.io/"
_SLOT: Final = "slot"
_TAGS: Final = re.compile(r"[^a-z0-9-]+")


def kind_of(vendor: str, class_: str = _SLOT) -> str:
    """The CDI kind of a vendor's slots, such as ``nvidia.hami.io/slot``."""
    return f"{_TAGS.sub('-', vendor.lower()).strip('-') or 'vendor'}{_DOMAIN}{class_}"


def fresh_name() -> str:
    """A name that was never given before: 128 random bits in hexadecimal."""
    return secrets.token_hex(16)


def qualified(kind: str, name: str) -> str:
    """The fully qualified name, as Allocate answers it."""
    return f"{kind}={name}"


@lru_cache(maxsize=4096)
def own_name(kind: str, names: tuple[str, ...]) -> str | None:
    """The fresh name among the CDI names of an answer; None unless there is exactly one."""
    prefix = kind + "="
    own = [n[len(prefix) :] for n in names if n.startswith(prefix)]
    return own[0] if len(own) == 1 and _NAME.fullmatch(own[0]) else None


def names_in(qualified_names: Sequence[str]) -> list[str]:
    """The fresh names, of any of our agents, among qualified CDI names."""
    parts = (q.rpartition("=") for q in qualified_names)
    return [name for kind, _, name in parts if kind.endswith(_DOMAIN + _SLOT) and _NAME.fullmatch(name)]


def file_name(name: str) -> str:
    """The file that defines a name."""
    return f"hami-{name}.json"


def spec(kind: str, name: str, edits: ContainerEdits, mounts: Sequence[Mount]) -> bytes:
    """The spec of one container.

    Args:
        kind: CDI kind.
        name: CDI device name.
        edits: What the vendor asked for.
        mounts: The record's own mounts (limits, region and mark). They come before the vendor's.
    """
    body: dict[str, Any] = {}
    if edits.env:
        body["env"] = [f"{key}={value}" for key, value in edits.env.items()]
    if edits.device_nodes:
        body["deviceNodes"] = [
            {"path": n.path, "permissions": n.permissions}
            | ({"hostPath": n.host_path} if n.host_path else {})
            | ({"type": "c", "major": n.major, "minor": n.minor} if n.major else {})
            for n in edits.device_nodes
        ]
    if mounts or edits.mounts:
        body["mounts"] = [_mount(m) for m in (*mounts, *edits.mounts)]
    if edits.hooks:
        body["hooks"] = [
            {"hookName": h.name, "path": h.path}
            | ({"args": list(h.args)} if h.args else {})
            | ({"env": list(h.env)} if h.env else {})
            for h in edits.hooks
        ]
    whole = {"cdiVersion": VERSION, "kind": kind, "devices": [{"name": name, "containerEdits": body}]}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _mount(mount: Mount) -> dict[str, Any]:
    access = "ro" if mount.read_only else "rw"
    options = [access, "nosuid", "nodev", "rbind", "rprivate"]
    return {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": options}


class SpecFolder:
    """The folder from which the runtime reads CDI specs. Only files with our form of name are touched."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> frozenset[str]:
        """CDI names that have a spec."""
        try:
            with files.folder(self.path) as fd:
                found = [_FILE.fullmatch(name) for name in files.names(inside=fd)]
        except FileNotFoundError:
            return frozenset()
        return frozenset(match.group(1) for match in found if match)

    def names_of(self, kind: str, known: frozenset[str] = frozenset()) -> frozenset[str]:
        """CDI names of one kind that have a spec, without those in ``known``, whose files are not opened."""
        found = []
        for name in self.names() - known:
            try:
                with files.folder(self.path) as fd:
                    content = orjson.loads(files.read(file_name(name), inside=fd, limit=_LIMIT))
            except (OSError, ValueError):
                continue
            if isinstance(content, dict) and content.get("kind") == kind:
                found.append(name)
        return frozenset(found)

    def mounts(self, name: str) -> dict[str, str]:
        """Container path → host path of what a spec mounts; empty if there is no spec.

        Raises:
            OSError: The file can't be read.
            ValueError: It is no spec of our form.
        """
        try:
            with files.folder(self.path) as fd:
                content = orjson.loads(files.read(file_name(name), inside=fd, limit=_LIMIT))
        except FileNotFoundError:
            return {}
        try:
            [device] = content["devices"]
            return {m["containerPath"]: m["hostPath"] for m in device["containerEdits"].get("mounts", ())}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"CDI spec {file_name(name)} has an unknown form: {error!r}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a spec. Makes the folder if needed, since a reboot empties ``/var/run``."""
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        with files.folder(self.path) as fd:
            files.write(file_name(name), data, 0o644, inside=fd, durable=False)

    def remove(self, name: str) -> None:
        """Remove a spec. No container can start with the name any more."""
        try:
            with files.folder(self.path) as fd:
                files.remove(file_name(name), inside=fd)
        except FileNotFoundError:
            return
