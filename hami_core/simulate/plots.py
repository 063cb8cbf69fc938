"""Plots of the results, as SVG and PNG: utilisation and fragmentation over time, and how long pods waited.

This module needs matplotlib, which the extra ``hami[simulate]`` installs.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hami_core.simulate.run import Result
    from hami_core.simulate.workload import Workload

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which people with any kind of colour blindness can tell apart."""
DASHES: Final = ("-", "--", "-.", ":")
"""Lines also differ in their dashes, for print."""
SHORTEST_S: Final = 1.0
"""Left end of the axis of waiting times."""
TICKS: Final = (
    (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (6 * 3600.0, "6 h"),
    (86400.0, "1 d"), (7 * 86400.0, "7 d"), (30 * 86400.0, "30 d"), (365 * 86400.0, "1 y"),
)  # fmt: skip
"""Marks on the axis of waiting times."""
SIZE_INCHES: Final = (8.0, 4.5)
DPI: Final = 120
_SETTINGS: Final = {
    "svg.hashsalt": "hami",  # the same run gives the same file
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 11,
}


def draw(results: Sequence[Result], workload: Workload) -> Iterator[tuple[str, bytes]]:
    """Draw all plots.

    Yields:
        File name and content.
    """
    drawings: dict[str, Callable[[Any], None]] = {
        "utilisation": lambda axes: _series(axes, results, "memory", "booked memory (% of the cluster)"),
        "fragmentation": lambda axes: _series(axes, results, "fragmentation", "fragmentation (% of free memory)"),
        "waiting": lambda axes: _waiting(axes, results, workload),
    }
    for name, drawing in drawings.items():
        with mpl.rc_context(_SETTINGS):
            figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
            FigureCanvasAgg(figure)
            axes = figure.add_subplot()
            drawing(axes)
            figure.legend(loc="outside upper center", ncols=4, frameon=False)
            for kind in ("svg", "png"):
                content = io.BytesIO()
                figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None)
                yield f"{name}.{kind}", content.getvalue()


def _style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.8}


def _unit(longest_s: float) -> tuple[float, str]:
    """The unit for an axis that reaches to a time: seconds in it, and its name."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if longest_s >= 3 * size:
            return size, name
    return 1.0, "seconds"


def _series(axes: Any, results: Sequence[Result], column: str, title: str) -> None:  # noqa: ANN401 - matplotlib's
    unit, name = _unit(max((one.series.time_s[-1] for one in results if one.series.time_s), default=0.0))
    for number, one in enumerate(results):
        times = np.array(one.series.time_s) / unit
        axes.plot(times, np.array(getattr(one.series, column)) * 100, label=str(one.policy), **_style(number))
    axes.set_xlabel(f"virtual time ({name})")
    axes.set_ylabel(title)
    axes.set_ylim(0, 100)
    axes.margins(x=0)


def _waiting(axes: Any, results: Sequence[Result], workload: Workload) -> None:  # noqa: ANN401 - matplotlib's
    """The share of all pods that were placed within a time. A line that ends below 100 % has pods never placed."""
    waits = [np.sort(_waited(one, workload)) for one in results]
    longest = max((float(wait[-1]) for wait in waits if len(wait)), default=0.0)
    right = max(longest * 1.2, 60.0)
    lowest = 100.0
    for number, (one, wait) in enumerate(zip(results, waits, strict=True)):
        times, shares = steps(wait, len(workload), right)
        axes.plot(times, shares, drawstyle="steps-post", label=str(one.policy), **_style(number))
        lowest = min(lowest, float(shares[0]))
    axes.set_xscale("log")
    axes.set_xlim(SHORTEST_S, right)
    axes.set_xticks([size for size, _ in TICKS if size <= max(longest, 60.0)])
    axes.set_xticklabels([text for size, text in TICKS if size <= max(longest, 60.0)])
    axes.minorticks_off()
    axes.set_xlabel("waited at most (logarithmic scale)")
    axes.set_ylabel("pods placed (% of all)")
    axes.set_ylim(max(0, lowest // 10 * 10 - 10), 101)


def steps(waits: np.ndarray, pods: int, right: float) -> tuple[np.ndarray, np.ndarray]:
    """A line from the axis' left end to its right one: the percent of the pods that waited at most so long.

    Args:
        waits: Seconds that placed pods waited, in ascending order.
        pods: Number of all pods.
        right: Right end of the axis, in seconds.
    """
    first = int(np.searchsorted(waits, SHORTEST_S, side="right"))  # shorter waits are one point at the left end
    longer = np.unique(np.linspace(first, len(waits) - 1, 500).astype(int)) if first < len(waits) else np.zeros(0, int)
    times = np.concatenate(([SHORTEST_S], waits[longer], [right]))
    return times, np.concatenate(([first], longer + 1, [len(waits)])) / pods * 100


def _waited(one: Result, workload: Workload) -> np.ndarray:
    starts = np.frombuffer(one.outcome.start_s, np.float64)
    waited = starts - np.frombuffer(workload.arrival_s, np.float64)
    placed: np.ndarray = waited[~np.isnan(waited)]
    return placed
