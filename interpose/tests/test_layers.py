"""The library's files depend on each other one way; what has to be told upwards goes through events.c."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
INCLUDE = re.compile(r'^#include "(?:\w+/)?(\w+)\.h"', re.MULTILINE)
ALL_KNOWING = "events"


def part(path: Path) -> str:
    """A file's name without suffix; the files of compute/ and its headers are one part."""
    inside = path.parent.name == "compute" or path.stem in {"compute", "machine"}
    return "compute" if inside else path.stem


def includes(root: Path) -> dict[str, set[str]]:
    """The parts that each part's source and header include."""
    files = sorted(root.glob("src/**/*.[ch]"))
    graph: dict[str, set[str]] = {part(file): set() for file in files}
    for file in files:
        graph[part(file)] |= {part(Path(name)) for name in INCLUDE.findall(file.read_text())} - {part(file)}
    return graph


def order(graph: dict[str, set[str]]) -> list[str]:
    """Parts, each after what it includes; raises where they go in a circle."""
    told = {name: uses - {ALL_KNOWING} for name, uses in graph.items()}
    return list(TopologicalSorter(told).static_order())


def test_includes_point_one_way() -> None:
    graph = includes(HERE)
    names = order(graph)
    lower = [names.index(name) for name in ("region", "guest", "charge", "context", "account", "memory")]
    assert lower == sorted(lower)
    assert {"account", "compute", "pool", "parts"} <= graph[ALL_KNOWING]


def test_a_circle_is_seen() -> None:
    graph = includes(HERE)
    graph["region"].add("account")
    with pytest.raises(CycleError):
        order(graph)
