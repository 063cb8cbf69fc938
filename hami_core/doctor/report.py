"""A report as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape
from rich.table import Table

from hami_core.doctor.finding import Finding, Level, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

FORMAT: Final = 1
"""Version of the JSON document. Within one version, fields are only added."""
_STYLE: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red", Level.UNKNOWN: "magenta"}
_SIGN: Final = {Level.OK: "✔ ok", Level.WARN: "▲ warn", Level.FAIL: "✘ fail", Level.UNKNOWN: "? unknown"}


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    listed = [
        {"check": f.check, "level": f.level.value, "object": f.object, "field": f.field, "seen": f.seen, "fix": f.fix}
        for f in report.findings
    ]
    return {"version": FORMAT, "about": report.about, "findings": listed, "counts": report.counts}


def show(report: Report, console: Console) -> None:
    """Print the report as a table on a terminal, else as plain ASCII lines."""
    if console.is_terminal:
        console.print(_table(report))
        console.print(_verdict(report), style="bold")
        return
    for line in lines(report):
        print(line, file=console.file)


def lines(report: Report) -> Iterator[str]:
    """The report as ASCII lines: level, check, finding, and the fix on a line below."""
    for finding in report.findings:
        yield _ascii(f"{finding.level.value.upper():<8}{finding.check:<28}{_what(finding)}")
        if finding.fix:
            yield _ascii(f"{'':<8}{'':<28}-> {finding.fix}")
    yield _verdict(report)


def _what(finding: Finding) -> str:
    where = ": ".join(part for part in (finding.object, finding.field) if part)
    return f"{where}: {finding.seen}" if where else finding.seen


def _ascii(text: str) -> str:
    one_line = " ".join(text.split("\n"))
    return one_line.encode("ascii", "replace").decode()


def _verdict(report: Report) -> str:
    counts = ", ".join(f"{count} {level}" for level, count in report.counts.items())
    return f"{report.about + ': ' if report.about else ''}{counts}"


def _table(report: Report) -> Table:
    table = Table(show_lines=False, expand=False, pad_edge=False)
    for title in ("", "check", "what", "what to do"):
        table.add_column(title, overflow="fold", no_wrap=title in {"", "check"})
    for finding in report.findings:
        style = _STYLE[finding.level]
        table.add_row(f"[{style}]{_SIGN[finding.level]}[/]", finding.check, escape(_what(finding)), escape(finding.fix))
    return table
