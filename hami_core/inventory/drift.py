"""Finds and repairs drift: usage is a pure function of nodes, bookings and holds, so it can be recomputed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hami_core.placement.pod_usage import Amounts, amounts_by_family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.inventory.ledger import Ledger
    from hami_core.inventory.nodes import Node
    from hami_core.inventory.table import Cluster
    from hami_core.placement.quota import QuotaBook


def repair_nodes(nodes: Mapping[str, Node], ledger: Ledger, cluster: Cluster) -> int:
    """Recompute the usage of nodes, compare it with the kept sums, and repair what differs.

    Returns:
        Number of device sums and column cells that differed.
    """
    differing = 0
    for name, node in nodes.items():
        wrong = _node_drift(name, node, ledger) + _column_drift(node, cluster)
        if wrong:
            cluster.set_node(node)
        differing += wrong
    return differing


def _node_drift(name: str, node: Node, ledger: Ledger) -> int:
    fresh = {word: family.empty() for word, family in node.families.items()}
    for entry in ledger.on(name):
        for use in entry.uses:
            if use.family in fresh:
                fresh[use.family].apply(use, entry.pod, 1, keeps_off=entry.keeps_off)
    wrong = sum(
        mine != theirs
        for word, family in node.families.items()
        for kept, counted in zip(family.sums(), fresh[word].sums(), strict=True)
        for mine, theirs in zip(kept, counted, strict=True)
    )
    if wrong:
        node.families = fresh
        node.verdicts.clear()
    return wrong


def _column_drift(node: Node, cluster: Cluster) -> int:
    wrong = int(cluster.names[node.column] != node.facts.name)
    for word, family in node.families.items():
        table = cluster.tables.get(word)
        if table is None:
            continue
        count = len(family.devices)
        for column, kept in (
            (table.used, family.slots),
            (table.used_memory, family.memory),
            (table.used_cores, family.cores),
        ):
            limits = np.iinfo(column.dtype)
            wrong += int((column[:count, node.column] != np.clip(kept, -limits.max, limits.max)).sum())
    return wrong


def repair_quota(ledger: Ledger, quota: QuotaBook) -> int:
    """Recompute the usage of namespaces, compare it with the kept sums, and repair what differs.

    Returns:
        Number of sums that differed.
    """
    counted: dict[tuple[str, str], Amounts] = {}
    for entry in ledger:
        for word, amounts in amounts_by_family(entry.uses).items():
            key = (entry.booking.namespace, word)
            have = counted.get(key, Amounts())
            counted[key] = Amounts(*(one + more for one, more in zip(have, amounts, strict=True)))
    counted = {key: amounts for key, amounts in counted.items() if amounts != Amounts()}
    kept = quota.usage()
    wrong = sum(kept.get(key) != counted.get(key) for key in kept.keys() | counted.keys())
    if wrong:
        quota.restore(counted)
    return wrong
