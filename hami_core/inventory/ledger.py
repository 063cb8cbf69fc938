"""Bookings and holds, by pod and by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.model import Booking, PodRequest
    from hami_core.placement.pod_usage import Use


@dataclass(frozen=True, slots=True)
class Entry:
    """A booking, or a hold when ``until`` is set.

    Attributes:
        booking: The pod and its allocation.
        keeps_off: Whether the pod keeps other pods off its devices.
        uses: The usage of each device that this entry adds.
        init_done: Whether init containers have stopped counting.
        until: When a hold ends, by the caller's clock; None: a booking.
        request: The request for which a hold was placed.
        generation: Generation of the node's devices when the hold was placed.
    """

    booking: Booking
    keeps_off: bool
    uses: tuple[Use, ...]
    init_done: bool = False
    until: float | None = None
    request: PodRequest | None = None
    generation: int = 0

    @property
    def pod(self) -> str:
        """``namespace/name``."""
        return f"{self.booking.namespace}/{self.booking.name}"


class Ledger:
    """All entries. A pod has at most one booking and one hold."""

    def __init__(self) -> None:
        self.bookings: dict[str, Entry] = {}
        self.holds: dict[str, Entry] = {}
        self._bookings_on: dict[str, dict[str, Entry]] = {}
        self._holds_on: dict[str, dict[str, Entry]] = {}

    def put(self, entry: Entry) -> None:
        """Add an entry. The pod must not have one of the same kind."""
        by_uid, by_node = self._of(entry)
        by_uid[entry.booking.uid] = entry
        by_node.setdefault(entry.booking.allocation.node, {})[entry.booking.uid] = entry

    def drop(self, entry: Entry) -> None:
        """Remove an entry."""
        by_uid, by_node = self._of(entry)
        del by_uid[entry.booking.uid]
        here = by_node[entry.booking.allocation.node]
        del here[entry.booking.uid]
        if not here:
            del by_node[entry.booking.allocation.node]

    def on(self, node: str) -> list[Entry]:
        """Every entry on a node, bookings first."""
        return [*self._bookings_on.get(node, {}).values(), *self._holds_on.get(node, {}).values()]

    def bookings_on(self, node: str) -> list[Entry]:
        """Bookings on a node, oldest first."""
        return list(self._bookings_on.get(node, {}).values())

    def booked_nodes(self) -> list[str]:
        """Names of the nodes that have bookings."""
        return list(self._bookings_on)

    def holds_on(self, node: str) -> list[Entry]:
        """Holds on a node, oldest first."""
        return list(self._holds_on.get(node, {}).values())

    def __iter__(self) -> Iterator[Entry]:
        yield from self.bookings.values()
        yield from self.holds.values()

    def _of(self, entry: Entry) -> tuple[dict[str, Entry], dict[str, dict[str, Entry]]]:
        if entry.until is None:
            return self.bookings, self._bookings_on
        return self.holds, self._holds_on
