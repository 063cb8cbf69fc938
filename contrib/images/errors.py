"""Errors of building images."""

from __future__ import annotations


class MissingTool(RuntimeError):  # noqa: N818 - the name is the message
    """A program or a source of packages is missing.

    Args:
        what: What is missing.
        how: How to get it.
    """

    def __init__(self, what: str, how: str) -> None:
        super().__init__(f"{what} is missing: {how}")


class BuildError(RuntimeError):
    """A step failed. The message names the step and has its output."""
