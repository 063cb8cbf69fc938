"""Vectors as test parameters.

The files are ``*.json`` in this folder, or in the folder that the environment variable ``HAMI_VECTORS`` names (same
format and names, other cases). A *path* names a part of them: ``"check_uuid"`` is that group's ``cases``,
``"node_lock.parse"`` a list inside a group, ``"vendors/codec.encode"`` one of ``vendors.json``.

A foreign folder may leave out groups. Tests of a missing group have no parameters, so pytest skips them. Facts and
configuration that a foreign folder lacks come from our own files.

A module claims the parts that it runs by calling `cases`, `rows` or `value` with literal paths. test_claims.py finds
parts without a claim. A case records which of its keys were read. `conftest.py` fails a test that left a key unread, so
that an unknown key never counts as checked.

Every runner takes every case that the format allows. An input that a case leaves out has the format's default: 0, an
empty text, list or object, no percentage, a healthy device. An answer that a case leaves out is not compared. An
expected error (`ERRORS`) may replace any answer. So runners call the product in `Case.ask`, or pass its verdict to
`Case.verdict`.
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
"""Keys with comments for readers."""
DESCRIPTIONS = frozenset({"meta", "_about"})
"""Parts that describe a file."""


ERRORS = ("error", "error_prefix", "error_contains", "error_suffix", "error_any")
"""Keys of an expected error: its whole text (true: any error), beginning, a part, end, or any error."""


class AnsweredError(Exception):
    """The case expected an error and got it, so its test has passed. Only `conftest.py` catches this."""


class Case(Mapping[str, Any]):
    """One case. It records which keys were read.

    Attributes:
        name: Path and number, for messages.
        head: The group's other entries, such as configuration and annotation keys.
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
        """The error for a value of ``key`` that the runner does not know."""
        return AssertionError(f"{self.name}: {key} {self._data.get(key)!r} is unknown to the runner")

    @property
    def fails(self) -> bool:
        """Whether the case expects an error."""
        return any(key in self for key in ERRORS)

    def check_error(self, *words: str) -> None:
        """Check that one of these texts is the error that the case expects.

        ``error`` is the whole text, or its beginning if HAMi appends another error after a colon. True means any error.
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
        """The product's answer. If the case expects an error, the product must raise it, and the test has passed."""
        if not self.fails:
            return question()
        with pytest.raises(HamiError) as caught:
            question()
        raise self._answered(getattr(caught.value, "problem", ""), str(caught.value))

    def _answered(self, *words: str) -> AnsweredError:
        """Check a refusal against the expected error. A false or empty answer in the same case adds nothing."""
        self.check_error(*words)
        self._unread -= {key for key, value in self._data.items() if not value}
        return AnsweredError()

    def verdict(self, key: str, good: bool, *words: str) -> None:
        """Compare a yes or no with the case's entry ``key``, if it has one.

        Args:
            key: Key of the expected verdict.
            good: The product's verdict.
            words: Reasons for a no. If the case expects an error, one of them must match it, and the test has passed.
        """
        if self.fails:
            assert not good, f"{self!r}: expected an error"
            raise self._answered(*(words or ("",)))
        assert good is self.get(key, good), f"{self!r}: {key} is {good} {words}"

    def finish(self) -> None:
        """Fail if a key was left unread."""
        if self._unread:
            raise AssertionError(f"{self.name}: keys unknown to the runner: {sorted(self._unread)}: {self!r}")


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
                raise ValueError(f"{folder / name}: another file also has the group {group!r}")
            merged[full] = content[group]
    return merged


def value(path: str) -> Any:
    """The value at a path: a fact, a table, a group."""
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
        where: Take only the cases for which this is true. The caller accounts for the others elsewhere.
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
    """The content of a group with cases. Empty if a foreign folder leaves out the group."""
    found, there = _at(path, groups())
    if not there and not FOREIGN:
        raise KeyError(f"{FOLDER}: no vectors at {path!r}")
    return found if there else []


def rows(path: str) -> list[Any]:
    """The rows of a list of lists at a path as parameters."""
    return [pytest.param(row, id=f"{path}[{number}]") for number, row in enumerate(_listed(path))]


def head(path: str) -> dict[str, Any]:
    """The entries of a group other than its cases."""
    found = value(path)
    return {key: entry for key, entry in found.items() if key != "cases"}


def parts(body: Any, path: str) -> Iterator[str]:
    """The paths that need a claim: groups with cases; in other groups, every list and every object of plain values."""
    if isinstance(body, dict) and "cases" not in body:
        inner = {k: v for k, v in body.items() if isinstance(v, dict | list)}
        if inner:
            for key, entry in inner.items():
                yield from parts(entry, f"{path}.{key}")
            return
    yield path
