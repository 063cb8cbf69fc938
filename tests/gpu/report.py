"""Findings of a run: rows with a state, stored as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
RESULTS: Final = Path(__file__).resolve().parent / "results"
"""Folder of the runs that the page shows, one file for each card and driver."""
SIMULATED: Final = RESULTS / "simulated.json"


class State(StrEnum):
    """Whether a row's property holds."""

    HOLDS = "holds"
    BROKEN = "broken"
    FIGURE = "figure"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Row:
    """One property, or one figure without a promise.

    Attributes:
        name: What was tried. Unique in its part.
        state: Whether the property holds.
        says: The finding in words, with units.
        figures: The finding for programs: numbers, whose names end in the unit.
    """

    name: str
    state: State
    says: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Part:
    """The rows of one part, and its duration."""

    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, name: str, holds: bool | None, says: str, **figures: Any) -> Row:
        """Add a row. `holds` is None for a figure without a promise."""
        state = State.FIGURE if holds is None else State.HOLDS if holds else State.BROKEN
        return self.put(Row(name, state, says, figures))

    def leave_out(self, name: str, why: str) -> None:
        """Add a row that says why something was not tried."""
        self.put(Row(name, State.LEFT_OUT, why))

    def put(self, row: Row) -> Row:
        """Add a row unchanged."""
        self.rows.append(row)
        return row

    def broken(self) -> list[Row]:
        """The rows whose property does not hold."""
        return [row for row in self.rows if row.state is State.BROKEN]


@dataclass(slots=True)
class Report:
    """All findings of one run.

    Attributes:
        machine: Card, driver and other facts about the machine, by name.
        notices: What makes the figures less reliable, such as other processes on the card.
        command: The command line of the run.
        parts: Parts by name, in the order of the run.
    """

    machine: dict[str, str]
    notices: list[str]
    command: str
    parts: dict[str, Part] = field(default_factory=dict)

    def broken(self) -> list[tuple[str, Row]]:
        """Part name and row of each property that does not hold."""
        return [(name, row) for name, part in self.parts.items() for row in part.broken()]

    def write(self, path: Path) -> None:
        """Write the report as JSON with one row a line, so that two runs can be compared."""
        whole = asdict(self)
        lines = [f'  "format": {FORMAT}']
        lines += [f"  {json.dumps(key)}: {json.dumps(whole[key])}" for key in ("machine", "notices", "command")]
        parts = []
        for name, part in whole["parts"].items():
            rows = ",\n".join(f"      {json.dumps(row)}" for row in part["rows"])
            head = f'    {json.dumps(name)}: {{"seconds": {part["seconds"]:.1f}, "rows": ['
            parts.append(f"{head}\n{rows}\n    ]}}" if rows else f"{head}]}}")
        lines.append('  "parts": {\n' + ",\n".join(parts) + "\n  }")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> Report:
    """Read a report that `Report.write` wrote.

    Raises:
        ValueError: The file has another format.
    """
    whole = json.loads(path.read_text())
    if whole.get("format") != FORMAT:
        raise ValueError(f"{path}: format {whole.get('format')}, this kit reads {FORMAT}: run the kit again")
    parts = {
        name: Part([Row(row["name"], State(row["state"]), row["says"], row["figures"]) for row in part["rows"]])
        for name, part in whole["parts"].items()
    }
    for name, part in parts.items():
        part.seconds = whole["parts"][name]["seconds"]
    return Report(whole["machine"], whole["notices"], whole["command"], parts)
