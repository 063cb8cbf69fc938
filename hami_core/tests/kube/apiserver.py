"""The embedded API server (`hami_core.sim.apiserver`) in these tests' process: faults by a function, and a back door.

Tests put and remove objects without validation, look at what is stored, and see every request.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson
from aiohttp import web

from hami_core.sim import apiserver
from hami_core.sim.resources import RESOURCES, Object, Resource
from hami_core.sim.store import Store
from hami_core.tests.kube.direct import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BY_PLURAL = {resource.plural: resource for resource in RESOURCES}


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


class Stored(MutableMapping[str, Object]):
    """Stored objects of one resource by ``namespace/name``; what a test changes here no watch tells."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._objects = store._objects[resource]

    def __getitem__(self, key: str) -> Object:
        return self._objects[_split(key)]

    def __setitem__(self, key: str, obj: Object) -> None:
        self._objects[_split(key)] = obj

    def __delitem__(self, key: str) -> None:
        del self._objects[_split(key)]

    def __iter__(self) -> Iterator[str]:
        return iter([f"{namespace}/{name}" if namespace else name for namespace, name in self._objects])

    def __len__(self) -> int:
        return len(self._objects)


class ApiServer(apiserver.ApiServer):
    """The embedded server, with what tests do to it."""

    def __init__(self) -> None:
        super().__init__(Store(Path(os.devnull)))
        self.objects = {plural: Stored(self._store, resource) for plural, resource in BY_PLURAL.items()}
        for name in ("hami", "d"):
            self.objects["namespaces"][name] = {"metadata": {"name": name, "resourceVersion": "1"}}
        self.faults: list[Callable[[str, str], Fault | None]] = []
        self.requests: list[tuple[str, str, Any]] = []
        self._ended = asyncio.Event()
        self.minor = "36"
        self.url = ""

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_watches()
        await self._runner.cleanup()
        self.close()

    def close(self) -> None:
        """Let go of the store; for a server that was never entered."""
        self._store.close()

    @property
    def copies_labels(self) -> bool:
        """Whether a Binding's labels go to the pod."""
        return self._copy_binding_labels

    @copies_labels.setter
    def copies_labels(self, copies: bool) -> None:
        self._copy_binding_labels = copies

    @property
    def minor(self) -> str:
        """Kubernetes' minor version, as ``/version`` says it."""
        return str(self._documents["/version"]["minor"])

    @minor.setter
    def minor(self, minor: str) -> None:
        self._documents["/version"] = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}

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

    async def put(self, plural: str, obj: Object) -> Object:
        """Write an object as it is, and tell watches."""
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        meta.setdefault("uid", f"uid-{key}")
        before = self.objects[plural].get(key)
        return self._store.write(BY_PLURAL[plural], "MODIFIED" if before else "ADDED", obj, before)

    async def remove(self, plural: str, key: str) -> None:
        """Take an object away, and tell watches."""
        obj = self.objects[plural][key]
        self._store.write(BY_PLURAL[plural], "DELETED", obj, obj)

    async def end_watches(self) -> None:
        """End all watches as the server does after their time."""
        self._ended.set()
        self._ended = asyncio.Event()

    @property
    def version(self) -> int:
        """The version of the last write."""
        return self._store.version

    def compact(self) -> None:
        """Forget the history: watches from before get 410."""
        self._store.version += 1
        self._store.forget()

    # --- HTTP

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append((request.method, request.path, json.loads(body) if body else None))
        assert request.headers.get("authorization") == "Bearer secret-token"
        fault = next((f for f in (check(request.method, request.path_qs) for check in self.faults) if f), None)
        if fault is None:
            return await super()._handle(request)
        if fault.late:
            await asyncio.sleep(fault.delay_s)
            return await super()._handle(request)
        if fault.commit:
            await super()._handle(request)
        await asyncio.sleep(fault.delay_s)
        if fault.drop:
            assert request.transport is not None
            request.transport.close()
        status = {"kind": "Status", "status": "Failure", "reason": "Injected", "message": fault.message}
        return web.Response(
            body=orjson.dumps(status | {"code": fault.status or 500}),
            status=fault.status or 500,
            headers=fault.headers,
            content_type="application/json",
        )

    async def _begin(self, request: web.Request | Request) -> web.StreamResponse:
        return request.begin() if isinstance(request, Request) else await super()._begin(request)

    async def _feed(self, *given: Any, **how: Any) -> None:
        feeding = asyncio.ensure_future(super()._feed(*given, **how))
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({feeding, ended}, return_when=asyncio.FIRST_COMPLETED)
            if feeding.done():
                feeding.result()
        finally:
            feeding.cancel()
            ended.cancel()
            await asyncio.gather(feeding, ended, return_exceptions=True)


def _split(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


def pod(name: str, *, namespace: str = "default", uid: str = "", **fields: Any) -> Object:
    """A pod manifest with one container."""
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    meta.update(fields.pop("metadata", {}))
    spec = {"containers": [{"name": "c", "image": "i"}], **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}, **fields}
