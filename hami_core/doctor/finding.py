"""What a check says, and what all of them together mean. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, or may work, and should be looked at."""
    FAIL = "fail"
    """It does not work, or containers may run without their limits."""
    UNKNOWN = "unknown"
    """It could not be looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check found.

    Attributes:
        check: Stable name of the check, such as ``webhook.failure-policy``.
        level: How bad it is.
        object: What it is about, such as ``Deployment hami-system/hami-scheduler``.
        field: Which field or key of it; may be empty.
        seen: What is there.
        fix: What to do; empty where nothing is to be done.
    """

    check: str
    level: Level
    object: str
    field: str
    seen: str
    fix: str = ""


def ok(object_: str, field: str, seen: str) -> Finding:
    """All is well, and this is why we think so."""
    return Finding("", Level.OK, object_, field, seen)


def warn(object_: str, field: str, seen: str, fix: str) -> Finding:
    """Something to look at."""
    return Finding("", Level.WARN, object_, field, seen, fix)


def fail(object_: str, field: str, seen: str, fix: str) -> Finding:
    """Something is broken."""
    return Finding("", Level.FAIL, object_, field, seen, fix)


def unknown(object_: str, field: str, seen: str, fix: str = "") -> Finding:
    """It could not be looked at."""
    return Finding("", Level.UNKNOWN, object_, field, seen, fix)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one run, in the order of the checks.

    Attributes:
        findings: What was found.
        about: What was looked at: a server's address and version, or a node.
    """

    findings: tuple[Finding, ...]
    about: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each level there are."""
        found = Counter(finding.level for finding in self.findings)
        return {level.value: found[level] for level in Level}

    def exit_status(self, *, strict: bool = False) -> int:
        """0 fine; 1 something fails, or with ``strict`` warns or is unknown."""
        bad = {Level.FAIL, Level.WARN, Level.UNKNOWN} if strict else {Level.FAIL}
        return int(any(finding.level in bad for finding in self.findings))
