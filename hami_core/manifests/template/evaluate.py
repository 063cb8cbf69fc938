"""Nodes → text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from hami_core.manifests.template.errors import TemplateError
from hami_core.manifests.template.functions import FUNCTIONS, text_of
from hami_core.manifests.template.parser import Parser
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

_LAZY: Final = frozenset({"and", "or"})
_DEPTH: Final = 100
_MISSING: Final = object()


class Templates:
    """Template files that may call what any of them defines.

    Args:
        files: Name → content.

    Raises:
        TemplateError: One can't be parsed.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._bodies: dict[str, list[Node]] = {}
        self._defined: dict[str, tuple[str, list[Node]]] = {}
        known = {*FUNCTIONS, *_LAZY, "include"}
        for name, text in files.items():
            parser = Parser(name, text, known)
            self._bodies[name] = parser.parse()
            self._defined |= {defined: (name, body) for defined, body in parser.defined.items()}

    def render(self, name: str, data: Mapping[str, Any]) -> str:
        """Execute one file.

        Raises:
            TemplateError: With file and line.
        """
        return _Run(self._defined, name, data, 0).text(self._bodies[name])


class _Run:
    """One call of a template."""

    def __init__(self, defined: Mapping[str, tuple[str, list[Node]]], name: str, data: Any, depth: int) -> None:  # noqa: ANN401 - any value
        self._defined = defined
        self._name = name
        self._depth = depth
        self._dot = data
        self._line = 0
        self._variables: list[tuple[str, Any]] = [("$", data)]

    def text(self, nodes: Sequence[Node]) -> str:
        return "".join(self._nodes(nodes))

    # --- nodes

    def _nodes(self, nodes: Sequence[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, Text):
                yield node.text
                continue
            self._line = node.line
            if isinstance(node, Output):
                yield self._guard("print", text_of, self._pipeline(node.pipeline))
            elif isinstance(node, Assignment):
                self._assign(node)
            elif isinstance(node, If):
                yield from self._if(node)
            else:
                yield from self._range(node)

    def _assign(self, node: Assignment) -> None:
        value = self._pipeline(node.pipeline)
        if node.declares:
            self._variables.append((node.name, value))
            return
        for index in reversed(range(len(self._variables))):
            if self._variables[index][0] == node.name:
                self._variables[index] = (node.name, value)
                return
        raise self._error(f"{node.name} is not declared")

    def _if(self, node: If) -> Iterator[str]:
        value = self._pipeline(node.pipeline)
        holds = bool(value)
        yield from self._inside(node.body if holds else node.otherwise, value if holds and node.rebinds else self._dot)

    def _range(self, node: Range) -> Iterator[str]:
        over = self._pipeline(node.pipeline)
        if isinstance(over, Mapping):
            items: list[tuple[Any, Any]] = sorted(over.items())
        elif isinstance(over, list) or over is None:
            items = list(enumerate(over or []))
        else:
            raise self._error(f"range over a {type(over).__name__}")
        if not items:
            yield from self._inside(node.otherwise, self._dot)
        for key, value in items:
            named = [(name, bound) for name, bound in ((node.key, key), (node.value, value)) if name]
            yield from self._inside(node.body, value, named)

    def _inside(self, nodes: Sequence[Node], dot: Any, named: Sequence[tuple[str, Any]] = ()) -> Iterator[str]:  # noqa: ANN401 - any value
        """A body with its own current value; variables declared in it are gone afterwards."""
        outer, mark = self._dot, len(self._variables)
        self._dot = dot
        self._variables += named
        yield from self._nodes(nodes)
        self._dot = outer
        del self._variables[mark:]

    # --- expressions

    def _pipeline(self, pipeline: Pipeline) -> Any:  # noqa: ANN401 - any value
        value: Any = _MISSING
        for command in pipeline.commands:
            value = self._command(command, value)
        return value

    def _command(self, command: Command, last: Any) -> Any:  # noqa: ANN401 - any value
        head = command.head
        if isinstance(head, Function) and head.name in _LAZY:
            return self._lazy(head.name, command.arguments, last)
        function = self._function(head.name) if isinstance(head, Function) else None
        if function is None:
            found = self._value(head)
            if not callable(found):
                if command.arguments or last is not _MISSING:
                    raise self._error("something that is no function is given arguments")
                return found
            function = found
        arguments = [self._value(argument) for argument in command.arguments]
        name = head.name if isinstance(head, Function) else "call"
        return self._guard(name, function, *arguments, *([] if last is _MISSING else [last]))

    def _lazy(self, name: str, arguments: Sequence[Expression], last: Any) -> Any:  # noqa: ANN401 - any value
        """``and``, ``or``: the first argument that decides, those behind it are not looked at."""
        value: Any = None
        for argument in arguments:
            value = self._value(argument)
            if bool(value) == (name == "or"):
                return value
        return value if last is _MISSING else last

    def _value(self, expression: Expression) -> Any:  # noqa: ANN401 - any value
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Field):
            return self._below(self._dot, expression.path)
        if isinstance(expression, Variable):
            return self._below(self._variable(expression.name), expression.path)
        if isinstance(expression, Nested):
            return self._below(self._pipeline(expression.pipeline), expression.path)
        return self._command(Command(expression, ()), _MISSING)

    def _variable(self, name: str) -> Any:  # noqa: ANN401 - any value
        for known, value in reversed(self._variables):
            if known == name:
                return value
        raise self._error(f"{name} is not declared")

    def _below(self, value: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 - any value
        for part in path:
            if not isinstance(value, Mapping):
                raise self._error(f".{part} of {'nothing' if value is None else 'a ' + type(value).__name__}")
            value = value.get(part)
        return value

    def _function(self, name: str) -> Callable[..., Any]:
        return self._include if name == "include" else FUNCTIONS[name]

    def _include(self, name: str, data: Any) -> str:  # noqa: ANN401 - any value
        if name not in self._defined:
            raise self._error(f"template {name!r} is not defined")
        if self._depth >= _DEPTH:
            raise self._error(f"template {name!r} includes itself without end")
        file, body = self._defined[name]
        return _Run(self._defined, file, data, self._depth + 1).text(body)

    def _guard(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - any value
        try:
            return function(*arguments)
        except TemplateError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._error(f"{name}: {error}") from error

    def _error(self, problem: str) -> TemplateError:
        return TemplateError(f"{self._name}:{self._line}", problem)
