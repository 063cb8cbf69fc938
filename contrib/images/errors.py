"""What can be missing on a machine that builds images."""

from __future__ import annotations


class MissingTool(RuntimeError):  # noqa: N818 - named after what it says
    """A program or a source of packages is not there.

    Args:
        what: What is missing.
        how: How to get it.
    """

    def __init__(self, what: str, how: str) -> None:
        super().__init__(f"{what} is missing: {how}")


class BuildError(RuntimeError):
    """A step failed; the message says which and what it printed."""
