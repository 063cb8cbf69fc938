"""The live view of ``hami top``, by textual. Cells are text and never markup, whatever a cluster writes into them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from hami_core.errors import ConfigError
from hami_core.top.model import Filter, age
from hami_core.top.rows import COLUMNS, VIEWS, column, shown, summary
from hami_core.top.view import ask, show

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from hami_core.top.gather import Gatherer
    from hami_core.top.view import Options, Shown

MOST_ROWS: Final = 500
"""Rows of a table, unless ``--limit`` says otherwise. A terminal shows fewer, and drawing thousands takes seconds."""
ASKING: Final = "asking the scheduler …"


class Top(App[None]):
    """The view.

    Args:
        gatherer: Asks the cluster.
        options: What to show at first.
        interval: Seconds between two looks.
    """

    CSS = """
    #summary { height: auto; padding: 0 1; text-style: bold; }
    #lines { height: auto; max-height: 5; padding: 0 1; color: $warning; }
    #filter { display: none; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "view('nodes')", "Nodes"),
        Binding("2", "view('cards')", "Cards"),
        Binding("3", "view('slices')", "Slices"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("space", "pause", "Pause"),
        Binding("escape", "leave", "Back", show=False),
        Binding("q", "quit", "Quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, gatherer: Gatherer, options: Options, interval: float) -> None:
        super().__init__()
        self._gatherer = gatherer
        self._options = replace(options, limit=options.limit or MOST_ROWS)
        self._interval = interval
        self._paused = False
        self._looking = False
        self._again = False

    def compose(self) -> ComposeResult:
        """The parts, from the top."""
        yield Static(ASKING, id="summary", markup=False)
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="node=gpu-*  model=…  namespace=…  pod=…  or a word", id="filter")
        yield Static("", id="lines", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(DataTable).focus()
        self._look()
        self.set_interval(self._interval, self._look)

    # --- looking

    def _look(self) -> None:
        """Look again, unless a look is still under way, or the view is paused."""
        if not self._paused and not self._looking:
            self._look_now()

    def _look_now(self) -> None:
        """Look by options that have changed, even if the view is paused. A look under way is finished first."""
        self._again = True
        if not self._looking:
            self._looking = True
            self.run_worker(self._ask(), exit_on_error=True)

    async def _ask(self) -> None:
        try:
            while self._again:
                self._again = False
                await ask(self._gatherer, self._options, self._draw)
                self._draw()
        finally:
            self._looking = False

    # --- drawing

    def _draw(self) -> None:
        if not self.is_running:  # the view is closing, and its parts may be gone
            return
        if not self._gatherer.covers(self._options.nodes):  # a look by the new filter is under way
            self.query_one("#summary", Static).update(ASKING)
            return
        now = show(self._gatherer.snapshot(), self._options)
        self.query_one("#summary", Static).update(self._head(now))
        self.query_one("#lines", Static).update("\n".join(now.lines))
        table = self.query_one(DataTable)
        at = table.cursor_row, table.scroll_y
        table.clear(columns=True)
        for each in COLUMNS[self._options.view]:
            chosen = self._options.sort is not None and self._options.sort.key == each.key
            table.add_column(Text(each.header, style="reverse" if chosen else ""), key=each.key)
        for row in now.rows:
            table.add_row(
                *(
                    Text(shown(row[each.key]), justify="right" if each.number else "left")
                    for each in COLUMNS[self._options.view]
                )
            )
        table.move_cursor(row=at[0], animate=False)
        table.scroll_to(y=at[1], animate=False)

    def _head(self, now: Shown) -> str:
        snapshot = now.snapshot
        words = [summary(snapshot, now.cards)]
        late = snapshot.now - snapshot.usage_at
        if snapshot.has_bookings and late > 2 * self._interval + 1:
            words.append(f"bookings of {age(late)} ago")
        words += [f"filter: {' '.join(map(str, self._options.filters))}"] if self._options.filters else []
        words += ["paused"] if self._paused else []
        return " | ".join(words)

    # --- keys

    def action_view(self, view: str) -> None:
        """Show nodes, cards or slices."""
        if view not in VIEWS:
            return
        sort = self._options.sort
        keep = sort if sort in COLUMNS[view] else None
        self._options = replace(self._options, view=view, sort=keep)
        self._draw()
        self._look_now()

    def action_sort(self) -> None:
        """Sort by the next column, after the last one by none."""
        keys = [each.key for each in COLUMNS[self._options.view]]
        at = keys.index(self._options.sort.key) + 1 if self._options.sort is not None else 0
        self._sort_by(keys[at] if at < len(keys) else "")

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose header was clicked."""
        self._sort_by(event.column_key.value or "")

    def _sort_by(self, key: str) -> None:
        self._options = replace(self._options, sort=column(self._options.view, key) if key else None)
        self._draw()

    def action_filter(self) -> None:
        """Show the line for a filter."""
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Filter by what was typed: words and KEY=PATTERN, with spaces between them."""
        try:
            filters = tuple(map(Filter.read, event.value.split()))
        except ConfigError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._options = replace(self._options, filters=filters)
        self.action_leave()
        self._draw()
        self._look_now()

    def action_leave(self) -> None:
        """Go back to the table."""
        self.query_one("#filter", Input).display = False
        self.query_one(DataTable).focus()

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self._paused = not self._paused
        self._draw()
        self._look()
