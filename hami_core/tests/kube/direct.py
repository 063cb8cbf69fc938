"""The project's client and the embedded API server without a socket between them.

Paths, bodies and errors are those of `OfficialKubeApi`; the server's own handlers answer. What the server writes
reaches the client within a few turns of the event loop, so that tests see the same order each time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from hami_core.kube.official import OfficialKubeApi, _transport_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hami_core.tests.kube.apiserver import ApiServer


class Request:
    """What the server asks of aiohttp's request, its connection and a watch's answer."""

    def __init__(self, method: str, path: str, query: Mapping[str, str], content_type: str, body: bytes) -> None:
        self.method, self.path, self.query, self.content_type, self._body = method, path, query, content_type, body
        self.path_qs = f"{path}?{urlencode(query)}"
        self.headers = CIMultiDict({"Authorization": "Bearer secret-token", "User-Agent": "hami"})
        self.transport = self
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self._written: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return self._body

    def close(self) -> None:
        self._closed = True

    abort = close

    def is_closing(self) -> bool:
        return self._closed

    def begin(self) -> Any:
        self.begun.set_result(None)
        return self

    async def write(self, data: bytes) -> None:
        self._written.put_nowait(data)

    async def chunks(self, answering: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        """Each piece that the server writes, until it ends the watch."""
        answering.add_done_callback(lambda _: self._written.put_nowait(b""))
        while chunk := await self._written.get():
            yield chunk
        await answering


class Answer:
    """What the client asks of aiohttp's response; without one it is that of a watch."""

    def __init__(self, response: web.StreamResponse | None, chunks: AsyncIterator[bytes]) -> None:
        self.status, self.reason = (response.status, response.reason) if response is not None else (200, "OK")
        self.headers = response.headers if response is not None else CIMultiDict()
        self.content = SimpleNamespace(iter_any=lambda: chunks)
        self._body = response.body if isinstance(response, web.Response) else b""

    async def read(self) -> Any:
        return self._body


class DirectApi(OfficialKubeApi):
    """`OfficialKubeApi` whose requests are calls of the server's handler."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(SimpleNamespace(host=""), None)  # type: ignore[arg-type] # no session is used
        self._server = server

    @asynccontextmanager
    async def _request(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Any]:
        request = Request(method, path, query or {}, content_type, body or b"")
        answering = asyncio.ensure_future(self._server._handle(request))
        try:
            with _transport_errors(verb):
                async with asyncio.timeout(limits.total):
                    await asyncio.wait({answering, request.begun}, return_when=asyncio.FIRST_COMPLETED)
                if request.is_closing():
                    raise aiohttp.ServerDisconnectedError
                response = None if request.begun.done() else answering.result()
            yield Answer(response, request.chunks(answering))
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
