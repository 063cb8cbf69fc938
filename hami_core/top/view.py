"""What a person asked ``hami top`` to show, and one look at the cluster by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_core.documents import one_line
from hami_core.top.model import Filter, chosen
from hami_core.top.rows import column, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_core.top.gather import Gatherer
    from hami_core.top.model import Card, Snapshot
    from hami_core.top.rows import Column, Row


@dataclass(frozen=True, slots=True)
class Options:
    """What to show.

    Attributes:
        view: ``nodes``, ``cards`` or ``slices``.
        sort: Column to sort by; None: by node and card.
        filters: All must match.
        limit: Most rows; None: any number.
        agents: Whether agents are asked.
        as_json: Whether everything is printed as JSON, whatever the view.
    """

    view: str = "nodes"
    sort: Column | None = None
    filters: tuple[Filter, ...] = ()
    limit: int | None = None
    agents: bool = True
    as_json: bool = False

    @property
    def needs_names(self) -> bool:
        """Whether names of pods are shown or decide."""
        return self.as_json or self.view == "slices" or any(each.needs_names for each in self.filters)

    @property
    def needs_all_agents(self) -> bool:
        """Whether values of nodes that are not shown decide which are shown."""
        return self.sort is not None and self.sort.measured

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the only nodes that can be shown; empty: any node can."""
        return tuple(each.exact_node for each in self.filters if each.exact_node)[:1]


def read_options(
    view: str, *, sort: str, filters: Sequence[str], limit: int | None, no_agents: bool, as_json: bool
) -> Options:
    """Check what the command line says.

    Raises:
        ConfigError: A column or a filter is unknown.
    """
    chosen_by = tuple(map(Filter.read, filters))
    return Options(view, column(view, sort) if sort else None, chosen_by, limit, not no_agents, as_json)


@dataclass(frozen=True, slots=True)
class Shown:
    """One look.

    Attributes:
        snapshot: The cluster.
        cards: The cards that filters and limit leave.
        rows: The rows of the view.
        lines: What could not be asked, and what is left out.
    """

    snapshot: Snapshot
    cards: Sequence[Card]
    rows: Sequence[Row]
    lines: tuple[str, ...]


async def look(gatherer: Gatherer, options: Options) -> Shown:
    """Ask once. Returns what is to be shown."""
    await ask(gatherer, options)
    return show(gatherer.snapshot(), options)


async def ask(gatherer: Gatherer, options: Options, early: Callable[[], None] = lambda: None) -> None:
    """Ask the scheduler, then the agents of the nodes that are shown.

    Args:
        gatherer: Asks, and keeps the answers.
        options: What will be shown.
        early: Called before the agents are asked, which may take seconds.
    """
    await gatherer.bookings(options.nodes)
    if options.needs_names and gatherer.has_bookings:
        await gatherer.name_pods()
    if options.agents:
        early()
        await _measure(gatherer, options)
        if options.needs_names and not gatherer.has_bookings:
            await gatherer.name_pods()


async def _measure(gatherer: Gatherer, options: Options) -> None:
    """Ask the agents whose values are shown."""
    if not gatherer.has_bookings:
        await gatherer.measure()
        return
    snapshot = gatherer.snapshot()
    cards = list(chosen(snapshot, options.filters))
    if options.limit is not None and not options.needs_all_agents:
        cards = _of_rows(cards, rows(options.view, snapshot, cards, options.sort)[: options.limit])
    await gatherer.measure({card.node.name for card in cards})


def show(snapshot: Snapshot, options: Options) -> Shown:
    """The rows of a snapshot."""
    cards = list(chosen(snapshot, options.filters))
    found = rows(options.view, snapshot, cards, options.sort)
    lines = list(snapshot.problems)
    if not found:
        empty = not snapshot.usage.nodes and not options.nodes
        nothing = "no node has cards" if empty else f"no {options.view} match"
        lines += [nothing] if snapshot.has_bookings else []
    if options.limit is not None and len(found) > options.limit:
        lines.append(f"{options.limit} of {len(found)} {options.view} are shown")
        found = found[: options.limit]
        cards = _of_rows(cards, found)
    return Shown(snapshot, cards, found, tuple(lines))


def _of_rows(cards: Sequence[Card], found: Sequence[Row]) -> list[Card]:
    """The cards of the nodes that these rows are of."""
    nodes = {row["node"] for row in found}
    return [card for card in cards if one_line(card.node.name) in nodes]
