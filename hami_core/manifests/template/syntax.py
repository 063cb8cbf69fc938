"""What a template consists of, once parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# --- expressions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Field:
    """``.a.b``: the current value, or what is found below it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name.a.b``; the name ``$`` is the value the template was called with."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Nested:
    """A pipeline in parentheses, perhaps with fields of its result."""

    pipeline: Pipeline
    path: tuple[str, ...]


Expression = Literal | Field | Variable | Function | Nested


@dataclass(frozen=True, slots=True)
class Command:
    """A value, or a function with its arguments."""

    head: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which gets the result of the one before as its last argument."""

    commands: tuple[Command, ...]


# --- nodes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """Copied as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """``{{ pipeline }}``."""

    line: int
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Assignment:
    """``{{ $name := pipeline }}``, or ``=`` for a variable that is there."""

    line: int
    name: str
    declares: bool
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class If:
    """``if``, or ``with`` where the value becomes the current one."""

    line: int
    pipeline: Pipeline
    body: Sequence[Node]
    otherwise: Sequence[Node]
    rebinds: bool


@dataclass(frozen=True, slots=True)
class Range:
    """``range``; ``key`` and ``value`` are variables' names or empty."""

    line: int
    key: str
    value: str
    pipeline: Pipeline
    body: Sequence[Node]
    otherwise: Sequence[Node]


Node = Text | Output | Assignment | If | Range
