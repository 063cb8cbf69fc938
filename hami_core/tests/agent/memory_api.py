"""A Kubernetes API in memory: what the agent reads and writes, with watches; behind the same Protocol."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from hami_core.kube.port import ApiError, Page, Resource, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from hami_core.kube.patch import Patch


class MemoryApi:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.log: list[tuple[str, str, str]] = []
        self._version = itertools.count(1)
        self._watchers: list[tuple[str, asyncio.Queue]] = []
        self.down = False

    # the test's side

    def put(self, resource: Resource, body: Mapping[str, Any]) -> None:
        meta = body["metadata"]
        key = (resource.plural, meta.get("namespace", ""), meta["name"])
        known = key in self.objects
        stored = {**body, "metadata": {**meta, "resourceVersion": str(next(self._version))}}
        self.objects[key] = stored
        self._send(resource.plural, "MODIFIED" if known else "ADDED", stored)

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        stored = self.objects.pop((resource.plural, namespace, name))
        self._send(resource.plural, "DELETED", stored)

    def _send(self, plural: str, kind: str, body: Mapping[str, Any]) -> None:
        for wanted, queue in self._watchers:
            if wanted == plural:
                queue.put_nowait((kind, body))

    def _check(self, verb: str) -> None:
        self.log.append((verb, "", ""))
        if self.down:
            raise ApiError(verb, 0, "connection refused", reason="Unreachable")

    # the Protocol

    async def list(self, resource: Resource, **_: Any) -> Page:
        self._check(f"list {resource.plural}")
        items = tuple(msgspec.convert(o, resource.type) for k, o in self.objects.items() if k[0] == resource.plural)
        return Page(items, str(next(self._version)))

    async def watch(self, resource: Resource, *, resource_version: str, **_: Any) -> AsyncGenerator[WatchEvent, None]:
        self._check(f"watch {resource.plural}")
        queue: asyncio.Queue = asyncio.Queue()
        mark = (resource.plural, queue)
        self._watchers.append(mark)
        for key, body in list(self.objects.items()):
            if key[0] == resource.plural and int(body["metadata"]["resourceVersion"]) > int(resource_version):
                queue.put_nowait(("MODIFIED", body))
        try:
            while True:
                kind, body = await queue.get()
                yield WatchEvent(kind, msgspec.convert(body, resource.type), body["metadata"]["resourceVersion"])
        finally:
            self._watchers.remove(mark)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        self._check(f"get {resource.plural}")
        body = self.objects.get((resource.plural, namespace, name))
        if body is None:
            raise ApiError(f"get {resource.plural} {name}", 404, "not found", reason="NotFound")
        return msgspec.convert(body, resource.type)

    async def create(self, resource: Resource, body: Any, namespace: str = "") -> Any:
        self._check(f"create {resource.plural}")
        raw = body if isinstance(body, dict) else msgspec.to_builtins(body)
        raw["metadata"].setdefault("namespace", namespace)
        if (resource.plural, namespace, raw["metadata"]["name"]) in self.objects:
            raise ApiError(f"create {resource.plural}", 409, "exists", reason="AlreadyExists")
        self.put(resource, raw)
        return msgspec.convert(raw, resource.type)

    async def patch(
        self, resource: Resource, name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> Any:
        self._check(f"patch {resource.plural}")
        body = self.objects.get((resource.plural, namespace, name))
        if body is None:
            raise ApiError(f"patch {resource.plural} {name}", 404, "not found", reason="NotFound")
        wanted = patch.body.get("metadata", {}).get("uid")
        if wanted and wanted != body["metadata"].get("uid"):
            raise ApiError(f"patch {resource.plural} {name}", 409, "uid", reason="Conflict")
        version = patch.body.get("metadata", {}).get("resourceVersion")
        if version and version != body["metadata"]["resourceVersion"]:
            raise ApiError(f"patch {resource.plural} {name}", 409, "resourceVersion", reason="Conflict")
        self.put(resource, _merged(body, patch.body))
        return msgspec.convert(self.objects[resource.plural, namespace, name], resource.type)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", grace_period_s: int | None = None
    ) -> None:
        self._check(f"delete {resource.plural}")
        body = self.objects.get((resource.plural, namespace, name))
        if body is None:
            raise ApiError(f"delete {resource.plural} {name}", 404, "not found", reason="NotFound")
        if uid and uid != body["metadata"]["uid"]:
            raise ApiError(f"delete {resource.plural} {name}", 409, "uid", reason="Conflict")
        self.drop(resource, name, namespace)

    async def bind(self, binding: Any, may_send: Any = None) -> None:
        raise NotImplementedError

    async def server_version(self) -> Mapping[str, str]:
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, dict):
        return new
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
