"""The part of Go's text/template, and of helm's functions, that our chart is written in.

What the chart doesn't use isn't there and is refused by name, so a template either means here what it means to helm or
isn't rendered. Tests on real helm compare both.
"""

from __future__ import annotations

from hami_core.manifests.template.errors import TemplateError
from hami_core.manifests.template.evaluate import Templates

__all__ = ["TemplateError", "Templates"]
