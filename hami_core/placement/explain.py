"""Why a pod does not fit: reasons as values, and as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.model import Allocation, Reason
from hami_core.placement.place import place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import PodRequest
    from hami_core.placement.card import Card
    from hami_core.placement.place import Plan
    from hami_core.placement.quota import QuotaBook


def for_node(word: str, node: str) -> Reason:
    """A reason about a node as a whole."""
    return Reason(word, detail=f"node {node}")


def node_reasons(
    node: str, cards: Mapping[str, Sequence[Card]], plan: Plan, quota: QuotaBook | None = None
) -> list[Reason]:
    """Each device's reason on one node; empty when the pod fits there."""
    placed = place(node, cards, plan, quota)
    if isinstance(placed, Allocation):
        return []
    return [Reason(placed.short, detail=f"node {node}, container {placed.container}")]


def text(request: PodRequest, per_node: Mapping[str, Sequence[Reason]]) -> str:
    """Put the reasons of nodes into a sentence or two."""
    return "; ".join(f"{r.detail}: {r.code}" for rs in per_node.values() for r in rs) or f"{request.name} fits"
