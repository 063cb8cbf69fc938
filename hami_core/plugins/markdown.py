"""Turns Google-style docstrings into Markdown, for the reference pages."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION: Final = re.compile(r"(Args|Returns|Raises|Attributes|Example):")
_WORDS: Final = {"Args": "Arguments", "Returns": "Answer"}


def docstring(text: str) -> Iterator[str]:
    """Yield a docstring's lines as Markdown: sections become bold words, arguments a list, an example a code block."""
    for name, lines in _sections(text):
        if name:
            yield from (f"**{_WORDS.get(name, name)}**", "")
        if name == "Example":
            yield from ("```python", *textwrap.dedent("\n".join(lines)).strip().splitlines(), "```", "")
        elif name == "Args":
            yield from _arguments(lines)
        else:
            yield from (_literals(line.strip()) for line in lines)


def _literals(text: str) -> str:
    """Turn double backticks into Markdown's single ones."""
    return text.replace("``", "`")


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each section's name and lines; the name of plain text is empty."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        section = _SECTION.fullmatch(line)
        if section or (name and line and not line.startswith(" ")):
            yield name, lines
            name, lines = (section[1], []) if section else ("", [line])
        else:
            lines.append(line)
    yield name, lines


def _arguments(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if re.match(r" {4}\w+:", line):
            argument, _, text = line.strip().partition(": ")
            yield f"- `{argument}`: {_literals(text)}"
        else:
            yield f"  {_literals(line.strip())}".rstrip()
