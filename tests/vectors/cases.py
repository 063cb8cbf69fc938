"""Vectors as test parameters.

The files are ``*.json`` in this folder, or in the folder that the environment variable ``HAMI_VECTORS`` names (same
format and names, other cases). A *path* names a part of them: ``"check_uuid"`` is that group's ``cases``,
``"node_lock.parse"`` a list inside a group, ``"vendors/codec.encode"`` one of ``vendors.json``.

A foreign folder may leave groups out: their cases are then none (pytest reports the test as skipped, for want of
parameters), while facts and configuration come from our own files.

A module claims what it runs by calling `cases`, `rows` or `value` with literal paths; test_claims.py finds the parts
nobody claims. A case remembers which of its keys were read: one that no runner looked at fails the test
(`conftest.py`), so a key nobody knows never passes for checked.

Every runner takes every case that the format allows. An input that a case leaves out has the format's default: 0, an
empty text, list or object, no percentage, a healthy device. An answer that a case leaves out is not compared. An
expected error (`ERRORS`) may stand in place of any answer: runners ask the product within `Case.ask`, or give its
verdict to `Case.verdict`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hami_core.errors import HamiError

T = TypeVar("T")

OWN = Path(__file__).parent
FOLDER = Path(os.environ.get("HAMI_VECTORS") or OWN)
FOREIGN = FOLDER.resolve() != OWN

COMMENTARY = frozenset({"src", "origin", "note", "origin_note", "why", "side_effect", "comment"})
"""Keys that speak to people."""
DESCRIPTIONS = frozenset({"meta", "_about"})
"""Parts that describe a file."""


ERRORS = ("error", "error_prefix", "error_contains", "error_suffix", "error_any")
"""Keys that expect an error: the whole text (true: any), its front, a part, its end, any."""


class AnsweredError(Exception):
    """The case expected an error and got it: its test has passed. Not one to catch but in `conftest.py`."""


class Case(Mapping[str, Any]):
    """One case; reading a key marks it as looked at.

    Attributes:
        name: Path and number, for messages.
        head: What the group says beside its cases (configuration, annotation keys).
    """

    def __init__(self, name: str, data: Mapping[str, Any], head: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.head = head or {}
        self._data = data
        self._unread = set(data) - COMMENTARY

    def __getitem__(self, key: str) -> Any:
        self._unread.discard(key)
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self._unread.discard(key)
        return key in self._data

    def __repr__(self) -> str:
        return f"{self.name}: {json.dumps(self._data)}"

    def unknown(self, key: str) -> AssertionError:
        """The error for a value of ``key`` that the runner has no meaning for."""
        return AssertionError(f"{self.name}: {key} {self._data.get(key)!r} is unknown to the runner")

    @property
    def fails(self) -> bool:
        """Whether the case expects an error."""
        return any(key in self for key in ERRORS)

    def check_error(self, *words: str) -> None:
        """Hold an error's words against whichever form of expectation the case has; one of several texts must do.

        ``error`` is the whole text, or its front where HAMi wraps another error behind a colon; true: any error.
        """
        assert self.get("error_any", True) is True, f"{self!r}: error_any must be true"
        assert any(self._expects(text) for text in words), f"{self!r}: {words!r}"

    def _expects(self, words: str) -> bool:
        expected = self.get("error", True)
        return (
            (expected is True or words == expected or words.startswith(f"{expected}: "))
            and words.startswith(self.get("error_prefix", ""))
            and self.get("error_contains", "") in words
            and words.endswith(self.get("error_suffix", ""))
        )

    def ask(self, question: Callable[[], T]) -> T:
        """The product's answer; where the case expects an error, the product must raise it, and the test has passed."""
        if not self.fails:
            return question()
        with pytest.raises(HamiError) as caught:
            question()
        raise self._answered(getattr(caught.value, "problem", ""), str(caught.value))

    def _answered(self, *words: str) -> AnsweredError:
        """The product refuses: that has to be the error expected. A "no" beside the error says nothing more."""
        self.check_error(*words)
        self._unread -= {key for key, value in self._data.items() if not value}
        return AnsweredError()

    def verdict(self, key: str, good: bool, *words: str) -> None:
        """Compare a yes or no with what the case says under ``key``, if it does.

        Args:
            key: Where the expected verdict stands.
            good: The product's.
            words: Why not, where it is a no. Where the case expects an error, one of them must be it, and the test has
                passed.
        """
        if self.fails:
            assert not good, f"{self!r}: expected an error"
            raise self._answered(*(words or ("",)))
        assert good is self.get(key, good), f"{self!r}: {key} is {good} {words}"

    def finish(self) -> None:
        """Fail when keys were left unread."""
        if self._unread:
            raise AssertionError(f"{self.name}: the runner knows nothing of {sorted(self._unread)}: {self!r}")


@cache
def files(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """File name → content of every vector file of a folder."""
    found = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise FileNotFoundError(f"no *.json in {folder}")
    for name, content in found.items():
        if not isinstance(content, dict):
            raise TypeError(f"{folder / name}: expected an object of groups")
    return found


@cache
def groups(folder: Path = FOLDER) -> dict[str, Any]:
    """Group → content, over all files; those of ``vendors.json`` begin with ``vendors/``."""
    merged: dict[str, Any] = {}
    for name, content in files(folder).items():
        for group in content.keys() - DESCRIPTIONS:
            full = f"vendors/{group}" if name.startswith("vendors") else group
            if full in merged:
                raise ValueError(f"{folder / name}: group {group!r} stands in another file too")
            merged[full] = content[group]
    return merged


def value(path: str) -> Any:
    """What stands at a path: a fact, a table, a group."""
    for folder in (FOLDER, OWN):
        found, there = _at(path, groups(folder))
        if there:
            return found
    raise KeyError(f"{FOLDER}: no vectors at {path!r}")


def _at(path: str, found: Any) -> tuple[Any, bool]:
    for step in path.split("."):
        if not isinstance(found, dict) or step not in found:
            return None, False
        found = found[step]
    return found, True


def cases(path: str, *, where: Callable[[Mapping[str, Any]], bool] | None = None) -> list[Any]:
    """The cases at a path as parameters for `pytest.mark.parametrize`.

    Args:
        path: A group with ``cases``, or a list of objects.
        where: Take only the cases for which this holds; whoever filters says elsewhere what becomes of the rest.
    """
    found = _listed(path)
    head = {k: v for k, v in found.items() if k != "cases"} if isinstance(found, dict) else {}
    entries = found["cases"] if isinstance(found, dict) else found
    return [
        pytest.param(Case(f"{path}[{number}]", entry, head), id=f"{path}[{number}]")
        for number, entry in enumerate(entries)
        if where is None or where(entry)
    ]


def _listed(path: str) -> Any:
    """The content of a group with cases; in a foreign folder that leaves it out there are none."""
    found, there = _at(path, groups())
    if not there and not FOREIGN:
        raise KeyError(f"{FOLDER}: no vectors at {path!r}")
    return found if there else []


def rows(path: str) -> list[Any]:
    """The rows of a list of lists at a path as parameters."""
    return [pytest.param(row, id=f"{path}[{number}]") for number, row in enumerate(_listed(path))]


def head(path: str) -> dict[str, Any]:
    """What a group says beside its cases."""
    found = value(path)
    return {key: entry for key, entry in found.items() if key != "cases"}


def parts(body: Any, path: str) -> Iterator[str]:
    """The paths somebody has to claim: groups with cases, else every list and every object of plain values."""
    if isinstance(body, dict) and "cases" not in body:
        inner = {k: v for k, v in body.items() if isinstance(v, dict | list)}
        if inner:
            for key, entry in inner.items():
                yield from parts(entry, f"{path}.{key}")
            return
    yield path
