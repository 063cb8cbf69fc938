"""``GET /metrics``: Prometheus or OpenMetrics text of one registry, behind a token where one is set."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder

from hami_core.http.serve import Request, Response, Route, text

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def metrics_route(registry: CollectorRegistry, *, token: str = "") -> Route:
    """The route; with ``token`` only requests that carry it as a bearer token are answered."""

    async def metrics(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return text(401, "metrics need the bearer token of setting metrics_token\n")
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(200, encode(registry), content_type)

    return Route("GET", "/metrics", metrics)
