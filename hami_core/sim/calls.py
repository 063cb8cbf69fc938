"""Requests of the API: what path and method mean, and the bodies of requests and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from hami_core.sim.resources import BY_PATH, PROTOBUF, Resource, bad_request, not_allowed, unserved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""WebSocket protocols of ``pods/exec``, best first."""


@web.middleware
async def refuse_web_pages(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answers 403 to a request that a browser sends for a page of another site. Such a page could run commands here."""
    origin = request.headers.get("Origin")
    if origin not in {None, f"http://{request.host}"}:
        return web.Response(status=403, text="requests of web pages are not served\n")
    return await handler(request)


@dataclass(frozen=True, slots=True)
class Call:
    """The meaning of one request."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    sub: str
    path: str = ""
    """Plural in the path, if it is another name for the resource: ``bindings``."""
    rest: str = ""
    """The path at the pod, of ``pods/proxy``."""

    @property
    def key(self) -> tuple[Resource, str, str]:
        """The object's key in the store."""
        return self.resource, self.namespace, self.name

    @property
    def what(self) -> str:
        """``pods`` or ``pods/binding``."""
        return f"{self.resource.plural}/{self.sub}" if self.sub else self.resource.plural


def parse(request: web.Request) -> Call:
    """Reads verb and object from method and path.

    Raises:
        ApiError: 404 if the path is not served, 405 if the method is not.
        HTTPNotFound: The API group is not served.
    """
    parts = [p for p in request.path.split("/") if p]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
        if not any(r.group == group and r.version == version for r in BY_PATH.values()):
            raise web.HTTPNotFound(text="404 page not found\n")
    else:
        raise unserved()
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    path = ""
    if plural == "bindings" and not group:
        plural, sub, path = "pods", "binding", plural
    resource = BY_PATH.get((group, version, plural))
    proxied = plural == "pods" and sub == "proxy"
    if resource is None or (len(rest) > 3 and not proxied):
        raise unserved()
    verb = _VERBS.get(request.method)
    if verb is None:
        raise not_allowed()
    if not name and verb in {"update", "patch"}:
        raise not_allowed()
    if not name and verb in {"get", "delete"}:
        watching = request.query.get("watch") in {"true", "1"}
        verb = {"get": "watch" if watching else "list", "delete": "deletecollection"}[verb]
    return Call(verb, resource, namespace, name, sub, path, "/".join(rest[3:]))


def wants_table(request: web.Request) -> bool:
    """Whether kubectl asks for a table."""
    return "as=Table" in request.headers.get("Accept", "")


def wants_metadata(request: web.Request) -> bool:
    """Whether a client asks for a list of metadata alone."""
    return "as=PartialObjectMetadataList" in request.headers.get("Accept", "")


def answer_json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:  # noqa: ANN401 - JSON
    """An answer with a JSON body."""
    return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type="application/json")


async def read_body(request: web.Request, *, optional: bool = False, of: tuple[type, ...] = (dict,)) -> Any:  # noqa: ANN401 - JSON
    """The request's JSON body.

    Raises:
        ApiError: 400 if the body is malformed or has another type, 415 for a kind that protobuf does not bring here.
    """
    data = await request.read()
    if optional and not data:
        return {}
    if request.content_type == PROTOBUF:
        from hami_core.sim import protobuf  # noqa: PLC0415 - few servers need its many messages

        return protobuf.decode(data)
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is not JSON: {error}") from error
    if not isinstance(body, of):
        raise bad_request(f"the object provided is a {type(body).__name__}")
    return body


def cut(request: web.Request) -> None:
    """Ends the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("cut on demand")
