"""Columns of plain text, for output that other programs read too: no boxes, no colour, and nothing is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def table(rows: Sequence[Sequence[str]], right: Collection[int] = (), *, gap: int = 2) -> Iterator[str]:
    """Rows as lines with aligned columns. Widths are those of a terminal, where a CJK character takes two cells.

    Args:
        rows: Cells, equally many in each row. They are printed as they are.
        right: Indexes of the columns that stand at the right, such as numbers.
        gap: Blanks between columns.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for at, (text, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - cell_len(text))
            cells.append(blanks + text if at in right else text + blanks)
        yield (" " * gap).join(cells).rstrip(" ")
