"""Facts: a driver's answers beside those of the simulated driver. If they differ, the simulated driver is wrong."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from .report import SIMULATED, read

if TYPE_CHECKING:
    from .bed import Bed
    from .report import Part

GROUPS: Final = ("beginning", "queries", "allocations", "mappings", "pools", "graphs", "streams")


def ask(bed: Bed) -> dict[str, int | str]:
    """Questions, and the driver's answers. ``signal 11`` if the driver ends the program."""
    program, env = bed.program("facts"), bed.bare().env()
    answers: dict[str, int | str] = {}
    for group in GROUPS:
        done = subprocess.run([program, group], env=env, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            question, _, answer = line.partition("\t")
            answers[question] = int(answer)
        if done.returncode != 0:
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"ended: {done.stderr.strip()}"
            answers[f"{group}, after {question if done.stdout else 'nothing'}"] = how
    return answers


def run(bed: Bed, part: Part) -> None:
    """Add one row for each question."""
    known = {}
    if SIMULATED.exists() and "facts" in (report := read(SIMULATED)).parts:
        known = {row.name: row.figures["answer"] for row in report.parts["facts"].rows}
    for question, answer in ask(bed).items():
        if question in known:
            holds, beside = answer == known[question], known[question]
            says = f"{answer}" if holds else f"{answer}; the simulated driver answers {beside}"
        else:
            holds, says = None, f"{answer}"
        part.add(question, holds, says, answer=answer)
