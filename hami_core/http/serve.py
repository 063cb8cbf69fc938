"""The HTTP server of scheduler and agent: ``(request) -> response`` on top of aiohttp, which handlers never see.

A `Server` has several `Listener` objects, on TCP or on a unix socket, each with its routes, body limit and TLS. When
it stops, it takes no new connections, and pending answers get the time given to `Server.stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from multidict import MultiDict, MultiMapping

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage

log = structlog.get_logger(__name__)

BODY_LIMIT: Final = 64 * 2**20
"""Most bytes of a request's body: enough for the names of 50,000 nodes, or for a few thousand whole node objects."""
NO_QUERY: Final[MultiMapping[str]] = MultiDict()
READ_TIMEOUT_S: Final = 60.0
UNPRIVILEGED_PORT: Final = 1024
"""Lowest port that Linux lets every process listen on, unless a sysctl says otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as handlers receive it. Look headers up in lower case; the case on the wire does not matter.

    A name may stand in the query several times: ``query.getall(name, [])``.
    """

    method: str
    path: str
    body: bytes = b""
    query: MultiMapping[str] = field(default_factory=MultiDict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer; a long body can be a stream of pieces instead."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None


def text(status: int, message: str) -> Response:
    """A plain-text answer."""
    return Response(status, message.encode(), "text/plain; charset=utf-8")


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """A handler for one method and one exact path."""

    method: str
    path: str
    handler: Handler


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on.

    Attributes:
        address: ``host:port`` (port 0: any free one; host empty: all), ``[v6]:port`` or ``unix:/path``.
        routes: The routes served there.
        tls: Server context (`hami_core.http.tls`), or None for plain HTTP.
        body_limit: Most bytes of a request's body; a longer one is answered with 413.
        setting: The flag that holds the address, for errors.
    """

    address: str
    routes: Sequence[Route]
    tls: ssl.SSLContext | None = None
    body_limit: int = BODY_LIMIT
    setting: str = ""


class Server:
    """Serves its listeners between `start` and `stop`."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)
        self._runners: list[web.ServerRunner] = []
        self.addresses: tuple[str, ...] = ()
        """The addresses with their real ports, in the listeners' order."""

    async def start(self) -> None:
        """Open all listeners, or none if one fails.

        Raises:
            ConfigError: An address is malformed or can't be bound.
        """
        try:
            self.addresses = tuple([await self._open(listener) for listener in self._listeners])
        except BaseException:
            await self.stop(0)
            raise

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take no new connections; give pending answers ``drain_s`` seconds, then cut them off."""
        runners, self._runners = self._runners, []
        for runner in runners:
            for site in list(runner.sites):
                await site.stop()
        await asyncio.gather(*(_drain(runner, drain_s) for runner in runners))

    async def _open(self, listener: Listener) -> str:
        # web.Server, not web.Application: its router and middlewares cost more than all the rest of aiohttp.
        server = web.Server(
            _dispatcher(listener.routes),
            request_factory=_requests(listener.body_limit),
            access_log=None,
            keepalive_timeout=90,
        )
        # `_drain` sets the shutdown timeout before the clean-up.
        runner = web.ServerRunner(server, handle_signals=False)
        await runner.setup()
        self._runners.append(runner)
        try:
            site = _site(runner, listener)
            await site.start()
        except (OSError, UnicodeError) as error:
            where = f"{listener.setting or 'listen address'} {listener.address}"
            raise ConfigError(where, *_why_not(error, parse_address(listener.address))) from error
        if isinstance(site, web.UnixSite):
            return listener.address
        host, port = runner.addresses[0][:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _why_not(error: OSError | UnicodeError, where: tuple[str | None, int] | Path) -> tuple[str, str]:
    """Why listening on an address failed, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    text = getattr(error, "strerror", None) or str(error)
    if number not in {errno.EACCES, errno.EPERM}:
        return text, "choose a free address of this machine"
    if isinstance(where, Path):
        return f"permission denied: {text}", f"let this process write into {where.parent}"
    if where[1] >= UNPRIVILEGED_PORT:
        return f"permission denied: {text}", "choose another port"
    problem = f"permission denied: this process may not listen on ports below {UNPRIVILEGED_PORT}"
    way_out = "give it the capability NET_BIND_SERVICE, or set the sysctl net.ipv4.ip_unprivileged_port_start"
    return problem, f"choose a port from {UNPRIVILEGED_PORT}, {way_out}"


def parse_address(address: str) -> tuple[str | None, int] | Path:
    """``host:port`` as a pair (host None: all addresses), ``unix:/path`` or ``/path`` as a path.

    Raises:
        ConfigError: The address has neither form.
    """
    if address.startswith(("unix:", "/")):
        return Path(address.removeprefix("unix:"))
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError("listen address", f"{address!r} has no port", "write host:port, :port or unix:/path")
    return host.removeprefix("[").removesuffix("]") or None, int(port)


def _site(runner: web.ServerRunner, listener: Listener) -> web.BaseSite:
    where = parse_address(listener.address)
    if isinstance(where, Path):
        with contextlib.suppress(FileNotFoundError):
            if where.is_socket():
                where.unlink()
        return web.UnixSite(runner, str(where), ssl_context=listener.tls)
    host, port = where
    return web.TCPSite(runner, host, port, ssl_context=listener.tls, reuse_address=True, backlog=1024)


async def _drain(runner: web.ServerRunner, drain_s: float) -> None:
    runner._shutdown_timeout = drain_s  # noqa: SLF001 - publicly it can only be set at construction
    await runner.cleanup()


def _requests(body_limit: int) -> Callable[..., web.BaseRequest]:
    def made(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_limit)

    return made


def _dispatcher(routes: Sequence[Route]) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    table: dict[str, dict[str, Handler]] = {}
    for route in routes:
        table.setdefault(route.path, {})[route.method] = route.handler

    async def dispatch(raw: web.BaseRequest) -> web.StreamResponse:
        methods = table.get(raw.path)
        if methods is None:
            return _answer(text(404, f"no such path: {raw.path}\n"))
        handler = methods.get("GET" if raw.method == "HEAD" else raw.method)
        if handler is None:
            return _answer(text(405, f"{raw.method} is not served here\n"), allow=", ".join(sorted(methods)))
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                body = await raw.read()
        except TimeoutError:
            return _answer(text(408, f"the body did not arrive within {READ_TIMEOUT_S:.0f} s\n"))
        query = raw.query if raw.query_string else NO_QUERY
        request = Request(raw.method, raw.path, body, query, raw.headers)
        return _answer(await _guarded(handler, request))

    return dispatch


async def _guarded(handler: Handler, request: Request) -> Response:
    try:
        return await handler(request)
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return text(500, "internal error; the log has the details\n")


def _answer(response: Response, *, allow: str = "") -> web.Response:
    headers = {"Content-Type": response.content_type}
    if allow:
        headers["Allow"] = allow
    body = response.body if response.stream is None else response.stream
    return web.Response(status=response.status, body=body, headers=headers)
