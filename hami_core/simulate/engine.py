"""Runs a workload on a cluster in virtual time, through the inventory's Filter, hold, book and release.

Pods are refused and retried as in the scheduler (`hami_core.scheduler.retry`). A refused pod waits. When room is freed,
waiting pods are tried in the order of their arrival, and a pod that fits passes earlier ones that don't. Pods of one
shape fit on the same nodes. So a shape that was refused is not asked about again until room is freed, however many of
its pods wait.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from hami_core.model import Allocation
from hami_core.scheduler.filter import HOLD_S
from hami_core.simulate.cards import asks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hami_core.inventory import Inventory
    from hami_core.model import PodRequest
    from hami_core.simulate.cards import Cards
    from hami_core.simulate.workload import Workload

EXPLAINED: Final = 3
"""In a large cluster, the nodes that explain a pod that fits nowhere: the nearest misses, as in events."""
LARGE: Final = 1000
"""Nodes from which a cluster is large. In a smaller one, all nodes explain it."""
REFUSALS: Final = 16
"""After so many refusals since a pod was placed, all waiting shapes are compared with the room that is left."""


@dataclass(slots=True)
class Outcome:
    """What became of the pods.

    Attributes:
        start_s: When each pod started, by its number; NaN: never.
        filter_s: Wall-clock seconds of each Filter.
        never: Shape → number of its pods that were never placed.
        why: Shape → why they were not.
    """

    start_s: array[float]
    filter_s: array[float] = field(default_factory=lambda: array("d"))
    never: dict[int, int] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)


class Engine:
    """One run.

    Args:
        inventory: The cluster. The run changes it.
        names: Names of all nodes.
        cards: The amounts of its cards.
        workload: The pods.
        clock: Seconds of a wall clock, to time Filter with.
        advance: Called with the virtual time before each change of the cluster.
    """

    def __init__(  # noqa: PLR0917 - a run's parts
        self,
        inventory: Inventory,
        names: Sequence[str],
        cards: Cards,
        workload: Workload,
        clock: Callable[[], float],
        advance: Callable[[float], None] = lambda _now: None,
    ) -> None:
        self._inventory = inventory
        self._names = frozenset(names)
        self._cards = cards
        self._workload = workload
        self._clock = clock
        self._advance = advance
        self._ends: list[tuple[float, int, str]] = []
        self._waiting: dict[int, deque[int]] = {}
        self._refused: set[int] = set()
        requests = [shape.request for shape in workload.shapes]
        self._asks = [asks_of(request, inventory) for request in requests]
        first = [asks[0] if asks else None for asks in self._asks]
        self._memory_mib = np.array([ask.request.memory_mib if ask else 0 for ask in first], np.int64)
        self._cores = np.array([ask.cores if ask else 0 for ask in first], np.int64)
        self._has_quota = np.array([self._is_limited(request) for request in requests], bool)
        self._outcome = Outcome(array("d", [math.nan]) * len(workload))

    def run(self, progress: Callable[[int], None] = lambda _done: None) -> Outcome:
        """Run until every pod has ended, or waits for room that nothing will free.

        Args:
            progress: Called with the number of pods that have arrived.
        """
        arrivals, total, pod = self._workload.arrival_s, len(self._workload), 0
        while pod < total or self._ends:
            now = min(arrivals[pod] if pod < total else math.inf, self._ends[0][0] if self._ends else math.inf)
            self._advance(now)
            freed = self._end(now)
            if freed:
                self._retry(now, freed)
            while pod < total and arrivals[pod] <= now:
                self._arrive(pod, now)
                pod += 1
                progress(pod)
        self._explain()
        return self._outcome

    def _end(self, now: float) -> set[str]:
        """End the pods that are due. Returns the nodes where room was freed."""
        freed: set[str] = set()
        while self._ends and self._ends[0][0] <= now:
            _, pod, node = heapq.heappop(self._ends)
            self._inventory.release(self._workload.uid(pod))
            self._cards.refresh(node)
            freed.add(node)
        return freed

    def _arrive(self, pod: int, now: float) -> None:
        shape = self._workload.shape[pod]
        if self._workload.shapes[shape].refusal:
            self._never(shape, 1, self._workload.shapes[shape].refusal)
        elif shape in self._refused or not self._place(pod, now):
            self._refused.add(shape)
            self._waiting.setdefault(shape, deque()).append(pod)

    def _retry(self, now: float, freed: set[str]) -> None:
        """Try the waiting pods, oldest first, until each shape that waits is refused or placed."""
        heads, refused = self._oldest_that_may_fit(freed), 0
        while heads:
            pod, shape = heapq.heappop(heads)
            if not self._may_fit(shape, freed) or not self._place(pod, now):
                refused += 1
                if refused == REFUSALS:
                    heads = self._oldest_that_may_fit(freed, after=pod)
                continue
            refused = 0
            pods = self._waiting[shape]
            pods.popleft()
            if pods:
                heapq.heappush(heads, (pods[0], shape))
            else:
                del self._waiting[shape]
                self._refused.discard(shape)

    def _oldest_that_may_fit(self, freed: set[str], after: int = -1) -> list[tuple[int, int]]:
        """The oldest waiting pod of each shape for which `_may_fit` may hold, in order, with its shape.

        All shapes are compared in one step, since there may be thousands.

        Args:
            freed: Nodes with freed room.
            after: Pods up to this one are left out.
        """
        waiting = np.fromiter(self._waiting, np.int64, len(self._waiting))
        possible = self._has_quota[waiting]
        for node in freed:
            possible |= self._cards.may_take_each(node, self._memory_mib[waiting], self._cores[waiting])
        found = ((self._waiting[shape][0], shape) for shape in waiting[possible].tolist())
        return sorted(head for head in found if head[0] > after)

    def _is_limited(self, request: PodRequest) -> bool:
        quota = self._inventory.quota
        return not all(quota.room(request.namespace, word).is_unlimited for word in request.families)

    def _may_fit(self, shape: int, freed: set[str]) -> bool:
        """Whether a shape that was refused everywhere may fit, now that room was freed on some nodes.

        Bookings make no room. So the shape can fit only on one of these nodes, unless a quota counts: an end on any
        node then makes room on all.
        """
        if self._has_quota[shape]:
            return True
        asks = self._asks[shape]
        return any(self._cards.may_take(node, asks) and self._has_room(shape, node) for node in freed)

    def _has_room(self, shape: int, node: str) -> bool:
        request = self._workload.request(self._waiting[shape][0])
        found = self._inventory.hold(request, node, math.inf)
        self._inventory.release_hold(request.uid)
        return isinstance(found, Allocation)

    def _place(self, pod: int, now: float) -> bool:
        """Filter and Bind, one right after the other. Returns whether the pod was placed."""
        request = self._workload.request(pod)
        began = self._clock()
        node = self._inventory.filter(request, self._names).hold_node
        self._outcome.filter_s.append(self._clock() - began)
        if node is None:
            return False
        self._inventory.hold(request, node, now + HOLD_S)
        if not isinstance(self._inventory.book(request, node), Allocation):
            return False
        self._cards.refresh(node)
        self._outcome.start_s[pod] = now
        duration = self._workload.duration_s[pod]
        if duration < math.inf:
            heapq.heappush(self._ends, (now + duration, pod, node))
        return True

    def _never(self, shape: int, pods: int, why: str) -> None:
        self._outcome.never[shape] = self._outcome.never.get(shape, 0) + pods
        self._outcome.why[shape] = why

    def _explain(self) -> None:
        """Say why the pods that still wait fit nowhere, now that nothing else will end."""
        for shape, pods in self._waiting.items():
            request = self._workload.request(pods[0])
            nodes: Iterable[str | None] = (None,)
            if len(self._names) > LARGE or len(self._names) < len(self._inventory.node_names()):
                nodes = self._inventory.filter(request, self._names).refused.nearest(EXPLAINED)
            texts = [self._inventory.explain_text(request, node) for node in nodes]
            why = "; ".join(line for text in dict.fromkeys(texts) for line in text.splitlines())
            self._never(shape, len(pods), why or "no node has such devices")
