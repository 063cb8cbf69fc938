"""Template text → pieces of text and actions, actions → tokens."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hami_core.manifests.template.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ACTION = re.compile(
    r"""\{\{ (?P<left>-(?=\s))? \s*
    (?: /\*.*?\*/ \s*
      | (?P<body> (?: "(?:\\.|[^"\\])*" | `[^`]*` | (?!\}\}). )*? )
    )
    (?P<right>(?<=\s)-)? \}\}""",
    re.DOTALL | re.VERBOSE,
)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:\\.|[^"\\])*")
    | `(?P<raw>[^`]*)`
    | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<variable>\$\w*(?:\.\w+)*)
    | (?P<field>(?:\.\w+)+|\.)
    | (?P<word>\w+)
    | (?P<mark>:=|=|\||,|\(|\))
    )""",
    re.VERBOSE,
)


class Piece(NamedTuple):
    """Text, or the inside of an action (``None`` for a comment's)."""

    line: int
    text: str
    action: str | None = None
    is_action: bool = False


class Token(NamedTuple):
    """One token: ``string``, ``number``, ``variable``, ``field``, ``word`` or the mark itself.

    ``is_glued`` says that no space stands before it: fields of what is in parentheses.
    """

    kind: str
    value: Any
    is_glued: bool = False


def pieces(text: str) -> Iterator[Piece]:
    """Split a template; white space that ``{{-`` and ``-}}`` take away is gone."""
    at, line, trims = 0, 1, False
    for action in _ACTION.finditer(text):
        before = text[at : action.start()]
        shown = before.lstrip() if trims else before
        yield Piece(line, shown.rstrip() if action["left"] else shown)
        line += before.count("\n")
        yield Piece(line, "", action["body"], is_action=True)
        line += action[0].count("\n")
        at, trims = action.end(), bool(action["right"])
    yield Piece(line, text[at:].lstrip() if trims else text[at:])


def tokens(action: str, where: str) -> list[Token]:
    """The tokens of an action.

    Raises:
        TemplateError: Something in it is none.
    """
    found, at = [], 0
    while action[at:].strip():
        match = _TOKEN.match(action, at)
        if match is None or match.lastgroup is None:
            raise TemplateError(where, f"can't read {action[at:].strip()!r}")
        kind, value = match.lastgroup, match[match.lastgroup]
        glued = match.start(match.lastgroup) == at
        found.append(_token(kind, value, is_glued=glued))
        at = match.end()
    return found


def _token(kind: str, value: str, *, is_glued: bool) -> Token:
    if kind == "string":
        return Token("literal", json.loads(value), is_glued)
    if kind == "raw":
        return Token("literal", value, is_glued)
    if kind == "number":
        return Token("literal", float(value) if "." in value else int(value), is_glued)
    if kind == "word" and value in {"true", "false", "nil"}:
        return Token("literal", {"true": True, "false": False, "nil": None}[value], is_glued)
    return Token(value if kind == "mark" else kind, value, is_glued)
