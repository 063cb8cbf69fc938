"""Which nodes a pod fits on, and which of them are best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.inventory.names import RawNames
from hami_core.inventory.outcome import FilterOutcome, Refusals
from hami_core.model import Allocation
from hami_core.placement.place import place
from hami_core.placement.policy import prefers_low_score
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory.nodes import Node
    from hami_core.inventory.table import Cluster
    from hami_core.placement.place import Plan
    from hami_core.placement.quota import QuotaBook


class Search:
    """Filter over the cluster's tables."""

    def __init__(self, cluster: Cluster, nodes: Mapping[str, Node], quota: QuotaBook) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._quota = quota

    def run(self, plan: Plan, names: Sequence[str] | RawNames, limit: int) -> FilterOutcome:
        """Rank the nodes named."""
        asked = names.decode() if isinstance(names, RawNames) else names
        keys = self._cluster.keys(low_first=prefers_low_score(plan.node_policy)).tolist()
        fits: list[tuple[int, str, float]] = []
        refused: dict[str, list[str]] = {}
        for name in dict.fromkeys(asked):
            verdict = self._verdict(plan, name)
            if isinstance(verdict, str):
                refused.setdefault(verdict, []).append(name)
            else:
                fits.append((keys[self._cluster.columns[name]], name, verdict))
        fits.sort(reverse=True)
        count = sum(len(group) for group in refused.values())
        return FilterOutcome([(n, s) for _, n, s in fits[:limit]], Refusals(count, lambda: refused), len(fits))

    def _verdict(self, plan: Plan, name: str) -> str | float:
        node = self._nodes.get(name)
        if node is None:
            return reasons.NODE_UNREGISTERED
        if node.closed:
            return reasons.NODE_USAGE_UNAVAILABLE
        placed = place(name, node.cards(plan.request.families), plan, self._quota)
        if not isinstance(placed, Allocation):
            return placed.short
        return float(self._cluster.scores[node.column])
