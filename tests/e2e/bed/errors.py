"""Errors of a bed."""

from __future__ import annotations


class BedError(RuntimeError):
    """The bed or an operation on it failed. The message says what failed and what to do."""


class MissingTool(BedError):  # noqa: N818 - says what happened
    """A program is missing and cannot be fetched or built. The message says how to get it."""


class ApiRefused(BedError):  # noqa: N818 - says what happened
    """The API server answered with an error."""

    def __init__(self, status: int, message: str, request: str) -> None:
        super().__init__(f"{request}: {status}: {message}")
        self.status = status
        self.message = message


class NotInTime(BedError):  # noqa: N818 - says what happened
    """A condition did not become true in time."""
