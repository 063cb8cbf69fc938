"""Why a Bind did not happen, or may have."""

from __future__ import annotations

from hami_core.errors import HamiError, KubeError


class BindRefusedError(HamiError):
    """The pod is not bound; the message says why."""


class UnsettledError(KubeError):
    """Whether the write happened is not known yet; what was booked and locked for it stays."""

    def __init__(self, problem: str) -> None:
        super().__init__("bind", 0, problem, retryable=True)
