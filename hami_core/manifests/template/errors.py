"""What goes wrong in a template."""

from __future__ import annotations

from hami_core.errors import ConfigError


class TemplateError(ConfigError):
    """A template can't be parsed or executed.

    Args:
        where: File and line.
        problem: What is wrong.
    """
