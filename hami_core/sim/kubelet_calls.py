"""Subresources of pods that the API server passes on to the pod's kubelet or to the pod: logs, exec and proxy."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from hami_core.sim.calls import EXEC_PROTOCOLS, Call, cut
from hami_core.sim.resources import NODES, PODS, ApiError, Object, bad_request, not_allowed, not_found, unserved_part

if TYPE_CHECKING:
    from hami_core.sim.store import Store

_UNSERVED = {
    "attach": "use kubectl logs -f or kubectl exec",
    "portforward": "containers share the host's network, so connect to their ports on 127.0.0.1",
}
"""What answers 501, and what to do in its place."""
SUBRESOURCES = {"exec", "log", "proxy", *_UNSERVED}
_NOT_PASSED_ON = {"authorization", "connection", "content-length", "host", "transfer-encoding"}
"""Headers that the proxy to pods leaves out."""


async def answer(session: aiohttp.ClientSession, store: Store, request: web.Request, call: Call) -> web.StreamResponse:
    """Answers a request for one of `SUBRESOURCES`.

    Raises:
        ApiError: The pod, its node or the container is missing, or the request is not served.
    """
    if call.sub in _UNSERVED:
        raise unserved_part(f"pods/{call.sub}", _UNSERVED[call.sub])
    if call.sub == "proxy":
        return await _proxy(session, store, request, call)
    pod = store.get(PODS, call.namespace, call.name)
    if pod is None:
        raise not_found(PODS, call.name)
    if call.sub == "log" and call.verb == "get":
        return await _log(session, request, _address(store, request, pod, "containerLogs"))
    if call.sub == "exec" and call.verb in {"get", "create"}:
        return await _exec(session, request, pod, _address(store, request, pod, "exec"))
    raise not_allowed()


def _address(store: Store, request: web.Request, pod: Object, what: str) -> str:
    """URL of the container that a request names, at the pod's kubelet.

    Raises:
        ApiError: 400 if the pod has no node, or the container's name is missing or unknown.
    """
    meta, spec = pod["metadata"], pod["spec"]
    node = store.get(NODES, "", spec.get("nodeName", ""))
    if node is None:
        raise bad_request(f"pod {meta['name']} does not have a host assigned")
    names = [c["name"] for c in [*(spec.get("initContainers") or []), *spec["containers"]]]
    container = request.query.get("container") or (
        spec["containers"][0]["name"] if len(spec["containers"]) == 1 else ""
    )
    if container not in names:
        raise bad_request(f"a container name must be specified for pod {meta['name']}, choose one of: {names}")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    return f"http://127.0.0.1:{port}/{what}/{meta['namespace']}/{meta['name']}/{container}"


async def _proxy(session: aiohttp.ClientSession, store: Store, request: web.Request, call: Call) -> web.Response:
    """Passes an HTTP request on to a port of a pod, which is on this machine."""
    scheme, name, port = (
        call.name.split(":") if call.name.count(":") == 2 else ("http", *f"{call.name}:".split(":")[:2])
    )
    pod = store.get(PODS, call.namespace, name)
    if pod is None:
        raise not_found(PODS, name)
    if scheme != "http":
        raise unserved_part(f"pods/proxy by {scheme}", "use http")
    ports = [p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or []]
    port = port or str(next(iter(ports), ""))
    if not port.isdecimal():
        raise bad_request(f"no port of pod {name} is named: write http:{name}:PORT")
    headers = {key: value for key, value in request.headers.items() if key.lower() not in _NOT_PASSED_ON}
    url = f"http://127.0.0.1:{port}/{call.rest}"
    try:
        asked = session.request(
            request.method, url, params=request.query, data=await request.read() or None, headers=headers
        )
        async with asked as found:
            body = await found.read()
            return web.Response(status=found.status, body=body, content_type=found.content_type)
    except aiohttp.ClientError as error:
        raise ApiError(503, "ServiceUnavailable", f"error trying to reach service: {error}") from error


async def _log(session: aiohttp.ClientSession, request: web.Request, url: str) -> web.StreamResponse:
    """Passes a container's log on."""
    response: web.StreamResponse | None = None
    try:
        async with session.get(url, params=request.query) as found:
            response = web.StreamResponse(status=found.status, headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            async for chunk in found.content.iter_any():
                await response.write(chunk)
    except aiohttp.ClientError as error:
        if response is not None:
            cut(request)
        raise ApiError(500, "InternalError", f"Get {url!r}: {error}") from error
    return response


async def _exec(session: aiohttp.ClientSession, request: web.Request, pod: Object, url: str) -> web.StreamResponse:
    """Passes a command's streams between the client and the kubelet."""
    if "command" not in request.query:
        raise bad_request("you must specify at least 1 command for the container")
    name, status = url.rpartition("/")[2], pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    if not any(s["name"] == name and "running" in s["state"] for s in listed):
        raise bad_request(f"container {name} in pod {pod['metadata']['name']} is not running")
    asked = [p.strip() for p in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    protocol = next((p for p in EXEC_PROTOCOLS if p in asked), "")
    if not protocol:
        instead = "use kubectl 1.30 or later, or 1.29 with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true"
        raise unserved_part("exec over SPDY", instead)
    options: Any = {"compress": 0, "max_msg_size": 0}
    try:
        kubelet = await session.ws_connect(url, params=request.query, protocols=(protocol,), **options)
    except aiohttp.ClientError as error:
        raise ApiError(500, "InternalError", f"Get {url!r}: {error}") from error
    async with kubelet:
        client = web.WebSocketResponse(protocols=(protocol,), compress=False, max_msg_size=0)
        await client.prepare(request)
        ways = [asyncio.create_task(_pass(*way)) for way in ((client, kubelet), (kubelet, client))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await client.close()
    return client


async def _pass(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    """Passes binary messages on until one side leaves."""
    with contextlib.suppress(ConnectionError):
        async for message in source:
            if message.type is aiohttp.WSMsgType.BINARY:
                await target.send_bytes(message.data)
