"""Finds the nodes on which a pod fits, and ranks them.

If devices do not depend on each other, the count of fitting cards *is* the exact answer, for the whole cluster at once.
If a later container depends on the cards of an earlier one, a node fits for sure when it has enough fitting cards for
both. On other nodes the pod has to be placed, best node first, until enough nodes are found. Placing works in columns,
or by the walk of `hami_core.placement` if only a vendor can decide (MIG, links, quotas on mixed cards).
"""

from __future__ import annotations

import heapq
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hami_core.inventory import limits
from hami_core.inventory.columns import MAX_WIDTH, NOT_ENOUGH_CARDS, Columns, counted, greatest, histogram_text
from hami_core.inventory.names import NameIndex
from hami_core.inventory.outcome import FilterOutcome, Refusals
from hami_core.inventory.shapes import KEPT_SHAPES, Shapes
from hami_core.inventory.table import ABSENT, CORDONED, QUOTA, TYPE, UNHEALTHY, UUID
from hami_core.model import Allocation, ContainerKind
from hami_core.placement.place import Rejection, place
from hami_core.placement.pod_usage import Amounts
from hami_core.policies import node_policy
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hami_core.inventory.names import RawNames
    from hami_core.inventory.nodes import Node
    from hami_core.inventory.table import Cluster
    from hami_core.model import DeviceUsage, NodeFacts
    from hami_core.placement.fit import Ask
    from hami_core.placement.place import Plan
    from hami_core.placement.quota import QuotaBook
    from hami_core.policies import NodePolicy

    ScoreNode = Callable[[NodeFacts, Allocation, str, tuple[DeviceUsage, ...]], float]

_BLOCK: Final = 512
"""Nodes that are placed at once in columns, before the search checks whether it has found enough."""


class Search:
    """Filter over the cluster's tables."""

    def __init__(self, cluster: Cluster, nodes: Mapping[str, Node]) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._names = NameIndex(cluster)
        self._shapes = Shapes()

    def run(self, plan: Plan, names: Collection[str] | RawNames, limit: int, quota: QuotaBook) -> FilterOutcome:
        """Rank the named nodes."""
        self._cluster.refresh_scores()
        asked = self._names.find(names)
        query = Query(plan, self._cluster, self._nodes, quota, self._shapes)
        mask, barred = self._bar(asked.mask, plan)
        best, fitting, refused = query.answer(mask, limit)
        node_level = {reasons.NODE_UNREGISTERED: asked.unknown, reasons.NODE_USAGE_UNAVAILABLE: asked.closed}

        def render() -> dict[str, list[str]]:
            groups = {word: list(group) for word, group in node_level.items() if group}
            for word, group in query.reasons(refused).items():
                groups.setdefault(word, []).extend(group)
            for name in barred:
                node = self._nodes.get(name)
                why = node.bar(plan.request.families) if node else ""
                groups.setdefault(why or reasons.NODE_UNFIT_POD, []).append(name)
            return groups

        def nearest(limit: int) -> list[str]:
            names = query.nearest(refused, limit)
            return names + heapq.nsmallest(limit - len(names), [*barred, *asked.closed])

        count = len(refused) + len(asked.unknown) + len(asked.closed) + len(barred)
        return FilterOutcome(best, Refusals(count, render, nearest), fitting)

    def fits(self, plan: Plan, quota: QuotaBook) -> bool:
        """Whether any node that takes new pods has room."""
        self._cluster.refresh_scores()
        mask, _ = self._bar(self._cluster.open[: self._cluster.size].copy(), plan)
        best, _, _ = Query(plan, self._cluster, self._nodes, quota, self._shapes).answer(mask, 1)
        return bool(best)

    def _bar(self, mask: np.ndarray, plan: Plan) -> tuple[np.ndarray, list[str]]:
        """The nodes asked about without those that give no devices of a family the pod asks for, and those."""
        barred = self._cluster.barred(plan.request.families)
        if barred is None:
            return mask, []
        names: list[str] = self._cluster.names[: self._cluster.size][mask & barred].tolist()
        return mask & ~barred, names


class Query:
    """One run of Filter."""

    def __init__(
        self, plan: Plan, cluster: Cluster, nodes: Mapping[str, Node], quota: QuotaBook, shapes: Shapes
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._nodes = nodes
        self._quota = quota
        self._shapes = shapes
        self._shape: int | None = None
        self._asks = [
            (container.kind, ask)
            for container, asks in zip(plan.request.containers, plan.asks, strict=True)
            for ask in asks
        ]
        self._limits = limits.judge(self._asks, plan.request.namespace, quota, cluster.tables)
        self._judged: tuple[Columns, np.ndarray] | None = None
        self._vendor_accounted = self._vendor_accounted_nodes()
        self._families = plan.request.families
        self._quota_counts = not all(quota.room(plan.request.namespace, word).is_unlimited for word in self._families)
        self._scores_nodes = any(ask.scores_nodes for _, ask in self._asks)

    # --- verdicts ----------------------------------------------------------------------------------------------

    def answer(self, mask: np.ndarray, limit: int) -> tuple[list[tuple[str, float]], int, np.ndarray]:
        """Returns (best nodes with scores, number of nodes known to fit, columns known to be refused)."""
        if self._plan.unknown or self._limits.hopeless:
            return [], 0, np.flatnonzero(mask)
        possible, sure = self._judge(mask)
        refused = np.flatnonzero(mask & ~possible)
        columns = np.flatnonzero(possible)
        if self._scores_nodes:
            best, placed, more = self._placed_and_scored(columns, limit)
            known = int(np.count_nonzero(sure)) + int((~sure[placed]).sum())
            return best, known, np.concatenate([refused, more])
        keys = self._cluster.keys(node_policy(self._plan.node_policy))[columns]
        if np.count_nonzero(sure) == len(columns):
            if len(columns) > limit:
                top = np.argpartition(keys, -limit)[-limit:] if limit else np.empty(0, np.intp)
            else:
                top = np.arange(len(columns))
            chosen = columns[top[np.argsort(-keys[top])]]
            return self._named(chosen), len(columns), refused
        found, more = self._in_order(columns[np.argsort(-keys)], sure, limit)
        known = int(np.count_nonzero(sure)) + int((~sure[found]).sum())
        return self._named(found), known, np.concatenate([refused, more])

    def _judge(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes that may fit, and those of them that fit for sure."""
        possible, sure = mask.copy(), mask.copy()
        staying: dict[str, int] = {}
        for kind, ask in self._asks:
            word = ask.rules.family.word
            table = self._cluster.tables.get(word)
            if table is None or not table.width:
                return np.zeros_like(mask), np.zeros_like(mask)
            columns = Columns(table, self._cluster.size)
            failed = self._failed_checks(columns, ask, columns.need(ask))
            self._judged = columns, failed
            fitting = failed == 0
            before = staying.get(word, 0)
            fits = columns.fits(ask, fitting)
            if self._vendor_accounted is not None and ask.rules.family.account_modes is not None:
                # one fitting card may serve a request for several
                fits |= self._vendor_accounted & (counted(fitting) > 0)
            possible &= fits
            if before:
                sure &= columns.fits(ask, fitting, before)
            if kind is not ContainerKind.INIT:
                staying[word] = before + ask.request.count
        if self._vendor_accounted is not None:
            sure &= ~self._vendor_accounted
        sure &= possible
        if self._must_walk():
            sure[:] = False
        return possible, sure

    def _failed_checks(self, columns: Columns, ask: Ask, need: np.ndarray | int) -> np.ndarray:
        failed = columns.failed_checks(ask, need)
        room = self._limits.room
        if room.memory_mib is not None:
            failed |= (need > np.int64(room.memory_mib)) * QUOTA_BIT
        if not room.admits(Amounts(0, ask.cores, 1)):
            failed |= QUOTA_BIT
        return failed

    def _in_order(self, columns: np.ndarray, sure: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Check nodes, best first, until ``limit`` are found. Returns (found, refused before that)."""
        found: list[int] = []
        refused: list[int] = []
        size = _BLOCK if self._in_columns() else max(limit, 1)
        for start in range(0, len(columns), size):
            if len(found) >= limit:
                break
            block = columns[start : start + size]
            fits = self._known_verdicts(block, sure, limit - len(found))
            for column in block.tolist():
                if len(found) >= limit:
                    break
                verdict = fits.get(column)
                if verdict is None:
                    verdict = self._verdict(column) is not None
                (found if verdict else refused).append(column)
        return np.array(found, np.intp), np.array(refused, np.intp)

    def _known_verdicts(self, block: np.ndarray, sure: np.ndarray, wanted: int) -> dict[int, bool]:
        """Column → whether the pod fits, for the nodes of a block that need no walk."""
        known = dict.fromkeys(block[sure[block]].tolist(), True)
        if len(known) >= wanted and sure[block[:wanted]].all():
            return known
        open_ones = block[~sure[block]]
        if self._vendor_accounted is not None:
            open_ones = open_ones[~self._vendor_accounted[open_ones]]
        if self._in_columns() and len(open_ones):
            keys = self._greedy(open_ones)
            known.update(zip(open_ones.tolist(), (keys == _FITS).tolist(), strict=True))
        return known

    def _verdict(self, column: int) -> float | None:
        """What the vendors' scores add to a node's score if the pod fits there; None: it does not fit.

        Placing is pure. So the answer holds for pods of the same shape until the node changes, unless a quota or a
        failed hook had a part in it.
        """
        if self._quota_counts:
            return self._judged_by_walk(column)[0]
        if self._shape is None:
            self._shape = self._shapes.number(self._plan)
        verdicts = self._nodes[self._cluster.names[column]].verdicts
        try:
            return verdicts[self._shape]
        except KeyError:
            verdict, is_final = self._judged_by_walk(column)
            if is_final:
                if len(verdicts) >= KEPT_SHAPES:
                    verdicts.clear()
                verdicts[self._shape] = verdict
            return verdict

    def _judged_by_walk(self, column: int) -> tuple[float | None, bool]:
        """The verdict, and whether no hook failed that would let the pod fit."""
        placed = self._place(column)
        if isinstance(placed, Rejection):
            return None, reasons.VENDOR_PLUGIN_FAILED not in placed.counts
        return self._vendors_score(placed) if self._scores_nodes else 0.0, True

    def _place(self, column: int) -> Allocation | Rejection:
        name = self._cluster.names[column]
        return place(name, self._nodes[name].cards(self._families), self._plan, self._quota)

    def _placed_and_scored(
        self, columns: np.ndarray, limit: int
    ) -> tuple[list[tuple[str, float]], np.ndarray, np.ndarray]:
        """Place the pod on nodes, best node first, and add the vendors' scores, until no other node can be better.

        Returns:
            The best ``limit`` nodes with their scores, the columns where the pod fits, and those where it does not.
        """
        policy, ranks = node_policy(self._plan.node_policy), self._cluster.ranks()
        order = np.argsort(-self._cluster.keys(policy)[columns])
        bound = self._score_bound()
        best: list[tuple[float, int, float, int]] = []
        found: list[int] = []
        refused: list[int] = []
        for column in columns[order].tolist():
            score, tie = float(self._cluster.scores[column]), int(ranks[column])
            if best and len(best) == limit and (_rank(policy, score) + bound, tie) < best[0][:2]:
                break  # and later nodes are no better
            more = self._verdict(column)
            if more is None:
                refused.append(column)
                continue
            found.append(column)
            score += max(-bound, min(more, bound))
            heapq.heappush(best, (_rank(policy, score), tie, score, column))
            if len(best) > limit:
                heapq.heappop(best)
        named = [(str(self._cluster.names[column]), score) for _, _, score, column in sorted(best, reverse=True)]
        return named, np.array(found, np.intp), np.array(refused, np.intp)

    def _score_bound(self) -> float:
        """Most by which the vendors' `score_node` can change a node's score for this pod."""
        bounds = [ask.rules.family.score_bound for _, ask in self._asks if ask.rules.score_node is not None]
        return sum(math.inf if bound is None else bound for bound in bounds)

    def _vendors_score(self, placed: Allocation) -> float:
        """Sum of the vendors' scores. A vendor is asked once, also about a pod with several of its families."""
        node = self._nodes[placed.node]
        policy = self._plan.node_policy
        devices: dict[ScoreNode, list[DeviceUsage]] = {}
        for word in placed.families:
            if (score_node := self._plan.rules[word].score_node) is not None:
                devices.setdefault(score_node, []).extend(node.families[word].usage())
        return sum(score_node(node.facts, placed, policy, tuple(found)) for score_node, found in devices.items())

    def _named(self, columns: np.ndarray) -> list[tuple[str, float]]:
        names, scores = self._cluster.names[columns].tolist(), self._cluster.scores[columns].tolist()
        return list(zip(names, scores, strict=True))

    # --- columns or walk ---------------------------------------------------------------------------------------

    def _vendor_accounted_nodes(self) -> np.ndarray | None:
        """Nodes with devices that the vendor's `account` decides about."""
        vendor_accounted: np.ndarray | None = None
        for _, ask in self._asks:
            table = self._cluster.tables.get(ask.rules.family.word)
            if table is not None and ask.rules.account is not None:
                here = table.vendor_accounted[: self._cluster.size]
                vendor_accounted = here if vendor_accounted is None else vendor_accounted | here
        return vendor_accounted if vendor_accounted is not None and vendor_accounted.any() else None

    def _must_walk(self) -> bool:
        """Whether no node can be judged in columns alone."""
        return (
            self._limits.walk
            or self._plan.ties_containers
            or any(
                ask.may_refuse_combinations or (ask.custom is not None and ask.rules.fit_mask is None)
                for _, ask in self._asks
            )
        )

    def _in_columns(self) -> bool:
        """Whether containers that depend on each other can be placed in columns."""
        return not self._must_walk() and not any(
            ask.chooses or ask.policy.is_chain or ask.custom is not None or self._is_wide(ask) for _, ask in self._asks
        )

    def _is_wide(self, ask: Ask) -> bool:
        table = self._cluster.tables.get(ask.rules.family.word)
        return table is not None and (table.width > MAX_WIDTH or max(table.numas) > 255 or len(table.numas) > MAX_WIDTH)

    # --- containers that depend on each other, in columns -------------------------------------------------------

    def _greedy(self, where: np.ndarray) -> np.ndarray:
        """Place the pod on each of these nodes. Returns `_FITS`, or the histogram of the first container that fails."""
        result = np.full(len(where), _FITS, np.int64)
        alive = np.arange(len(where))
        tables = {ask.rules.family.word: self._cluster.tables.get(ask.rules.family.word) for _, ask in self._asks}
        running = {w: Columns(table, self._cluster.size, where) for w, table in tables.items() if table and table.width}
        last = {ask.rules.family.word: i for i, (_, ask) in enumerate(self._asks)}
        for number, (kind, ask) in enumerate(self._asks):
            word = ask.rules.family.word
            columns = running.get(word)
            if columns is None:
                result[alive] = NOT_ENOUGH_CARDS
                return result
            need = columns.need(ask)
            failed = self._failed_checks(columns, ask, need)
            if number in self._limits.admitted:
                failed = columns.beyond_quota(ask, failed, self._limits.admitted[number])
            fitting = failed == 0
            fits = columns.fits(ask, fitting)
            new = alive[~fits[alive]]
            if len(new):
                result[new] = columns.histogram(ask, failed)[new]
                alive = alive[fits[alive]]
            if number != last[word] and kind is not ContainerKind.INIT and len(alive):
                self._take(columns, ask, fitting, need)
        return result

    def _take(self, columns: Columns, ask: Ask, fitting: np.ndarray, need: np.ndarray | int) -> None:
        if ask.numa_bind:
            fitting = _numa_group(columns, ask, fitting)
        columns.take(ask, greatest(columns.order(ask, fitting), ask.request.count), need)

    # --- reasons -----------------------------------------------------------------------------------------------

    def reasons(self, refused: np.ndarray) -> dict[str, list[str]]:
        """Why each of these nodes is refused: reason → names."""
        groups: dict[str, list[str]] = {}
        walk = np.full(len(refused), not self._has_plain_reasons())
        if self._vendor_accounted is not None:
            walk |= self._vendor_accounted[refused]
        for column in refused[walk].tolist():
            if not self._cluster.names[column]:
                continue  # the node was removed after the Filter
            placed = self._place(column)
            word = reasons.NODE_UNFIT_POD if isinstance(placed, Allocation) else placed.short
            groups.setdefault(word, []).append(self._cluster.names[column])
        plain = refused[~walk]
        if len(plain):
            self._group(plain, self._histograms(plain), groups)
        return groups

    def nearest(self, refused: np.ndarray, limit: int) -> list[str]:
        """At most ``limit`` of these nodes: those with the largest free memory on a card that the pod would take."""
        keys = self._cluster.ranks()[refused]
        if self._judged is not None:
            columns, failed = self._judged
            free = np.max(columns.free_memory, axis=0, where=(failed & _NEVER) == 0, initial=-1)
            keys += free[refused].astype(np.int64) << 32
        top = np.argpartition(keys, -limit)[-limit:] if len(keys) > limit else np.arange(len(keys))
        return list(filter(None, self._cluster.names[refused[top[np.argsort(-keys[top])]]]))

    def _histograms(self, where: np.ndarray) -> np.ndarray:
        if len(self._asks) == 1 and self._judged is not None and not self._limits.admitted:
            columns, failed = self._judged
            keys: np.ndarray = columns.histogram(self._asks[0][1], failed)[where]
            return keys
        return self._greedy(where)

    def _group(self, where: np.ndarray, keys: np.ndarray, groups: dict[str, list[str]]) -> None:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        names = self._cluster.names[where[order]].tolist()
        cuts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(names)]
        for start, end in pairwise(cuts):
            key = int(ordered[start])
            word = reasons.NODE_UNFIT_POD if key == _FITS else histogram_text(key)
            groups.setdefault(word, []).extend(filter(None, names[start:end]))

    def _has_plain_reasons(self) -> bool:
        """Whether columns can give every reason: all are HAMi's words, and none depends on the order of the walk."""
        if self._plan.unknown:
            return False
        for _, ask in self._asks:
            table = self._cluster.tables.get(ask.rules.family.word)
            if table is None or not table.width:
                continue
            refusals = [ask.type_refusal(kind) for kind in table.kinds]
            if any(r is not None and r.code != reasons.CARD_TYPE_MISMATCH for r in refusals):
                return False
            if any(r is not None and r.code != reasons.CARD_UUID_MISMATCH for r in ask.id_refusals()):
                return False
            if ask.custom is not None or self._is_wide(ask) or (ask.numa_bind and ask.idle_only):
                return False
            if self._limits.admitted and (ask.numa_bind or ask.chooses or ask.policy.is_chain):
                return False
        return not self._must_walk() and (len(self._asks) == 1 or self._in_columns())


QUOTA_BIT: Final = np.uint16(QUOTA)
_NEVER: Final = np.uint16(ABSENT | UNHEALTHY | CORDONED | TYPE | UUID)
"""Checks that a card fails however much of it becomes free."""

_FITS: Final = -2
"""Result of placing a pod on a node where it fits. `NOT_ENOUGH_CARDS` is the only negative histogram."""


def _rank(policy: NodePolicy, score: float) -> float:
    ranked: Any = policy.rank(score)
    return float(ranked)


def _numa_group(columns: Columns, ask: Ask, fitting: np.ndarray) -> np.ndarray:
    """The fitting cards of the NUMA node that the walk would choose among those with enough of them."""
    chosen = np.zeros_like(fitting)
    best = np.full(fitting.shape[1], -np.inf)
    key = columns.order(ask, np.ones_like(fitting)) if ask.ranks_numa else None
    for group in columns.groups(ask):
        here = fitting & group
        enough = counted(here) >= ask.request.count
        rank = 0.0 if key is None else columns.rank_together(ask, greatest(np.where(here, key, -1), ask.request.count))
        better = enough & (rank > best)
        best = np.where(better, rank, best)
        chosen = np.where(better, here, chosen)
    return chosen
