"""What a run is judged by: utilisation, fragmentation, stranded amounts, waiting times and Filter's time.

Amounts are measured while pods arrive, from the first arrival to the last: the empty cluster afterwards says nothing
about a policy. If all pods arrive at once, they are measured until the last pod ends.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from hami_core.simulate.cards import Free, asks_of

if TYPE_CHECKING:
    from hami_core.inventory import Inventory
    from hami_core.simulate.cards import Ask, Cards
    from hami_core.simulate.engine import Outcome
    from hami_core.simulate.workload import Workload

SAMPLES: Final = 200
"""Most points of a series. When a series has more, every second point is dropped."""
SHAPES: Final = 16
"""Kinds of pods that fragmentation is measured for: the most frequent ones."""
PERCENTILES: Final = (50, 90, 99, 100)


@dataclass(slots=True)
class Series:
    """Values at equal distances of virtual time. Shares are parts of the whole cluster, from 0 to 1.

    Attributes:
        time_s: Virtual time.
        memory: Booked memory.
        cores: Booked cores.
        cards: Cards with a pod.
        fragmentation: Free memory that the workload can't use, over all free memory.
        stranded_memory: Free memory on cards that refuse every container of the workload for another reason.
        stranded_cores: Free cores on cards that refuse every container of the workload for another reason.
    """

    time_s: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    cards: list[float] = field(default_factory=list)
    fragmentation: list[float] = field(default_factory=list)
    stranded_memory: list[float] = field(default_factory=list)
    stranded_cores: list[float] = field(default_factory=list)

    def rows(self) -> tuple[list[float], ...]:
        """All columns."""
        return (
            self.time_s, self.memory, self.cores, self.cards, self.fragmentation, self.stranded_memory,
            self.stranded_cores,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run.

    Attributes:
        memory: Mean share of the memory that is booked, from 0 to 1; likewise ``cores`` and ``cards``.
        cores: As ``memory``.
        cards: Mean share of the cards with a pod.
        fragmentation: Mean of `Series.fragmentation`.
        stranded_memory: Mean of `Series.stranded_memory`.
        stranded_cores: Mean of `Series.stranded_cores`.
        wait_s: Seconds that placed pods waited, at `PERCENTILES`; empty: none was placed.
        filter_ms: Milliseconds of a Filter at 50 and 99 percent; empty: there was none.
        placed: Number of placed pods.
        never: Number of pods that were never placed.
    """

    memory: float
    cores: float
    cards: float
    fragmentation: float
    stranded_memory: float
    stranded_cores: float
    wait_s: tuple[float, ...]
    filter_ms: tuple[float, ...]
    placed: int
    never: int


class Meter:
    """Watches one run. `advance` is called before each change of the cluster.

    Args:
        cards: The amounts of the cluster's cards.
        workload: The pods.
        inventory: For the families' rules.
    """

    def __init__(self, cards: Cards, workload: Workload, inventory: Inventory) -> None:
        self.series = Series()
        self._cards = cards
        self._shapes = _frequent(workload, inventory)
        self._words = {asks[0].request.family for asks, _ in self._shapes}
        self._least = _least(workload, inventory)
        first, last = (workload.arrival_s[0], workload.arrival_s[-1]) if len(workload) else (0.0, 0.0)
        self._end = last if last > first else math.inf
        finite = [d for d in workload.duration_s if d < math.inf]
        self._step = max((last - first if last > first else max(finite, default=0.0)) / SAMPLES, 1e-3)
        self._now = self._next = self._first = first
        self._sums = [0.0, 0.0, 0.0]

    def advance(self, now: float) -> None:
        """Virtual time goes on; until ``now`` nothing has changed."""
        until = min(now, self._end)
        while self._next < until or (self._next == until == self._end):
            self._sample(self._next)
            self._next += self._step
        if until > self._now:
            for at, share in enumerate(self._shares()):
                self._sums[at] += share * (until - self._now)
            self._now = until

    def summary(self, outcome: Outcome, workload: Workload) -> Summary:
        """The run's figures, after its end."""
        starts = np.frombuffer(outcome.start_s, np.float64) if len(outcome.start_s) else np.zeros(0)
        arrivals = np.frombuffer(workload.arrival_s, np.float64) if len(workload) else np.zeros(0)
        waited = (starts - arrivals)[~np.isnan(starts)]
        span = self._now - self._first
        memory, cores, cards = (total / span for total in self._sums) if span > 0 else self._shares()
        if not self.series.time_s:
            self._sample(self._now)
        series = self.series
        filters = np.frombuffer(outcome.filter_s, np.float64) * 1e3 if len(outcome.filter_s) else np.zeros(0)
        return Summary(
            memory,
            cores,
            cards,
            float(np.mean(series.fragmentation)),
            float(np.mean(series.stranded_memory)),
            float(np.mean(series.stranded_cores)),
            tuple(float(one) for one in np.percentile(waited, PERCENTILES)) if len(waited) else (),
            tuple(float(one) for one in np.percentile(filters, (50, 99))) if len(filters) else (),
            len(waited),
            sum(outcome.never.values()),
        )

    def _shares(self) -> tuple[float, float, float]:
        cards = self._cards
        return (
            cards.booked_memory_mib / max(cards.memory_mib, 1),
            cards.booked_cores / max(cards.cores, 1),
            cards.used_cards / max(cards.cards, 1),
        )

    def _sample(self, now: float) -> None:
        series = self.series
        for column, value in zip(series.rows(), (now, *self._shares(), *self._lost()), strict=True):
            column.append(value)
        if len(series.time_s) > SAMPLES:
            for column in series.rows():
                del column[1::2]
            self._step *= 2

    def _lost(self) -> tuple[float, float, float]:
        """Fragmentation, stranded memory and stranded cores."""
        cards, free = self._cards, Free(self._cards)
        memory, cores = np.maximum(free.memory_mib, 0), np.maximum(free.cores, 0)
        asked = np.zeros(memory.shape, bool)
        memory_has_use, cores_have_use = asked.copy(), asked.copy()
        for asks in self._least:
            asked |= free.of_family(asks[0].request.family)
            shares = asks[0].shares(free)
            memory_has_use |= shares & min(asks, key=_cores).has_cores(free)
            cores_have_use |= shares & (free.memory_mib >= _least_memory(asks, free))
        return (
            self._fragmentation(free, memory),
            float(memory[asked & ~memory_has_use].sum()) / max(cards.memory_mib, 1),
            float(cores[asked & ~cores_have_use].sum()) / max(cards.cores, 1),
        )

    def _fragmentation(self, free: Free, memory: np.ndarray) -> float:
        """The share of free memory that a pod of the workload can't use, on average over the workload's pods."""
        total = 0.0
        of_family = {word: float(memory[free.of_family(word)].sum()) for word in self._words}
        for asks, weight in self._shapes:
            there = of_family[asks[0].request.family]
            if there:
                total += weight * (1 - float(memory[_usable(free, asks[0])].sum()) / there)
        return total


def _frequent(workload: Workload, inventory: Inventory) -> list[tuple[list[Ask], float]]:
    """The most frequent shapes that admission takes, with their shares of the pods that have them."""
    found: list[tuple[list[Ask], int]] = []
    for shape, count in Counter(workload.shape).most_common():
        if len(found) == SHAPES:
            break
        if workload.shapes[shape].refusal:
            continue
        asks = sorted(asks_of(workload.shapes[shape].request, inventory), key=_weight, reverse=True)
        if asks:
            found.append((asks, count))
    total = sum(count for _, count in found)
    return [(asks, count / total) for asks, count in found]


def _least(workload: Workload, inventory: Inventory) -> list[list[Ask]]:
    """The containers' requests of admitted pods, in groups of a family and equal rules about sharing.

    Of a group, only the requests with the least cores, memory and percentage of memory are kept: a card that refuses
    these refuses all.
    """
    groups: dict[tuple[object, ...], list[Ask]] = {}
    for shape in workload.shapes:
        for ask in () if shape.refusal else asks_of(shape.request, inventory):
            groups.setdefault((ask.request.family, ask.idle_only, ask.exclusive), []).append(ask)
    return [_smallest(asks) for asks in groups.values()]


def _smallest(asks: list[Ask]) -> list[Ask]:
    by_size = [ask for ask in asks if ask.request.memory_mib > 0]
    by_share = [ask for ask in asks if not ask.request.memory_mib]
    found = [min(asks, key=_cores)]
    found += [min(by_size, key=lambda ask: ask.request.memory_mib)] if by_size else []
    found += [min(by_share, key=lambda ask: ask.request.memory_percent or 0)] if by_share else []
    return found


def _cores(ask: Ask) -> int:
    return ask.cores


def _least_memory(asks: list[Ask], free: Free) -> int | np.ndarray:
    """The least MiB of each card that one of these requests takes."""
    least: int | np.ndarray = asks[0].memory_on(free.usable_mib)
    for ask in asks[1:]:
        least = np.minimum(least, ask.memory_on(free.usable_mib))
    return least


def _weight(ask: Ask) -> tuple[int, int, int]:
    request = ask.request
    return request.count, request.memory_mib or request.memory_percent or 0, ask.cores


def _usable(free: Free, ask: Ask) -> np.ndarray:
    """The cards that a container can get: they have room, and so have enough cards of their node."""
    open_ = ask.open_cards(free)
    enough: np.ndarray = np.count_nonzero(open_, axis=1) >= ask.request.count
    usable: np.ndarray = open_ & enough[:, None]
    return usable
