"""The results as a table for people, as plain columns in a pipe, and as JSON for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from hami_core import plain_table
from hami_core.documents import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console

    from hami_core.simulate.measures import Series, Summary
    from hami_core.simulate.run import Result
    from hami_core.simulate.workload import Workload
    from hami_core.simulate.world import Unreadable

FORMAT: Final = 1
"""Version of the JSON document. Within one version, fields are only added."""
_LONGEST_REASON: Final = 1000


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


def _time(seconds: float) -> str:
    """A time with its unit, such as ``45 s``, ``12.5 m``, ``3.2 h`` or ``1.5 d``."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nth(values: Sequence[float], at: int, form: Callable[[float], str]) -> str:
    return form(values[at]) if values else "-"


def _milliseconds(value: float) -> str:
    return f"{value:.2f}"


_COLUMNS: Final[tuple[tuple[str, Callable[[Summary], str]], ...]] = (
    ("memory %", lambda one: _percent(one.memory)),
    ("cores %", lambda one: _percent(one.cores)),
    ("cards %", lambda one: _percent(one.cards)),
    ("fragmented %", lambda one: _percent(one.fragmentation)),
    ("stranded memory %", lambda one: _percent(one.stranded_memory)),
    ("stranded cores %", lambda one: _percent(one.stranded_cores)),
    ("wait p50", lambda one: _nth(one.wait_s, 0, _time)),
    ("wait p90", lambda one: _nth(one.wait_s, 1, _time)),
    ("wait p99", lambda one: _nth(one.wait_s, 2, _time)),
    ("wait max", lambda one: _nth(one.wait_s, 3, _time)),
    ("never placed", lambda one: str(one.never)),
    ("Filter p50 ms", lambda one: _nth(one.filter_ms, 0, _milliseconds)),
    ("Filter p99 ms", lambda one: _nth(one.filter_ms, 1, _milliseconds)),
)
"""Columns of the table: title with the unit, and the text of a value."""


def show(about: str, results: Sequence[Result], workload: Workload, console: Console) -> None:
    """Print the results: a table on a terminal, else columns of plain text that are two blanks apart.

    The table has a column for each policy, so that four policies fit into 80 characters.
    """
    if console.is_terminal:
        table = Table("", pad_edge=False)
        for one in results:
            table.add_column(f"{one.policy.node}/\n{one.policy.device}", justify="right")
        for title, text in _COLUMNS:
            table.add_row(title, *(text(one.summary) for one in results))
        console.print(Text(about))
        console.print(table)
        for line in _never(results, workload):
            console.print(Text(line))
        return
    titles = ["policy", *(title for title, _ in _COLUMNS)]
    rows = [[str(one.policy), *(text(one.summary) for _, text in _COLUMNS)] for one in results]
    print(about, file=console.file)
    titles = [title.replace(" ", "-") for title in titles]
    rows = [[text.replace(" ", "") for text in row] for row in rows]
    for line in plain_table.table([titles, *rows], range(1, len(titles))):
        print(line, file=console.file)
    for line in _never(results, workload):
        print(line, file=console.file)


def show_unreadable(found: Iterable[Unreadable], console: Console) -> None:
    """Print the objects that can't be read, one a line."""
    for one in found:
        text = f"{one.kind} {one_line(one.name)}: can't be read: {one_line(one.problem)} ({one_line(one.effect)})"
        console.print(Text(text), soft_wrap=True)


def about(workload: Workload, *, nodes: int, cards: int, memory_mib: int) -> str:
    """The size of the cluster and of the workload, in one line."""
    span = workload.arrival_s[-1] - workload.arrival_s[0] if len(workload) else 0.0
    return (
        f"{_counted(nodes, 'node')}, {_counted(cards, 'card')}, {memory_mib} MiB; {_counted(len(workload), 'pod')} of"
        f" {_counted(len(workload.shapes), 'shape')} arrive within {_time(span)}"
    )


def _never(results: Sequence[Result], workload: Workload) -> Iterator[str]:
    """Why pods were never placed. Policies with the same reason share a line."""
    groups: dict[tuple[int, int, str], list[str]] = {}
    for one in results:
        for shape, count in sorted(one.outcome.never.items()):
            groups.setdefault((shape, count, one.outcome.why[shape]), []).append(str(one.policy))
    for (shape, count, why), policies in groups.items():
        which = "" if len(policies) == len(results) else f" with {', '.join(policies)}"
        label = one_line(workload.shapes[shape].label)
        yield f"never placed{which}: {_counted(count, 'pod')} like {label}: {one_line(why, _LONGEST_REASON)}"


def as_json(
    results: Sequence[Result],
    workload: Workload,
    unreadable: Sequence[Unreadable],
    *,
    nodes: int,
    cards: int,
    memory_mib: int,
) -> dict[str, Any]:
    """The results as plain data. Shares are from 0 to 1, times in seconds."""
    return {
        "version": FORMAT,
        "cluster": {"nodes": nodes, "cards": cards, "memoryMiB": memory_mib},
        "workload": {"pods": len(workload), "shapes": len(workload.shapes)},
        "unreadable": [
            {"kind": one.kind, "name": one.name, "problem": one.problem, "effect": one.effect} for one in unreadable
        ],
        "policies": [_result(one, workload) for one in results],
    }


def _result(one: Result, workload: Workload) -> dict[str, Any]:
    summary = one.summary
    return {
        "node": one.policy.node,
        "device": one.policy.device,
        "utilisation": {"memory": summary.memory, "cores": summary.cores, "cards": summary.cards},
        "fragmentation": summary.fragmentation,
        "stranded": {"memory": summary.stranded_memory, "cores": summary.stranded_cores},
        "waitSeconds": dict(zip(("p50", "p90", "p99", "max"), summary.wait_s, strict=False)),
        "filterMilliseconds": dict(zip(("p50", "p99"), summary.filter_ms, strict=False)),
        "placed": summary.placed,
        "neverPlaced": [
            {"like": workload.shapes[shape].label, "pods": count, "why": one.outcome.why[shape]}
            for shape, count in sorted(one.outcome.never.items())
        ],
        "series": _series(one.series),
    }


def _series(series: Series) -> dict[str, list[float]]:
    names = ("timeSeconds", "memory", "cores", "cards", "fragmentation", "strandedMemory", "strandedCores")
    return {
        name: [round(value, 6) if math.isfinite(value) else 0.0 for value in column]
        for name, column in zip(names, series.rows(), strict=True)
    }
