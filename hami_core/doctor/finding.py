"""What a check reports, and the report of all checks. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARN = "warn"
    """The installation works, or may work; somebody should look at this."""
    FAIL = "fail"
    """Something does not work, or containers may run without their limits."""
    UNKNOWN = "unknown"
    """The check could not read what it needs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        check: Stable name of the check, such as ``webhook.failure-policy``.
        level: How serious it is.
        object: The object concerned, such as ``Deployment hami-system/hami-scheduler``.
        field: The field or key of that object; may be empty.
        seen: What the check found there.
        fix: What to do; empty when there is nothing to do.
    """

    check: str
    level: Level
    object: str
    field: str
    seen: str
    fix: str = ""


def ok(object_: str, field: str, seen: str) -> Finding:
    """A finding of level ``ok``: ``seen`` says what was found in order."""
    return Finding("", Level.OK, object_, field, seen)


def warn(object_: str, field: str, seen: str, fix: str) -> Finding:
    """A finding of level ``warn``: somebody should look at it."""
    return Finding("", Level.WARN, object_, field, seen, fix)


def fail(object_: str, field: str, seen: str, fix: str) -> Finding:
    """A finding of level ``fail``: something is broken."""
    return Finding("", Level.FAIL, object_, field, seen, fix)


def unknown(object_: str, field: str, seen: str, fix: str = "") -> Finding:
    """A finding of level ``unknown``: the check could not read what it needs."""
    return Finding("", Level.UNKNOWN, object_, field, seen, fix)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one run, in the order of the checks.

    Attributes:
        findings: The findings.
        about: What was examined: a Kubernetes version or a node.
    """

    findings: tuple[Finding, ...]
    about: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each level there are."""
        found = Counter(finding.level for finding in self.findings)
        return {level.value: found[level] for level in Level}

    def exit_status(self, *, strict: bool = False) -> int:
        """1 if any finding is ``fail`` (with ``strict`` also ``warn`` or ``unknown``), else 0."""
        bad = {Level.FAIL, Level.WARN, Level.UNKNOWN} if strict else {Level.FAIL}
        return int(any(finding.level in bad for finding in self.findings))
