"""What goes wrong with a bed, each kind by name."""

from __future__ import annotations


class BedError(RuntimeError):
    """The bed, or something asked of it, failed; the message says what and what to do."""


class MissingTool(BedError):  # noqa: N818 - says what happened
    """A program is neither there nor can be had; the message says how to get it."""


class ApiRefused(BedError):  # noqa: N818 - says what happened
    """The API server answered with an error."""

    def __init__(self, status: int, message: str, request: str) -> None:
        super().__init__(f"{request}: {status}: {message}")
        self.status = status
        self.message = message


class NotInTime(BedError):  # noqa: N818 - says what happened
    """A condition did not come true in the time given."""
