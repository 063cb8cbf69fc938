"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Verdict of one check."""

    OK = "ok"
    WRONG = "wrong"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: its name, `part.property`.
        state: the verdict.
        found: what was found.
        fix: what to do; only where something is wrong.
    """

    check: str
    state: State
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, found)


def wrong(check: str, found: str, fix: str) -> Finding:
    """Something is not as it has to be."""
    return Finding(check, State.WRONG, found, fix)


def not_applicable(check: str, found: str) -> Finding:
    """There is nothing to judge here, and that is no fault."""
    return Finding(check, State.NOT_APPLICABLE, found)
