"""What a Filter answers: the best nodes, and why the others are refused, written out only when somebody reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable


class Refusals(Mapping[str, str]):
    """Node name → short reason in HAMi's words. Rendered on first access; ``len`` is free.

    Read it before the inventory changes: reasons of nodes that had to be walked are worked out when read.

    Args:
        count: How many nodes are refused.
        render: Writes them out, grouped by reason: reason → node names.
    """

    def __init__(self, count: int, render: Callable[[], dict[str, list[str]]]) -> None:
        self._count = count
        self._render = render
        self._groups: dict[str, list[str]] | None = None
        self._by_node: dict[str, str] | None = None

    def by_reason(self) -> dict[str, list[str]]:
        """Reason → names of the nodes it refuses; the cheapest form."""
        if self._groups is None:
            self._groups = self._render() if self._count else {}
        return self._groups

    def json(self) -> bytes:
        """The mapping as a JSON object, as extender v1 wants FailedNodes."""
        pieces = []
        for reason, names in self.by_reason().items():
            value = orjson.dumps(reason).decode()
            if _are_plain(names):
                pieces.append('"' + f'":{value},"'.join(names) + f'":{value}')
            else:
                pieces += [f"{orjson.dumps(name).decode()}:{value}" for name in names]
        return ("{" + ",".join(pieces) + "}").encode()

    def __getitem__(self, name: str) -> str:
        return self._mapping()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return self._count

    def _mapping(self) -> dict[str, str]:
        if self._by_node is None:
            self._by_node = {name: reason for reason, names in self.by_reason().items() for name in names}
        return self._by_node


def _are_plain(names: list[str]) -> bool:
    """Whether names need no escaping in JSON, as no name of a real node does."""
    text = " ".join(names)
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The answer of `Inventory.filter`.

    Attributes:
        best: Nodes that fit with their scores, best first, at most ``limit`` of them. Each was verified exactly.
        refused: The nodes asked about that do not fit. Nodes that fit but are not among the best are in neither.
        fitting: How many nodes are known to fit; at least ``len(best)`` (nodes behind the best need no verdict where
            they would have to be walked one by one).
    """

    best: list[tuple[str, float]]
    refused: Refusals = field(repr=False)
    fitting: int = 0

    @property
    def hold_node(self) -> str | None:
        """The node to hold: the first of ``best``; None when nothing fits."""
        return self.best[0][0] if self.best else None
