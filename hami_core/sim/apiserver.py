"""The API server: HTTP in front of the store.

Paths, verbs, status codes and texts are Kubernetes'. `strategy` changes and checks objects before they are stored.
Under ``/sim/`` tests set faults and read counts of requests.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from aiohttp import web

from hami_core.sim import (
    admission,
    discovery,
    kubelet_calls,
    openapi,
    patch,
    policies,
    selection,
    strategy,
    tables,
    workloads,
)
from hami_core.sim.calls import Call, answer_json, cut, parse, read_body, refuse_web_pages, wants_metadata, wants_table
from hami_core.sim.client import Client
from hami_core.sim.controllers import Controllers
from hami_core.sim.faults import Fault, Faults
from hami_core.sim.resources import (
    BY_PATH,
    NAMESPACES,
    PODS,
    WORKLOADS,
    ApiError,
    Object,
    Resource,
    bad_request,
    not_allowed,
    not_found,
    now,
    unserved,
    unserved_part,
    unsupported_type,
)
from hami_core.sim.store import Store
from hami_core.sim.watching import Stream, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
EPHEMERAL = strategy.EPHEMERAL
_CREATED: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_APPLY = "application/apply-patch+yaml"
"""Server-side apply. Its bodies are JSON here, as all clients send them, and nobody owns fields."""
_PATCHES = {
    "application/merge-patch+json": patch.merge,
    "application/json-patch+json": patch.json_patch,
    "application/strategic-merge-patch+json": patch.strategic,
    _APPLY: patch.strategic,
}


class ApiServer:
    """The server's state and its handlers.

    Args:
        store: Objects and history.
        copy_binding_labels: Whether a Binding's labels are copied to the pod, as Kubernetes does since 1.35.
        bookmark_seconds: Time between bookmarks on a watch that asked for them.
    """

    def __init__(self, store: Store, *, copy_binding_labels: bool = True, bookmark_seconds: float = 5.0) -> None:
        self._store = store
        self._copy_binding_labels = copy_binding_labels
        self._bookmark_seconds = bookmark_seconds
        self._faults = Faults()
        self._asked: Counter[str] = Counter()
        self._documents = discovery.documents()
        self._session: aiohttp.ClientSession
        self._controllers: asyncio.Task[None] | None = None
        self._watches: set[asyncio.Transport] = set()
        for name in _NAMESPACES:
            if store.get(NAMESPACES, "", name) is None:
                space = strategy.prepare_create(NAMESPACES, "", {"metadata": {"name": name}})
                strategy.complete(NAMESPACES, space)
                store.write(NAMESPACES, "ADDED", space, None)

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=8 << 20, middlewares=[refuse_web_pages])
        app.router.add_route("*", "/sim/{what}", self._sim)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.cleanup_ctx.append(self._client)
        return app

    async def _client(self, _: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as self._session:
            yield
        if self._controllers is not None:
            self._controllers.cancel()
            await asyncio.gather(self._controllers, return_exceptions=True)

    def start_controllers(self, url: str) -> None:
        """Starts the controllers, which write to this server's own address."""

        async def run() -> None:
            client = Client(url, "controllers")
            try:
                await Controllers(self._store, client).run()
            finally:
                await client.close()

        self._controllers = asyncio.create_task(run())

    # ---- dispatch

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path in {"/healthz", "/livez", "/readyz"}:
            return web.Response(text="ok")
        if request.path == "/openapi/v2":
            return web.Response(body=openapi.EMPTY_V2, content_type=openapi.V2_TYPE)
        if (document := self._documents.get(request.path.rstrip("/"))) is not None:
            return answer_json(document)
        try:
            call = parse(request)
            agent = request.headers.get("User-Agent", "")
            self._asked[f"{call.verb} {call.what} {agent.split('/')[0]}"] += 1
            fault = self._faults.hit(call.verb, call.what, call.name, agent)
            if fault:
                await self._break_before(request, fault)
            response = await self._dispatch(request, call, fault)
            if fault and fault.action == "commit_then_timeout":
                await asyncio.sleep(fault.seconds)
                cut(request)
        except ApiError as error:
            headers = {"Retry-After": "1"} if error.code == 429 else None
            return answer_json(error.status(), error.code, headers)
        return response

    async def _break_before(self, request: web.Request, fault: Fault) -> None:
        if fault.action == "latency":
            await asyncio.sleep(fault.seconds)
        elif fault.action == "status":
            raise ApiError(fault.code, fault.reason, f"injected fault: {fault.code} {fault.reason}")
        elif fault.action == "reset":
            cut(request)

    async def _sim(self, request: web.Request) -> web.Response:
        """Requests of tests: faults, compaction, watches, counts of requests."""
        what, method = request.match_info["what"], request.method
        if what == "faults" and method == "POST":
            try:
                self._faults.add(orjson.loads(await request.read()))
            except ValueError as error:
                return answer_json({"error": str(error)}, 400)
        elif what == "faults" and method == "DELETE":
            self._faults.clear()
        elif what == "faults":
            return answer_json(self._faults.listing())
        elif what == "requests":
            return answer_json(dict(self._asked))
        elif what == "compact" and method == "POST":
            self._store.forget()
        elif what == "drop-watches" and method == "POST":
            for watch in self._watches:
                watch.abort()
        else:
            return answer_json({"error": f"{method} /sim/{what}: there is no such thing"}, 404)
        return answer_json({"ok": True})

    async def _dispatch(self, request: web.Request, call: Call, fault: Fault | None) -> web.StreamResponse:
        if call.resource is PODS and call.sub in kubelet_calls.SUBRESOURCES:
            return await kubelet_calls.answer(self._session, self._store, request, call)
        if call.sub == "scale" and call.resource.scale:
            return await self._scale(request, call)
        if call.verb == "watch":
            return await self._watch(request, call, fault)
        if call.verb == "list":
            return self._list(request, call)
        if call.verb == "create":
            return await self._create(request, call)
        if call.verb == "deletecollection":
            return await self._delete_collection(request, call)
        if call.verb in {"update", "patch"} and _is_changeable(call):
            return await self._change(request, call)
        obj = self._existing(call)
        if call.verb == "get" and _is_changeable(call):
            return self._answer(request, call.resource, obj)
        if call.verb == "delete" and not call.sub:
            options = await read_body(request, optional=True)
            return answer_json(self._delete(call.resource, self._existing(call), options, request))
        raise unserved()

    # ---- reading

    def _selected(self, request: web.Request, call: Call) -> selection.Test:
        by_label = selection.labels(request.query.get("labelSelector", ""))
        by_field = selection.fields(request.query.get("fieldSelector", ""), call.resource)
        return lambda obj: by_label(obj) and by_field(obj)

    def _list(self, request: web.Request, call: Call) -> web.Response:
        test, resource = self._selected(request, call), call.resource
        found = [o for o in self._store.all(resource, call.namespace) if test(o)]
        meta: Object = {"resourceVersion": str(self._store.version)}
        limit = int(request.query.get("limit") or 0)
        if token := request.query.get("continue"):
            after = _place(token)
            found = [o for o in found if (o["metadata"].get("namespace", ""), o["metadata"]["name"]) > after]
        if limit and len(found) > limit:
            last = found[limit - 1]["metadata"]
            token = base64.urlsafe_b64encode(orjson.dumps([last.get("namespace", ""), last["name"]])).decode()
            meta["continue"] = token
            if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
                meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        if wants_table(request):
            return answer_json(tables.table(resource, found, meta))
        if wants_metadata(request):
            group = {"apiVersion": "meta.k8s.io/v1"}
            items = [{"kind": "PartialObjectMetadata", **group, "metadata": obj["metadata"]} for obj in found]
            return answer_json({"kind": "PartialObjectMetadataList", **group, "metadata": meta, "items": items})
        return answer_json(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": meta,
                "items": _bare(found),
            }
        )

    def _answer(self, request: web.Request, resource: Resource, obj: Object) -> web.Response:
        if wants_table(request):
            return answer_json(tables.table(resource, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}))
        return answer_json(obj)

    # ---- watching

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        """Starts the answer to a watch by sending its headers."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        return response

    async def _watch(self, request: web.Request, call: Call, fault: Fault | None) -> web.StreamResponse:
        test, transport = self._selected(request, call), request.transport
        version = _version(request)
        response = await self._begin(request)
        if transport:
            self._watches.add(transport)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds") or 3600)):
                await self._feed(
                    request, response, call, test, version, once=bool(fault and fault.action == "drop_watch")
                )
        except ApiError as error:
            await response.write(orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n")
        except (TimeoutError, ConnectionError):
            pass
        finally:
            if transport:
                self._watches.discard(transport)
        return response

    async def _feed(
        self,
        request: web.Request,
        response: web.StreamResponse,
        call: Call,
        test: selection.Test,
        version: int,
        *,
        once: bool,
    ) -> None:
        """Writes events until the client leaves. With ``once`` it cuts the connection after the first event."""
        query, store, stream = request.query, self._store, Stream(request, response, call.resource)
        initial = query.get("sendInitialEvents") == "true"
        bookmarks = query.get("allowWatchBookmarks") in {"true", "1"}
        if version == 0 or initial:
            version = store.version
            for obj in filter(test, store.all(call.resource, call.namespace)):
                await stream.send("ADDED", obj)
            if initial:
                await stream.bookmark(version, {"k8s.io/initial-events-end": "true"})
        loop = asyncio.get_running_loop()
        due = loop.time() + self._bookmark_seconds
        while stream.open:
            for event in store.since(version):
                if event.resource is call.resource and (shown := seen(event, call, test)):
                    await stream.send(*shown)
                    if once:
                        cut(request)
                version = event.version
            if (left := due - loop.time()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await store.changed(version)
                continue
            due = loop.time() + self._bookmark_seconds
            if bookmarks:
                await stream.bookmark(version)

    # ---- writing

    def _commit(
        self, request: web.Request, resource: Resource, kind: str, obj: Object, before: Object | None
    ) -> Object:
        if "dryRun" in request.query or obj == before:
            return obj
        return self._store.write(resource, kind, obj, before)

    async def _create(self, request: web.Request, call: Call) -> web.Response:
        body = await read_body(request)
        if call.sub == "binding":
            return self._bind(request, call, body)
        if call.sub == "eviction":
            self._delete(PODS, self._existing(call), body.get("deleteOptions") or {}, request)
            return answer_json(_CREATED, 201)
        if call.name or call.sub:
            raise not_allowed()
        return await self._add(request, call, body)

    async def _add(self, request: web.Request, call: Call, body: Object) -> web.Response:
        resource = call.resource
        namespace = call.namespace or (body.get("metadata") or {}).get("namespace", "")
        if resource.namespaced and self._store.get(NAMESPACES, "", namespace) is None:
            raise not_found(NAMESPACES, namespace)
        obj, warnings = strategy.prepare_create(resource, namespace, body), list[str]()
        asked = _asked(request, call, "CREATE", obj, None)
        if resource is PODS:
            obj, warnings = await admission.admit(self._session, self._store, asked, strategy.default_pod)
            asked = replace(asked, obj=obj)
        strategy.complete(resource, obj)
        policies.validate(self._store, asked)
        name = obj["metadata"]["name"]
        if self._store.get(resource, namespace, name) is not None:
            details = {"name": name, "group": resource.group, "kind": resource.plural}
            raise ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', **details)
        obj = self._commit(request, resource, "ADDED", obj, None)
        return _warning(answer_json(obj, 201), warnings)

    def _bind(self, request: web.Request, call: Call, binding: Object) -> web.Response:
        named = (binding.get("metadata") or {}).get("name", "")
        name = call.name or named
        if named and named != name:
            raise bad_request("name in URL does not match name in Binding object")
        pod = self._store.get(PODS, call.namespace, name)
        if pod is None:
            raise not_found(PODS, name)
        policies.validate(self._store, _asked(request, call, "CREATE", binding, None))
        bound = strategy.bind(pod, binding, copy_labels=self._copy_binding_labels)
        self._commit(request, PODS, "MODIFIED", bound, pod)
        return answer_json(_CREATED, 201)

    async def _change(self, request: web.Request, call: Call) -> web.Response:
        apply = _PATCHES.get(request.content_type) if call.verb == "patch" else None
        if call.verb == "patch" and apply is None:
            raise unsupported_type()
        body = await read_body(request, of=(dict, list) if apply else (dict,))
        if request.content_type == _APPLY and not call.sub and self._store.get(*call.key) is None:
            return await self._add(request, call, body)
        # Read after the body: from here to the commit nothing is awaited.
        if apply is None and call.resource.made_by_update and self._store.get(*call.key) is None:
            made = strategy.prepare_create(call.resource, call.namespace, body)
            strategy.complete(call.resource, made)
            policies.validate(self._store, _asked(request, call, "CREATE", made, None))
            return answer_json(self._commit(request, call.resource, "ADDED", made, None), 201)
        warnings: list[str] = []
        while True:
            old = self._existing(call)
            new = apply(old, body) if apply else body
            if not isinstance(new, dict) or not isinstance(new.get("metadata", {}), dict):
                raise ApiError(422, "Invalid", "what the request leaves is no object with metadata")
            fresh = strategy.prepare_update(call.resource, old, new, call.sub, patched=apply is not None)
            if call.sub != EPHEMERAL:
                break
            asked = _asked(request, call, "UPDATE", fresh, old)
            admitted, warnings = await admission.admit(self._session, self._store, asked, strategy.default_pod)
            fresh = strategy.prepare_update(call.resource, old, admitted, call.sub, patched=apply is not None)
            if self._existing(call) == old:
                break  # otherwise another write came while webhooks were called: try again, as the real server does
        policies.validate(self._store, _asked(request, call, "UPDATE", fresh, old))
        return _warning(self._store_changed(request, call.resource, fresh, old), warnings)

    async def _scale(self, request: web.Request, call: Call) -> web.Response:
        apply = _PATCHES.get(request.content_type)
        if call.verb not in {"get", "update", "patch"}:
            raise not_allowed()
        body = {} if call.verb == "get" else await read_body(request, of=(dict, list))
        obj = self._existing(call)
        if call.verb != "get":
            before = workloads.scale(obj)
            wanted = apply(before, body) if call.verb == "patch" and apply else body
            fresh = strategy.prepare_update(call.resource, obj, workloads.scaled(call.resource, obj, wanted), "")
            policies.validate(self._store, _asked(request, call, "UPDATE", wanted, before))
            obj = self._commit(request, call.resource, "MODIFIED", fresh, obj)
        return answer_json(workloads.scale(obj))

    def _existing(self, call: Call) -> Object:
        obj = self._store.get(*call.key)
        if obj is None:
            raise not_found(call.resource, call.name)
        return obj

    def _store_changed(self, request: web.Request, resource: Resource, obj: Object, old: Object) -> web.Response:
        meta = obj["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds") and not meta.get("finalizers"):
            return answer_json(self._commit(request, resource, "DELETED", obj, old))
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self._answer(request, resource, self._commit(request, resource, "MODIFIED", obj, old))

    def _delete(self, resource: Resource, obj: Object, options: Object, request: web.Request) -> Object:
        if "gracePeriodSeconds" in request.query:
            options = {**options, "gracePeriodSeconds": int(request.query["gracePeriodSeconds"])}
        if options.get("propagationPolicy") == "Orphan" and resource in WORKLOADS:
            raise unserved_part("propagationPolicy Orphan", "delete with Background")
        left = strategy.delete(resource, obj, options)
        if left is not None:
            return self._commit(request, resource, "MODIFIED", left, obj)
        if resource is NAMESPACES:
            for other in {r for r in BY_PATH.values() if r.namespaced}:
                for inner in self._store.all(other, obj["metadata"]["name"]):
                    self._store.write(other, "DELETED", inner, inner)
        gone = self._store.write(resource, "DELETED", obj, obj) if "dryRun" not in request.query else obj
        if resource is PODS:
            marks = {"deletionTimestamp": now(), **gone["metadata"], "deletionGracePeriodSeconds": 0}
            return {**gone, "metadata": marks}
        details = {"name": obj["metadata"]["name"], "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        if resource.group:
            details["group"] = resource.group
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    async def _delete_collection(self, request: web.Request, call: Call) -> web.Response:
        test, options = self._selected(request, call), await read_body(request, optional=True)
        found = [o for o in self._store.all(call.resource, call.namespace) if test(o)]
        for obj in found:
            self._delete(call.resource, obj, options, request)
        kind, version = f"{call.resource.kind}List", {"resourceVersion": str(self._store.version)}
        return answer_json({"kind": kind, "apiVersion": call.resource.api_version, "metadata": version, "items": found})


def _is_changeable(call: Call) -> bool:
    """Whether the path names an object, or a subresource that is read and written like an object."""
    if call.sub == EPHEMERAL:
        return call.resource is PODS
    return not call.sub or (call.sub == "status" and call.resource.status)


def _warning(response: web.Response, warnings: list[str]) -> web.Response:
    for warning in warnings:
        response.headers.add("Warning", f'299 - "{warning}"')
    return response


def _asked(request: web.Request, call: Call, operation: str, obj: Object, old: Object | None) -> admission.Attributes:
    """The request for admission. There is no authentication: the caller is ``admin`` unless it impersonates a user."""
    name = request.headers.get("Impersonate-User", "admin")
    groups = request.headers.getall("Impersonate-Group", []) if name != "admin" else ["system:masters"]
    if name.startswith("system:serviceaccount:") and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
    dry_run = "dryRun" in request.query
    options = {"fieldManager": request.query["fieldManager"]} if "fieldManager" in request.query else {}
    return admission.Attributes(
        resource=call.resource,
        subresource="" if call.path else call.sub,
        operation=operation,
        name=call.name or (obj.get("metadata") or {}).get("name", ""),
        namespace=call.namespace,
        obj=obj,
        old=old,
        user={"username": name, "groups": [*groups, "system:authenticated"]},
        options={**options, **({"dryRun": ["All"]} if dry_run else {})},
        dry_run=dry_run,
        path=call.path,
    )


def _version(request: web.Request) -> int:
    """The version after which a watch begins.

    Raises:
        ApiError: 500 if the version is not a number, as the real server answers.
    """
    given = request.query.get("resourceVersion") or "0"
    if not (given.isascii() and given.isdigit()):
        why = f'strconv.ParseUint: parsing "{given}": invalid syntax'
        raise ApiError(500, "", f'resourceVersion: Invalid value: "{given}": {why}')
    return int(given)


def _place(token: str) -> tuple[str, ...]:
    """Namespace and name after which a list continues.

    Raises:
        ApiError: 400 for a token that this server did not make.
    """
    try:
        namespace, name = orjson.loads(base64.urlsafe_b64decode(token))
    except ValueError as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    return str(namespace), str(name)


def _bare(found: list[Object]) -> list[Object]:
    """Objects as items of a list, without kind and apiVersion: only the list states them."""
    return [{k: v for k, v in obj.items() if k not in {"apiVersion", "kind"}} for obj in found]


async def serve(directory: Path, host: str, port: int, **options: Any) -> tuple[web.AppRunner, str]:  # noqa: ANN401 - passed on
    """Starts serving the state of a directory. Returns the URL, and the runner that the caller must clean up."""
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing runs beside it yet
    server = ApiServer(Store(directory / "journal"), **options)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    with contextlib.suppress(AttributeError):
        port = runner.addresses[0][1]
    url = f"http://{host}:{port}"
    server.start_controllers(url)
    return runner, url
