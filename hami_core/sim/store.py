"""All objects, their history, and the journal that survives the process.

Objects are never changed in place: each write replaces one and appends an event. The journal is a file of JSON lines.
A line is written before the client gets its answer, so a killed process loses no answered write. The journal is not
synced to disk: the page cache survives the process, and power cuts do not matter here.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import orjson

from hami_core.sim.resources import BY_PATH, ApiError, Object, Resource

if TYPE_CHECKING:
    from pathlib import Path

Key = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""

_COMPACT_BYTES = 64 << 20
"""The journal is rewritten once it is longer than this, and twice as long as it was after the last time."""


@dataclass(frozen=True, slots=True)
class Event:
    """One write (``ADDED``, ``MODIFIED`` or ``DELETED``) and the object before it."""

    version: int
    type: str
    resource: Resource
    obj: Object
    before: Object | None


class Store:
    """Objects by resource and key.

    Args:
        path: Journal file; created if it does not exist.
        window: Number of events kept for watches. A watch that needs older ones gets 410.
    """

    def __init__(self, path: Path, window: int = 20_000) -> None:
        self._path = path
        self._window = window
        self._objects: dict[Resource, dict[Key, Object]] = {r: {} for r in BY_PATH.values()}
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self.version = 1
        self.floor = 1
        """Watches from a version below this one get 410."""
        snapshot = self._load()
        self._journal: BinaryIO = path.open("ab", buffering=0)
        self._compact_at = max(_COMPACT_BYTES, 2 * snapshot)

    def _load(self) -> int:
        """Replays the journal: a snapshot up to a line with only a version, events after it.

        Returns the size of the snapshot in bytes.
        """
        good = snapshot = 0
        for line in self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else ():
            if not line.endswith(b"\n"):
                os.truncate(self._path, good)  # the process died while writing, so no client got an answer
                break
            good += len(line)
            record = orjson.loads(line)
            self.version = max(self.version, record["version"])
            if "object" not in record:
                self.floor = self.version
                self._events.clear()
                snapshot = good
                continue
            resource, obj = BY_PATH[tuple(record["resource"])], record["object"]
            meta = obj["metadata"]
            before = self.get(resource, meta.get("namespace", ""), meta["name"])
            self._put(resource, record["type"], obj)
            self._events.append(Event(record["version"], record["type"], resource, obj, before))
        return snapshot

    def _compact(self) -> BinaryIO:
        """Rewrites the journal as a snapshot of the objects, and opens it for appending."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as out:
            for resource, objects in self._objects.items():
                for obj in objects.values():
                    out.write(self._line(int(obj["metadata"]["resourceVersion"]), "ADDED", resource, obj))
            out.write(orjson.dumps({"version": self.version}) + b"\n")
        fresh.replace(self._path)
        return self._path.open("ab", buffering=0)

    @staticmethod
    def _line(version: int, kind: str, resource: Resource, obj: Object) -> bytes:
        path = (resource.group, resource.version, resource.plural)
        return orjson.dumps({"version": version, "type": kind, "resource": path, "object": obj}) + b"\n"

    def _put(self, resource: Resource, kind: str, obj: Object) -> None:
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if kind == "DELETED":
            self._objects[resource].pop(key, None)
        else:
            self._objects[resource][key] = obj

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object. The caller must not change it."""
        return self._objects[resource].get((namespace if resource.namespaced else "", name))

    def all(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Objects sorted by namespace and name; those of all namespaces if none is given."""
        objects = self._objects[resource]
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def write(self, resource: Resource, kind: str, obj: Object, before: Object | None) -> Object:
        """Commits one write and returns the object with its new version."""
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._journal.write(self._line(self.version, kind, resource, obj))
        self._put(resource, kind, obj)
        self._events.append(Event(self.version, kind, resource, obj, before))
        if len(self._events) > 2 * self._window:
            self.forget(keep=self._window)
        if self._journal.tell() > self._compact_at:
            self._journal.close()
            self._journal = self._compact()
            self._compact_at = max(_COMPACT_BYTES, 2 * self._journal.tell())
        self._changed.set()
        self._changed = asyncio.Event()
        return obj

    def forget(self, keep: int = 0) -> None:
        """Drops all events except the last ones, as etcd's compaction does."""
        drop = len(self._events) - keep
        if drop > 0:
            self.floor = self._events[drop - 1].version
            del self._events[:drop]
        self.floor = max(self.floor, self.version if keep == 0 else self.floor)

    def since(self, version: int) -> list[Event]:
        """Events after a version.

        Raises:
            ApiError: 410 if some of them have been dropped.
        """
        if version < self.floor:
            raise ApiError(410, "Expired", f"too old resource version: {version} ({self.floor})")
        return self._events[bisect_right(self._events, version, key=lambda e: e.version) :]

    async def changed(self, after: int) -> None:
        """Waits until the store's version is above the given one."""
        while self.version <= after:
            await self._changed.wait()

    def close(self) -> None:
        """Closes the journal."""
        self._journal.close()
