"""``GET /metrics``: Prometheus or OpenMetrics text of one registry, protected by a token if one is set.

``?name[]=NAME``, which may be repeated, asks for these metrics only, as in prometheus_client's own server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hami_core.http.serve import Request, Response, Route
from hami_core.http.token import guarded, no_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    More = Callable[[Callable[[Collector], bytes], Callable[[str], bool]], Awaitable[AsyncIterator[bytes]]]


def metrics_route(
    registry: CollectorRegistry, *, token: Callable[[], str] = no_token, more: More | None = None
) -> Route:
    """The route.

    Args:
        registry: Encoded as a whole for each answer, so it should be small.
        token: As for `hami_core.http.token.guarded`.
        more: Returns text to send in pieces before the registry's. Its arguments are the encoder that the client wants,
            and whether the client wants the metric of a name.
    """

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        names = frozenset(request.query.getall("name[]", []))
        own = encode(_Named(registry, names) if names else registry)
        if more is None:
            return Response(200, own, content_type)
        pieces = await more(encode, lambda name: not names or name in names)
        return Response(200, b"", content_type, stream=_followed(pieces, own))

    return Route("GET", "/metrics", guarded(metrics, token))


class _Named(Collector):
    """The families with these names. prometheus_client's `restricted_registry` leaves the process's own metrics out."""

    def __init__(self, registry: CollectorRegistry, names: frozenset[str]) -> None:
        self._registry = registry
        self._names = names

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if not self._names.isdisjoint({family.name, *(sample.name for sample in family.samples)}):
                yield family


async def _followed(pieces: AsyncIterator[bytes], last: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
    yield last
