"""Liveness and readiness: named checks, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import Callable

from hami_core.http.serve import Request, Response, Route, text

Check = Callable[[], str]
"""Returns an empty string if all is well, else what is wrong."""


class Health:
    """Liveness and readiness checks by name.

    A liveness check fails only if a restart would help. A readiness check fails while clients should wait.
    """

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def live(self, name: str, check: Check) -> None:
        """Add a liveness check."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add a readiness check."""
        self._ready[name] = check

    @property
    def is_ready(self) -> bool:
        """Whether every readiness check passes."""
        return not any(_failures(self._ready))

    def routes(self) -> list[Route]:
        """``GET /healthz`` and ``GET /readyz``: 200 ``ok``, or 503 with one line for each failing check."""

        async def healthz(_: Request) -> Response:
            return _report(self._live)

        async def readyz(_: Request) -> Response:
            return _report(self._ready)

        return [Route("GET", "/healthz", healthz), Route("GET", "/readyz", readyz)]


def _failures(checks: dict[str, Check]) -> list[str]:
    failed = []
    for name, check in checks.items():
        try:
            problem = check()
        except Exception as error:  # noqa: BLE001 - a check that raises has failed
            problem = f"{type(error).__name__}: {error}"
        if problem:
            failed.append(f"{name}: {problem}")
    return failed


def _report(checks: dict[str, Check]) -> Response:
    failed = _failures(checks)
    return text(503, "\n".join(failed) + "\n") if failed else text(200, "ok\n")
