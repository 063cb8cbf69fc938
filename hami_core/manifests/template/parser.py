"""Tokens → nodes. Functions are checked for being known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.manifests.template.errors import TemplateError
from hami_core.manifests.template.lexer import Token, pieces, tokens
from hami_core.manifests.template.syntax import (
    Assignment,
    Command,
    Expression,
    Field,
    Function,
    If,
    Literal,
    Nested,
    Node,
    Output,
    Pipeline,
    Range,
    Text,
    Variable,
)

if TYPE_CHECKING:
    from collections.abc import Collection

_OPENING: Final = frozenset({"if", "with", "range", "define"})
_UNKNOWN: Final = frozenset({"template", "block", "break", "continue"})


class Parser:
    """Parses one file.

    Args:
        name: File, for messages.
        text: Its content.
        functions: Names that may be called.
    """

    def __init__(self, name: str, text: str, functions: Collection[str]) -> None:
        self.defined: dict[str, list[Node]] = {}
        self._name = name
        self._functions = functions
        self._pieces = list(pieces(text))
        self._at = 0
        self._line = 1
        self._tokens: list[Token] = []

    def parse(self) -> list[Node]:
        """The file's own nodes; what it defines is in `defined`.

        Raises:
            TemplateError: With file and line.
        """
        body, end = self._body()
        if end:
            raise self._error(f"{end} without a beginning")
        return body

    # --- nodes

    def _body(self) -> tuple[list[Node], str]:
        """Nodes up to ``end`` or ``else`` (whose rest is left in the tokens), or to the end of the file."""
        nodes: list[Node] = []
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if not piece.is_action:
                if piece.text:
                    nodes.append(Text(piece.text))
                continue
            if piece.action is None:
                continue
            self._line = piece.line
            self._tokens = tokens(piece.action, self._where)
            word = self._tokens[0].value if self._tokens and self._tokens[0].kind == "word" else ""
            if word in {"end", "else"}:
                self._tokens.pop(0)
                return nodes, word
            nodes.extend(self._action(word))
        return nodes, ""

    def _action(self, word: str) -> list[Node]:
        if word in _UNKNOWN:
            raise self._error(f"{word} is not supported")
        if word in _OPENING:
            self._tokens.pop(0)
            if word == "define":
                self._define()
                return []
            return [self._range() if word == "range" else self._if(rebinds=word == "with")]
        if len(self._tokens) > 1 and self._tokens[0].kind == "variable" and self._tokens[1].kind in {":=", "="}:
            name, mark = self._tokens.pop(0).value, self._tokens.pop(0).kind
            return [Assignment(self._line, name, mark == ":=", self._whole())]
        return [Output(self._line, self._whole())]

    def _define(self) -> None:
        name = self._take("literal").value
        body, end = self._body()
        if end != "end":
            raise self._error(f"define {name!r} has no end")
        self.defined[name] = body

    def _if(self, *, rebinds: bool) -> If:
        line, pipeline = self._line, self._whole()
        body, end = self._body()
        otherwise: list[Node] = []
        if end == "else":
            if self._tokens and self._tokens[0].value in {"if", "with"}:
                return If(line, pipeline, body, [self._if(rebinds=self._tokens.pop(0).value == "with")], rebinds)
            otherwise, end = self._body()
        if end != "end":
            raise self._error(f"what begins in line {line} has no end")
        return If(line, pipeline, body, otherwise, rebinds)

    def _range(self) -> Range:
        line, names = self._line, []
        while len(self._tokens) > 1 and self._tokens[0].kind == "variable" and self._tokens[1].kind in {",", ":="}:
            names.append(self._tokens.pop(0).value)
            if self._tokens.pop(0).kind == ":=":
                break
        key, value = (["", "", *names])[-2:]
        pipeline = self._whole()
        body, end = self._body()
        otherwise: list[Node] = []
        if end == "else":
            otherwise, end = self._body()
        if end != "end":
            raise self._error(f"what begins in line {line} has no end")
        return Range(line, key, value, pipeline, body, otherwise)

    # --- expressions

    def _whole(self) -> Pipeline:
        """The pipeline that the rest of the action is."""
        pipeline = self._pipeline()
        if self._tokens:
            raise self._error(f"unexpected {self._tokens[0].value!r}")
        return pipeline

    def _pipeline(self) -> Pipeline:
        commands = [self._command()]
        while self._tokens and self._tokens[0].kind == "|":
            self._tokens.pop(0)
            commands.append(self._command())
        return Pipeline(tuple(commands))

    def _command(self) -> Command:
        expressions = []
        while self._tokens and self._tokens[0].kind not in {"|", ")"}:
            expressions.append(self._expression())
        if not expressions:
            raise self._error("a value is missing")
        return Command(expressions[0], tuple(expressions[1:]))

    def _expression(self) -> Expression:
        token = self._tokens.pop(0)
        if token.kind == "literal":
            return Literal(token.value)
        if token.kind == "field":
            return Field(_path(token.value))
        if token.kind == "variable":
            name, _, rest = token.value.partition(".")
            return Variable(name, _path("." + rest))
        if token.kind == "word":
            if token.value not in self._functions:
                raise self._error(f"function {token.value!r} is not supported")
            return Function(token.value)
        if token.kind == "(":
            pipeline = self._pipeline()
            self._take(")")
            follows = self._tokens and self._tokens[0].kind == "field" and self._tokens[0].is_glued
            return Nested(pipeline, _path(self._tokens.pop(0).value) if follows else ())
        raise self._error(f"unexpected {token.value!r}")

    def _take(self, kind: str) -> Token:
        if not self._tokens or self._tokens[0].kind != kind:
            raise self._error(f"expected {kind}")
        return self._tokens.pop(0)

    @property
    def _where(self) -> str:
        return f"{self._name}:{self._line}"

    def _error(self, problem: str) -> TemplateError:
        return TemplateError(self._where, problem)


def _path(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(".") if part)
