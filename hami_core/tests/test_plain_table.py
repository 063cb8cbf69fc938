"""Plain columns."""

from __future__ import annotations

from hami_core.plain_table import table


def test_columns_are_aligned_and_numbers_stand_at_the_right():
    rows = [("NAME", "MiB", "WHY"), ("a", "7", ""), ("abcdef", "1024", "x")]
    assert list(table(rows, right={1})) == ["NAME     MiB  WHY", "a          7", "abcdef  1024  x"]


def test_wide_characters_take_two_cells():
    assert list(table([("节点", "1"), ("node", "2")], gap=3)) == ["节点   1", "node   2"]


def test_no_rows_make_no_lines():
    assert list(table([])) == []
