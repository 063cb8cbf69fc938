"""Tables as ``kubectl get`` prints them, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hami_core import plain_table
from hami_core.documents import one_line
from hami_core.top.rows import COLUMNS, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core.scheduler.usage import Amounts
    from hami_core.top.model import Card, Snapshot
    from hami_core.top.rows import Row
    from hami_core.top.samples import Measured

GAP: Final = 3
"""Blanks between columns, as in ``kubectl get``."""
SCHEMA: Final = 1
"""Version of the JSON document. It grows when a field changes its meaning or goes."""


def table(view: str, rows: Iterable[Row]) -> str:
    """Aligned columns without boxes or colour. Nothing is cut; numbers stand at the right."""
    columns = COLUMNS[view]
    lines = [[column.header for column in columns]]
    lines += [[shown(row[column.key]) for column in columns] for row in rows]
    right = {at for at, column in enumerate(columns) if column.number}
    return "".join(f"{line}\n" for line in plain_table.table(lines, right, gap=GAP))


def document(snapshot: Snapshot, cards: Sequence[Card]) -> dict[str, Any]:
    """The cards with everything that is known of them, for programs. A value that nobody knows is null."""
    nodes: dict[str, dict[str, Any]] = {}
    for card in cards:
        name = card.node.name
        if name not in nodes:
            agents = snapshot.agent(name)
            nodes[name] = {
                "name": one_line(name),
                "holds": card.node.holds if snapshot.has_bookings else None,
                "agent": {
                    "state": agents.state,
                    "age_s": None if agents.sample is None else round(snapshot.now - agents.at, 1),
                    "problem": one_line(agents.problem, 1000),
                },
                "cards": [],
            }
        nodes[name]["cards"].append(_card(snapshot, card))
    return {
        "schema": SCHEMA,
        "time": one_line(snapshot.usage.time) or None,
        "problems": list(snapshot.problems),
        "nodes": list(nodes.values()),
    }


def _card(snapshot: Snapshot, card: Card) -> dict[str, Any]:
    device = card.device
    measured = snapshot.of_card(card.node.name, device.id)
    known = snapshot.has_bookings
    return {
        "id": one_line(device.id),
        "index": device.index if device.index >= 0 else None,
        "model": one_line(device.type),
        "family": one_line(device.family) if known else None,
        "mode": one_line(device.mode) if known else None,
        "state": card.state if known else None,
        "total": _amounts(card, device.total) if known and device.registered else None,
        "booked": _amounts(card, device.booked) if known else None,
        "held": _amounts(card, device.held) if known else None,
        "used": _used(measured),
        "slices": [_slice(snapshot, card, index) for index in range(len(card.slices))],
    }


def _used(measured: Measured) -> dict[str, float | None]:
    cores = measured.cores
    return {"memory_mib": measured.memory_mib, "cores_percent": None if cores is None else round(cores, 1)}


def _amounts(card: Card, amounts: Amounts) -> dict[str, int]:
    return {"slots": amounts.slots, "memory_mib": amounts.memory_mib, "cores_percent": card.percent(amounts.cores)}


def _slice(snapshot: Snapshot, card: Card, index: int) -> dict[str, Any]:
    piece = card.slices[index]
    measured = snapshot.of_slice(card.node.name, card.device.id, piece)
    namespace, name = snapshot.known_pod(piece.pod)
    cores = card.percent(piece.cores)
    known = snapshot.has_bookings
    return {
        "pod": {"uid": one_line(piece.pod), "namespace": namespace or None, "name": name or None},
        "container": one_line(piece.container),
        "kind": one_line(piece.kind) if known else None,
        "booked": {"slots": piece.slots, "memory_mib": piece.memory_mib, "cores_percent": cores} if known else None,
        "used": _used(measured),
        "limit": {"memory_mib": measured.limit_mib, "cores_percent": (cores or None) if known else None},
    }
