"""``GET /metrics``: Prometheus or OpenMetrics text of one registry, protected by a token if one is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder

from hami_core.http.serve import Request, Response, Route
from hami_core.http.token import guarded, no_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    More = Callable[[Callable[[Collector], bytes]], Awaitable[AsyncIterator[bytes]]]


def metrics_route(
    registry: CollectorRegistry, *, token: Callable[[], str] = no_token, more: More | None = None
) -> Route:
    """The route.

    Args:
        registry: Encoded as a whole for each answer, so it should be small.
        token: As for `hami_core.http.token.guarded`.
        more: Returns text to send in pieces before the registry's. Its argument is the encoder that the client wants.
    """

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        if more is None:
            return Response(200, encode(registry), content_type)
        pieces = await more(encode)
        return Response(200, b"", content_type, stream=_followed(pieces, encode(registry)))

    return Route("GET", "/metrics", guarded(metrics, token))


async def _followed(pieces: AsyncIterator[bytes], last: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
    yield last
