"""A small scripted API server for these tests: real HTTP, real versions, faults where a test puts them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Fault:
    """What happens to one request: an answer in place of the real one, or after it (``commit``)."""

    status: int = 0
    message: str = "injected fault"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    commit: bool = False
    """Do the work first, then lose the answer."""
    late: bool = False
    """Do the work after the delay, then answer."""


class ApiServer:
    """Objects by (group/version, plural) and key, a version counter, a change log for watches."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 1
        self.compacted = 0
        self.changed = asyncio.Condition()
        self.faults: list[Callable[[str, str], Fault | None]] = []
        self.requests: list[tuple[str, str, Any]] = []
        self.generation = 0
        self.copies_labels = True
        self.minor = "36"
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_watches()
        await self._runner.cleanup()

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "t", "cluster": {"server": self.url}}],
                    "users": [{"name": "t", "user": {"token": "secret-token"}}],
                    "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
                    "current-context": "t",
                }
            )
        )
        return path

    # --- what tests do directly

    async def put(self, plural: str, obj: dict[str, Any], kind: str = "") -> dict[str, Any]:
        store = self.objects.setdefault(plural, {})
        meta = obj.setdefault("metadata", {})
        key = _key(meta)
        kind = kind or ("MODIFIED" if key in store else "ADDED")
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        meta.setdefault("uid", f"uid-{key}")
        store[key] = obj
        await self._note(plural, kind, obj)
        return obj

    async def remove(self, plural: str, key: str) -> None:
        obj = self.objects[plural].pop(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        await self._note(plural, "DELETED", obj)

    async def end_watches(self) -> None:
        self.generation += 1
        async with self.changed:
            self.changed.notify_all()

    def compact(self) -> None:
        self.version += 1
        self.compacted = self.version

    async def _note(self, plural: str, kind: str, obj: dict[str, Any]) -> None:
        self.log.append((self.version, plural, kind, json.loads(json.dumps(obj))))
        async with self.changed:
            self.changed.notify_all()

    # --- HTTP

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        decoded = json.loads(body) if body else None
        self.requests.append((request.method, request.path, decoded))
        assert request.headers.get("authorization") == "Bearer secret-token"
        fault = next((f for f in (check(request.method, request.path_qs) for check in self.faults) if f), None)
        if fault is None:
            return await self._answer(request, decoded)
        if fault.late:
            await asyncio.sleep(fault.delay_s)
            return await self._answer(request, decoded)
        if fault.commit:
            await self._answer(request, decoded)
        await asyncio.sleep(fault.delay_s)
        if fault.drop:
            assert request.transport is not None
            request.transport.close()
        return _refusal(fault.status or 500, "Injected", fault.message, fault.headers)

    async def _answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if parts == ["version"]:
            return web.json_response({"major": "1", "minor": self.minor, "gitVersion": f"v1.{self.minor}.0"})
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name, sub = (*parts, "", "")[:3]
        if request.method == "GET" and not name:
            if request.query.get("watch"):
                return await self._watch(request, plural, namespace)
            return self._list(request, plural, namespace)
        if request.method == "POST" and not sub:
            return await self._create(plural, namespace, body)
        key = f"{namespace}/{name}" if namespace else name
        found = self.objects.get(plural, {}).get(key)
        if found is None:
            return _refusal(404, "NotFound", f'{plural} "{name}" not found')
        if sub == "binding":
            return await self._bind(found, body)
        if request.method == "PATCH":
            return await self._patch(plural, found, body)
        if request.method == "DELETE":
            uid = (body or {}).get("preconditions", {}).get("uid")
            if uid and uid != found["metadata"]["uid"]:
                return _refusal(409, "Conflict", "Precondition failed: UID in precondition")
            await self.remove(plural, key)
        return web.json_response(found)

    def _selected(self, request: web.Request, plural: str, namespace: str, obj: dict[str, Any]) -> bool:
        meta = obj["metadata"]
        if namespace and meta.get("namespace") != namespace:
            return False
        selector = request.query.get("fieldSelector", "")
        for term in filter(None, selector.split(",")):
            path, _, wanted = term.partition("=")
            value: Any = obj
            for step in path.split("."):
                value = value.get(step, "")
            if value != wanted:
                return False
        return True

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        items = [o for o in self.objects.get(plural, {}).values() if self._selected(request, plural, namespace, o)]
        limit, start = int(request.query.get("limit", 0) or 0), int(request.query.get("continue", 0) or 0)
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if limit and start + limit < len(items):
            meta["continue"] = str(start + limit)
        page = items[start : start + limit] if limit else items
        return web.json_response({"kind": "List", "metadata": meta, "items": page or None})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        after, generation = int(request.query["resourceVersion"]), self.generation
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if after < self.compacted:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return response
        sent = 0
        while generation == self.generation:
            for version, kind_of, event, obj in self.log[sent:]:
                sent += 1
                if version > after and kind_of == plural and self._selected(request, plural, namespace, obj):
                    await response.write(json.dumps({"type": event, "object": obj}).encode() + b"\n")
            async with self.changed:
                if sent == len(self.log) and generation == self.generation:
                    await self.changed.wait()
        return response

    async def _create(self, plural: str, namespace: str, body: dict[str, Any]) -> web.Response:
        if namespace:
            body["metadata"]["namespace"] = namespace
        if _key(body["metadata"]) in self.objects.get(plural, {}):
            return _refusal(409, "AlreadyExists", "already exists")
        return web.json_response(await self.put(plural, body), status=201)

    async def _patch(self, plural: str, found: dict[str, Any], body: Any) -> web.Response:
        meta = body.get("metadata", {})
        if meta.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            return _refusal(422, "Invalid", f'metadata.uid: Invalid value: "{meta["uid"]}": field is immutable')
        version = found["metadata"]["resourceVersion"]
        if meta.get("resourceVersion", version) != version:
            return _refusal(409, "Conflict", "the object has been modified: resourceVersion")
        merged = _merge(found, body)
        return web.json_response(await self.put(plural, merged))

    async def _bind(self, pod: dict[str, Any], body: dict[str, Any]) -> web.Response:
        meta = body["metadata"]
        if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
            return _refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if pod["spec"].get("nodeName"):
            return _refusal(409, "Conflict", f"pod is already assigned to node {pod['spec']['nodeName']!r}")
        pod = json.loads(json.dumps(pod))
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(meta.get("annotations", {}))
        if self.copies_labels:
            pod["metadata"].setdefault("labels", {}).update(meta.get("labels", {}))
        await self.put("pods", pod)
        return web.json_response({"kind": "Status", "status": "Success", "code": 201}, status=201)


def _key(meta: dict[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _refusal(status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return web.json_response(body, status=status, headers=headers)


def pod(name: str, *, namespace: str = "default", uid: str = "", **fields: Any) -> dict[str, Any]:
    """A pod manifest with one container."""
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    meta.update(fields.pop("metadata", {}))
    spec = {"containers": [{"name": "c", "image": "i"}], **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}, **fields}
