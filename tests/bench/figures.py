"""Figures that benchmarks report, and helpers for measuring."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        bench: What was measured, such as ``filter``.
        case: The circumstances.
        value: The figure.
        unit: Its unit.
        budget: The promised maximum. None if nothing is promised.
    """

    bench: str
    case: str
    value: float
    unit: str
    budget: float | None = None

    @property
    def within(self) -> bool | None:
        """Whether the figure is within its budget. None without a budget."""
        return None if self.budget is None else self.value <= self.budget


def timings(call: Callable[[], object], rounds: int, *, warm_up: int = 5) -> list[float]:
    """Seconds of each of ``rounds`` calls, without garbage collection."""
    for _ in range(warm_up):
        call()
    gc.collect()
    gc.disable()
    try:
        taken = []
        for _ in range(rounds):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return taken


def percentile(values: Iterable[float], percent: float) -> float:
    """The percentile, 0 to 100, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def p50_p99(
    bench: str, case: str, seconds: list[float], *, budget_ms: tuple[float, float] | None = None
) -> list[Figure]:
    """The median and the 99th percentile as figures in milliseconds."""
    low, high = budget_ms or (None, None)
    return [
        Figure(bench, f"{case}, p50", statistics.median(seconds) * 1e3, "ms", low),
        Figure(bench, f"{case}, p99", percentile(seconds, 99) * 1e3, "ms", high),
    ]
