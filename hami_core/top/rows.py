"""The three tables of ``hami top``: nodes, cards and slices. Each has named columns, by which it can be sorted.

None is a value that nobody knows; it is shown as ``-`` and never as 0.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hami_core.documents import none_of, one_line
from hami_core.errors import ConfigError
from hami_core.top.model import natural, total
from hami_core.top.samples import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hami_core.top.model import Card, Snapshot
    from hami_core.top.samples import Measured

Value = str | int | None
Row = dict[str, Value]


class Column(NamedTuple):
    """A column.

    Attributes:
        key: Its name for ``--sort`` and in rows.
        unit: Unit of its numbers.
        number: Whether it holds numbers: shown at the right, and sorted greatest first.
        measured: Whether its values come from agents.
    """

    key: str
    unit: str = ""
    number: bool = False
    measured: bool = False

    @property
    def header(self) -> str:
        """``MEM-BOOKED(MiB)``."""
        return self.key.upper() + (f"({self.unit})" if self.unit else "")


def _amounts(last: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{what}-{which}", unit, number=True, measured=which in {"used", "limit"})
        for what, unit in (("mem", "MiB"), ("cores", "%"))
        for which in ("booked", "used", last)
    )


_AGENT: Final = Column("agent", measured=True)
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "nodes": (
        Column("node"),
        Column("cards", number=True),
        Column("slices", number=True),
        *_amounts("total"),
        _AGENT,
    ),
    "cards": (
        Column("node"),
        Column("card"),
        Column("state"),
        Column("slots", number=True),
        *_amounts("total"),
        _AGENT,
        Column("model"),  # last, since it may have spaces
    ),
    "slices": (
        Column("node"),
        Column("card"),
        Column("pod"),
        Column("container"),
        *_amounts("limit"),
        _AGENT,
    ),
}
"""Columns of each view. ``cores`` are percent of one card: a node of eight cards has 800."""
VIEWS: Final = tuple(COLUMNS)


def column(view: str, key: str) -> Column:
    """The column of a view with this name.

    Raises:
        ConfigError: There is none.
    """
    known = {each.key: each for each in COLUMNS[view]}
    if key not in known:
        raise ConfigError(f"--sort {one_line(key)}", none_of(key, known), f"the columns of {view} have these names")
    return known[key]


def rows(view: str, snapshot: Snapshot, cards: Iterable[Card], sort: Column | None = None) -> list[Row]:
    """The rows of a view, sorted by a column: numbers greatest first, words as in a dictionary, unknown values last."""
    made = list(_MAKERS[view](snapshot, cards))
    if sort is not None:
        key = sort.key
        known = [row for row in made if row[key] is not None]
        rest = [row for row in made if row[key] is None]
        known.sort(key=lambda row: _order(row[key]), reverse=sort.number)
        made = known + rest
    return made


def _order(value: Value) -> Any:  # noqa: ANN401 - numbers among themselves, words among themselves
    return natural(value) if isinstance(value, str) else value


def _nodes(snapshot: Snapshot, cards: Iterable[Card]) -> Iterator[Row]:
    for _, group in groupby(cards, key=lambda card: card.node.name):
        here = list(group)
        node = here[0].node.name
        # A broken card is often not measured. It does not hide what the others use.
        measured = [(card, snapshot.of_card(node, card.device.id)) for card in here]
        counted = [each for card, each in measured if each is not UNKNOWN or card.state == "ok"]
        booked = snapshot.has_bookings
        yield {
            "node": one_line(node),
            "cards": len(here),
            "slices": sum(len(card.slices) for card in here),
            "mem-booked": sum(card.device.booked.memory_mib for card in here) if booked else None,
            "mem-used": total(each.memory_mib for each in counted),
            "mem-total": sum(card.device.total.memory_mib for card in here) if booked else None,
            "cores-booked": sum(card.percent(card.device.booked.cores) for card in here) if booked else None,
            "cores-used": total(each.cores for each in counted),
            "cores-total": sum(card.percent(card.device.total.cores) for card in here) if booked else None,
            "agent": snapshot.agent(node).word(snapshot.now),
        }


def _cards(snapshot: Snapshot, cards: Iterable[Card]) -> Iterator[Row]:
    for card in cards:
        device, booked = card.device, snapshot.has_bookings
        measured = snapshot.of_card(card.node.name, device.id)
        gone = not device.registered
        yield {
            "node": one_line(card.node.name),
            "card": _card(card),
            "model": one_line(device.type) or None,
            "state": card.state if booked else None,
            "slots": device.booked.slots if booked else None,
            "mem-booked": device.booked.memory_mib if booked else None,
            "mem-used": measured.memory_mib,
            "mem-total": device.total.memory_mib if booked and not gone else None,
            "cores-booked": card.percent(device.booked.cores) if booked else None,
            "cores-used": _rounded(measured),
            "cores-total": card.percent(device.total.cores) if booked and not gone else None,
            "agent": snapshot.agent(card.node.name).word(snapshot.now),
        }


def _slices(snapshot: Snapshot, cards: Iterable[Card]) -> Iterator[Row]:
    for card in cards:
        for piece in card.slices:
            measured = snapshot.of_slice(card.node.name, card.device.id, piece)
            booked = snapshot.has_bookings
            yield {
                "node": one_line(card.node.name),
                "card": _card(card),
                "pod": snapshot.pod(piece.pod) or None,
                "container": one_line(piece.container),
                "mem-booked": piece.memory_mib if booked else None,
                "mem-used": measured.memory_mib,
                "mem-limit": measured.limit_mib,
                "cores-booked": card.percent(piece.cores) if booked else None,
                "cores-used": _rounded(measured),
                "cores-limit": (card.percent(piece.cores) or None) if booked else None,
                "agent": snapshot.agent(card.node.name).word(snapshot.now),
            }


_MAKERS: Final[Mapping[str, Callable[[Snapshot, Iterable[Card]], Iterator[Row]]]] = {
    "nodes": _nodes,
    "cards": _cards,
    "slices": _slices,
}


def _card(card: Card) -> str:
    """A card's index; its id if it has none."""
    return str(card.device.index) if card.device.index >= 0 else one_line(card.device.id)


def _rounded(measured: Measured) -> int | None:
    return None if measured.cores is None else round(measured.cores)


def summary(snapshot: Snapshot, cards: Sequence[Card]) -> str:
    """The cards that filters leave in one line."""
    nodes = {card.node.name: card.node.holds for card in cards}
    closed = {word: sum(card.state == word for card in cards) for word in ("unhealthy", "cordoned", "gone")}
    states = ", ".join(f"{count} {word}" for word, count in closed.items() if count)
    slices, holds = sum(len(card.slices) for card in cards), sum(nodes.values())
    words = [f"{len(nodes)} nodes", f"{len(cards)} cards" + (f" ({states})" if states else ""), f"{slices} slices"]
    words += [f"{holds} held"] if holds else []
    if snapshot.has_bookings:
        have = sum(card.device.total.memory_mib for card in cards)
        booked = sum(card.device.booked.memory_mib for card in cards)
        share = f" ({booked * 100 // have} %)" if have else ""
        words.append(f"{booked} of {have} MiB booked{share}")
    used = [snapshot.of_card(card.node.name, card.device.id) for card in cards]
    known = [each.memory_mib for each in used if each.memory_mib is not None]
    if known:
        of = "" if len(known) == len(cards) else f" on {len(known)} of {len(cards)} cards"
        words.append(f"{sum(known)} MiB used{of}")
    return ", ".join(words)


def shown(value: Value) -> str:
    """A value as it is printed."""
    return "-" if value is None else str(value)
