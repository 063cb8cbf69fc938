"""Every part of the vector files is run by a module here, or listed in later.py with the work that it waits for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cases import FOREIGN, groups, parts, value
from .later import LATER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.vectors


def claims() -> set[str]:
    """Literal paths in calls of `cases`, `rows` and `value` in the modules of this folder."""
    return {path for module in Path(__file__).parent.glob("test_*.py") for path in _claimed(module)}


def _claimed(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"cases", "rows", "value"}
        ):
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield first.value


def _covers(claim: str, part: str) -> bool:
    """Whether a claim covers a part: the part is at or below the claim, or contains it."""
    return part == claim or part.startswith(f"{claim}.") or claim.startswith(f"{part}.")


def test_every_part_is_claimed_or_listed_as_later_work():
    claimed = claims() | set(LATER)
    forgotten = [
        p for name, body in groups().items() for p in parts(body, name) if not any(_covers(c, p) for c in claimed)
    ]
    assert not forgotten, f"vectors that no module runs: {forgotten}"


def test_table_of_later_work_has_no_stale_line():
    claimed = claims()
    both = [later for later in LATER if any(_covers(later, claim) for claim in claimed)]
    assert not both, f"these are run, remove them from LATER: {both}"
    if not FOREIGN:
        present = [p for name, body in groups().items() for p in parts(body, name)]
        stale = [c for c in set(LATER) if not any(_covers(c, p) for p in present)]
        stale += [claim for claim in claimed if value(claim) is None]
        assert not stale, f"no such vectors: {stale}"
