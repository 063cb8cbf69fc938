"""The answer to a Filter: the best nodes, and the reasons of the refused nodes, which are rendered only when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable


class Refusals(Mapping[str, str]):
    """Node name → short reason in HAMi's words. Rendered on first access; ``len`` is free.

    Read it before the inventory changes, because reading computes the reasons of nodes that have to be walked.

    Args:
        count: Number of refused nodes.
        render: Returns the refused nodes grouped by reason: reason → node names.
        nearest: Returns at most so many registered nodes, the nearest miss first.
    """

    def __init__(
        self, count: int, render: Callable[[], dict[str, list[str]]], nearest: Callable[[int], list[str]]
    ) -> None:
        self._count = count
        self._render = render
        self._nearest = nearest
        self._groups: dict[str, list[str]] | None = None
        self._by_node: dict[str, str] | None = None

    def by_reason(self) -> dict[str, list[str]]:
        """Reason → names of the refused nodes. This is the cheapest form."""
        if self._groups is None:
            self._groups = self._render() if self._count else {}
        return self._groups

    def nearest(self, limit: int) -> list[str]:
        """At most ``limit`` of the refused nodes that are registered, the nearest miss first.

        That is the node with the most memory free on a card that the pod would take. Nodes without such a card come
        last.
        """
        return self._nearest(limit)

    def json(self) -> bytes:
        """The mapping as a JSON object, the form of ``FailedNodes`` in extender v1."""
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
    """Whether names need no escaping in JSON. Names of real nodes never do."""
    text = " ".join(names)
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The answer of `Inventory.filter`.

    Attributes:
        best: Fitting nodes with their scores, best first, at most ``limit``. Each was checked exactly.
        refused: Candidates that do not fit. Nodes that fit but are not among the best are in neither.
        fitting: Number of nodes that are known to fit, at least ``len(best)``. Nodes beyond the best are not counted if
            they would have to be walked one by one.
    """

    best: list[tuple[str, float]]
    refused: Refusals = field(repr=False)
    fitting: int = 0

    @property
    def hold_node(self) -> str | None:
        """The node for the hold: the first of ``best``; None: no node fits."""
        return self.best[0][0] if self.best else None
