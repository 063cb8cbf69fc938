"""Writes the page `docs/reference/accuracy.md` from the kept runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .bed import ROOT
from .report import RESULTS, SIMULATED, State, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .report import Report, Row

PAGE: Final = ROOT / "docs/reference/accuracy.md"
HEAD: Final = Path(__file__).with_name("page.md")
TITLES: Final = {
    "doors": "Doors and views",
    "memory": "Memory",
    "compute": "Compute",
    "cost": "Cost",
    "priority": "Priorities",
    "facts": "Facts",
}
MARKS: Final = {State.HOLDS: "✓", State.BROKEN: "✗", State.FIGURE: ""}
NO_CARD: Final = """
## No card yet

No real card has been measured yet. The figures below come from the simulated driver. They show how the library behaves
on our model of a card, and say nothing about yours. If you run the kit, please send us the JSON.
"""


def _table(rows: Iterable[Row], beside: dict[str, Row]) -> list[str]:
    """Rows as a table, beside the simulated driver's findings if there are any."""
    head = ["", "what", "found", *(["simulated"] if beside else [])]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    left_out = [f"{row.name} ({row.says})" for row in rows if row.state is State.LEFT_OUT]
    for row in rows:
        if row.state is State.LEFT_OUT:
            continue
        cells = [MARKS[row.state], row.name, row.says.replace("|", "/").replace("\n", " ")]
        if beside:
            cells.append(beside[row.name].says.replace("|", "/") if row.name in beside else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines + (["", f"Not tried: {', '.join(left_out)}."] if left_out else [])


def section(report: Report, simulated: Report | None) -> str:
    """One run as a section."""
    machine = report.machine
    title = f"{machine['card']}, driver {machine['driver']}"
    lines = [f"\n## {title}\n", f"`{report.command}`, {machine['date']}. {machine['memory']}.", ""]
    lines += [f"- {key}: {value}" for key, value in machine.items() if key not in {"card", "driver", "date", "memory"}]
    lines += [f"- **{notice}**" for notice in report.notices]
    for name, part in report.parts.items():
        beside = {row.name: row for row in simulated.parts[name].rows} if simulated and name in simulated.parts else {}
        lines += ["", f"### {TITLES[name]} ({machine['card']})", "", *_table(part.rows, beside)]
    return "\n".join(lines) + "\n"


def render() -> str:
    """The text of the page."""
    simulated = read(SIMULATED) if SIMULATED.exists() else None
    cards = [read(path) for path in sorted(RESULTS.glob("*.json")) if path != SIMULATED]
    sections = [section(report, simulated) for report in cards] or [NO_CARD]
    return HEAD.read_text() + "".join(sections) + (section(simulated, None) if simulated else "")
