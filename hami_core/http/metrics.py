"""``GET /metrics``: Prometheus or OpenMetrics text of one registry, protected by a token if one is set."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder

from hami_core.http.serve import Request, Response, Route, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    More = Callable[[Callable[[Collector], bytes]], Awaitable[AsyncIterator[bytes]]]


def no_token() -> str:
    """The empty token: every request is answered."""
    return ""


def metrics_route(
    registry: CollectorRegistry, *, token: Callable[[], str] = no_token, more: More | None = None
) -> Route:
    """The route.

    Args:
        registry: Encoded as a whole for each answer, so it should be small.
        token: Called at each request; returns the bearer token that the request must carry. Empty: none is needed.
        more: Returns text to send in pieces before the registry's. Its argument is the encoder that the client wants.
    """

    async def metrics(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        wanted = token()
        if wanted and not hmac.compare_digest(given.encode(), f"Bearer {wanted}".encode()):
            return text(401, "send the bearer token that the setting metrics_token_file names\n")
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        if more is None:
            return Response(200, encode(registry), content_type)
        pieces = await more(encode)
        return Response(200, b"", content_type, stream=_followed(pieces, encode(registry)))

    return Route("GET", "/metrics", metrics)


async def _followed(pieces: AsyncIterator[bytes], last: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
    yield last
