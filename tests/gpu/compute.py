"""Compute: work done under a core limit, compared with the bare card, in windows of 1 s and 10 s."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_interpose.limits import CorePolicy

from .bed import EndedError, missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bed import Bed, Container, Process
    from .report import Part

LIMITS: Final = (10, 25, 50, 75, 90)
# Kind of work → kernel and, if graphs are launched, kernels in each graph; or a load of `clients.py`.
KINDS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "20 us": ("k_20us", ()),
    "100 us": ("k_100us", ()),
    "1 ms": ("k_1ms", ()),
    "10 ms": ("k_10ms", ()),
    "graph": ("k_20us", (100,)),
    "bf16 product": ("matmul", ()),
    "decode": ("decode", ()),
}
PAIRS: Final = ((30, 70), (50, 50), (20, 80))
LONG, SHORT = 2.0, 8.0  # promised error in percentage points, over any 10 s and any 1 s
WARM_S: Final = 1.0  # left out of the result


@dataclass(frozen=True)
class Times:
    """Length of each measurement in seconds. One cell of each kind and one pair are long enough for windows of 10 s."""

    bare: float = 2.0
    short: float = 2.5
    long: float = 11.5
    pair: float = 4.5


FULL: Final = Times(short=11.5, pair=11.5)


class Marks:
    """Units complete at each moment, interpolated between marks."""

    def __init__(self, marks: Sequence[Sequence[int]]) -> None:
        self.at = [mark[0] / 1e9 for mark in marks]
        self.units = [float(mark[1]) for mark in marks]

    def until(self, at: float) -> float:
        """Units complete at a time, given in seconds."""
        i = bisect.bisect_right(self.at, at)
        if i == 0 or i == len(self.at):
            return self.units[min(i, len(self.units) - 1)]
        part = (at - self.at[i - 1]) / (self.at[i] - self.at[i - 1])
        return self.units[i - 1] + part * (self.units[i] - self.units[i - 1])

    def rate(self, begin: float, end: float) -> float:
        """Units a second between two times."""
        return (self.until(end) - self.until(begin)) / (end - begin)

    def windows(self, seconds: float, begin: float, end: float) -> list[float]:
        """Units a second in every window of this length, one window every 0.1 s."""
        count = int((end - begin - seconds) / 0.1 + 1e-6) + 1
        return [self.rate(begin + i * 0.1, begin + i * 0.1 + seconds) for i in range(max(count, 0))]


@dataclass
class Load:
    """A running load, and its units a second on the bare card."""

    process: Process
    container: Container
    bare: float


def run(
    bed: Bed,
    part: Part,
    times: Times = Times(),
    kinds: Sequence[str] = tuple(KINDS),
    limits: Sequence[int] = LIMITS,
    pairs: Sequence[tuple[int, int]] = PAIRS,
) -> None:
    """Measure every kind of work at every limit, then two tenants at once."""
    rounds = find_rounds(bed)
    rates: dict[str, float] = {}
    for number, kind in enumerate(kinds):
        try:
            load = _start(bed, kind, rounds, times)
        except EndedError as error:
            part.add(f"{kind}, bare", False, f"the program ended: {error}")
            continue
        if isinstance(load, str):
            part.leave_out(kind, load)
            continue
        rates[kind] = load.bare
        for limit in limits:
            long = limits[number % len(limits)] == limit
            _alone(bed, part, kind, load, limit, times.long if long else times.short)
        load.process.end()
    if "1 ms" in rates:
        for number, pair in enumerate(pairs):
            _pair(bed, part, pair, "1 ms", rates["1 ms"], rounds, times.pair if number else times.long)
        _pair(bed, part, pairs[0], "1 ms", rates["1 ms"], rounds, times.pair, bursty=True)


def find_rounds(bed: Bed) -> int:
    """Rounds of a kernel that this card runs in a microsecond, in thousandths."""
    load = bed.bare().load("k_1ms")
    rate = 1000 if bed.simulated else int(load.json("rate")["rate"])
    load.end()
    return rate


def _begin(where: Container, kind: str, rounds: int) -> Process | str:
    """Start a load and wait until it is ready. Returns why not, if a library is missing."""
    what, graph = KINDS[kind]
    if not what.startswith("k_"):
        client = where.client(what, "serve")
        return missing(client.json()) or client
    load = where.load(what, *graph)
    load.json("rounds", rounds)
    return load


def _start(bed: Bed, kind: str, rounds: int, times: Times) -> Load | str:
    bare = _begin(bed.bare(), kind, rounds)
    if isinstance(bare, str):
        return bare
    marks = Marks(bare.json("go", int(times.bare * 1000))["marks"])
    bare.end()
    rate = marks.rate(marks.at[0] + 0.2 * times.bare, marks.at[0] + times.bare)
    container = bed.container(cores=50)
    process = _begin(container, kind, rounds)
    assert not isinstance(process, str)
    return Load(process, container, rate)


def _alone(bed: Bed, part: Part, kind: str, load: Load, limit: int, seconds: float) -> None:
    load.container.write_limits(bed.limits(0, limit))
    bed.observer.json("since")
    marks = Marks(load.process.json("go", int(seconds * 1000))["marks"])
    busy = bed.observer.json("busy", load.process.pid)[str(load.process.pid)]
    _judge(part, f"{kind} at {limit} %", marks, load.bare, limit, seconds, busy)


def _judge(part: Part, name: str, marks: Marks, bare: float, limit: int, seconds: float, busy: float | None) -> None:
    """Add a row for the load's share of the card in every window, by work done."""
    begin, end = marks.at[0] + WARM_S, marks.at[0] + seconds
    share = 100 * marks.rate(begin, end) / bare
    errors = {}
    for window, promised in ((10, LONG), (1, SHORT)):
        found = [100 * rate / bare - limit for rate in marks.windows(window, begin, end)]
        if found:
            errors[window] = (max(found, key=abs), promised)
    holds = all(abs(error) <= promised for error, promised in errors.values())
    worst = ", ".join(f"worst {window} s {error:+.1f}" for window, (error, _) in errors.items())
    says = f"{share:.1f} %; {worst}" + ("" if busy is None else f"; NVML {busy:.0f} %")
    figures = {f"error_{window}s_points": round(error, 2) for window, (error, _) in errors.items()}
    part.add(name, holds, says, limit_percent=limit, share_percent=round(share, 2), nvml_percent=busy, **figures)


def _pair(
    bed: Bed,
    part: Part,
    limits: tuple[int, int],
    kind: str,
    bare: float,
    rounds: int,
    seconds: float,
    *,
    bursty: bool = False,
) -> None:
    """Measure two tenants at once. A bursty one need only stay below its limit."""
    containers = [bed.container(cores=limit, policy=CorePolicy.FORCE) for limit in limits]
    loads = [_begin(container, kind, rounds) for container in containers]
    bed.observer.json("since")
    for i, load in enumerate(loads):
        assert not isinstance(load, str)
        ms = int(seconds * 1000)
        load.send(*(("bursts", ms, 300, 200) if bursty and i == 0 else ("go", ms)))
    both = [Marks(load.json()["marks"]) for load in loads if not isinstance(load, str)]
    busy = bed.observer.json("busy", *(load.pid for load in loads if not isinstance(load, str)))
    for i, (limit, load, marks) in enumerate(zip(limits, loads, both, strict=True)):
        assert not isinstance(load, str)
        other = limits[1 - i]
        name = f"{kind} at {limit} % beside {'another ' if other == limit and i else ''}{other} %"
        if bursty and i == 0:
            begin, end = marks.at[0] + WARM_S, marks.at[0] + seconds
            most = max(100 * rate / bare for rate in marks.windows(1, begin, end))
            says = f"{100 * marks.rate(begin, end) / bare:.1f} %, at most {most:.1f} % in 1 s"
            part.add(
                f"{name}, in bursts", most <= limit + SHORT, says, limit_percent=limit, most_percent=round(most, 2)
            )
        else:
            _judge(part, f"{name}, bursty" if bursty else name, marks, bare, limit, seconds, busy[str(load.pid)])
        load.end()
