"""``python -m tests.gpu``: runs the kit on this machine's card and says what holds."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import platform
import re
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

ROOT: Final = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("hami_interpose") is None:
    sys.path.insert(0, str(ROOT / "interpose/python"))

from . import compute, cost, doors, facts, memory, page, priority  # noqa: E402 - they need the path
from .bed import Bed, KitError  # noqa: E402
from .report import RESULTS, SIMULATED, Part, Report, Row, State  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PARTS: Final[dict[str, tuple[Callable[[Bed, Part], None], int]]] = {
    "doors": (doors.run, 90),
    "memory": (memory.run, 90),
    "facts": (facts.run, 20),
    "compute": (compute.run, 260),
    "priority": (priority.run, 40),
    "cost": (cost.run, 100),
}
"""Each part and its time limit in seconds."""
ALL_S: Final = 480
"""All parts together take at most this many seconds."""


class TooLongError(Exception):
    """A part's time is over."""


def parser() -> argparse.ArgumentParser:
    """What it can be told."""
    epilog = "parts: " + ", ".join(f"{name} ({seconds} s at most)" for name, (_, seconds) in PARTS.items())
    made = argparse.ArgumentParser("python -m tests.gpu", description=__doc__, epilog=epilog)
    made.add_argument("--parts", default=",".join(PARTS), help="which parts to run, with commas between them")
    made.add_argument("--device", default="0", help="index or UUID of the card (default: 0)")
    made.add_argument("--library", type=Path, help="a built libvgpu.so; else it is built from the tree by gcc")
    made.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and others (default: this)")
    made.add_argument("--json", type=Path, help="where to write what was found")
    made.add_argument("--keep", action="store_true", help=f"keep the run and write {page.PAGE.relative_to(ROOT)} anew")
    made.add_argument("--full", action="store_true", help="windows of 10 s in every cell of compute; no limit of time")
    made.add_argument("--simulated", action="store_true", help="use the simulated driver of hami_interpose")
    made.add_argument("--page", action="store_true", help="only write the page anew, from the kept runs")
    return made


def notices(bed: Bed) -> list[str]:
    """What makes the figures of this machine less sure."""
    card, found = bed.card, []
    if card["processes"]:
        found.append(f"the card is not ours alone: {card['processes']} other processes are on it")
    elif card["used"] > 0.05 * card["total"]:
        found.append(f"{card['used'] >> 20} MiB of the card are in use, by nobody that NVML shows")
    if card["processes"] is None:
        found.append("NVML tells no use of single processes: use is the device's, less what it was before")
    if not card["utilization"]:
        found.append("NVML tells no utilization of processes")
    if card["mig"]:
        found.append("the card is in MIG mode: choose an instance by --device")
    kernel = Path("/proc/version").read_text()
    if "gVisor" in kernel or Path("/proc/sys/kernel/osrelease").read_text().strip() == "4.4.0":
        found.append("this is gVisor: record locks and /proc are its own, times have its overhead")
    if os.cpu_count() is not None and len(os.sched_getaffinity(0)) < 4:
        found.append(f"only {len(os.sched_getaffinity(0))} processors: launches of two tenants disturb each other")
    return found


def describe(bed: Bed) -> dict[str, str]:
    """The machine, for the report."""
    card = bed.card
    return {
        "card": "Simulated " + card["name"] if bed.simulated else card["name"],
        "driver": card["driver"],
        "date": datetime.now(UTC).date().isoformat(),
        "memory": f"{card['total'] >> 20} MiB",
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors, Linux {platform.release()}",
        "python": platform.python_version(),
        "library": "built by CMake" if bed.given else "built by the kit with gcc",
    }


def run_part(bed: Bed, part: Part, seconds: float, run: Callable[[Bed, Part], None]) -> None:
    """Runs one part; what goes wrong in it is a row, and its programs end with it."""

    def over(*_: object) -> None:
        raise TooLongError

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1))
    try:
        run(bed, part)
    except TooLongError:
        part.add("time", False, f"not over after {seconds:.0f} s: what comes after the last row above was not tried")
    except Exception as error:  # noqa: BLE001 - the other parts still run
        part.add("the part itself", False, f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        bed.end_all()
        part.seconds = time.monotonic() - began


def chosen(text: str) -> Iterator[str]:
    """The names of parts in a list.

    Raises:
        KitError: One is unknown.
    """
    for name in filter(None, text.split(",")):
        if name not in PARTS:
            raise KitError(f"no part is called {name!r}; there are {', '.join(PARTS)}")
        yield name


class Shown(Part):
    """A part that prints its rows as they come: a run takes minutes."""

    SIGNS: ClassVar = {State.HOLDS: "ok    ", State.BROKEN: "BROKEN", State.FIGURE: "      ", State.LEFT_OUT: "-     "}

    def put(self, row: Row) -> Row:
        print(f"  {self.SIGNS[row.state]} {row.name}: {row.says}", flush=True)
        return super().put(row)


def go(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Runs what was chosen; the exit status."""
    names = list(chosen(options.parts))
    if options.json and not os.access(options.json.resolve().parent, os.W_OK):
        raise KitError(f"--json {options.json}: its folder is not there, or may not be written")
    with tempfile.TemporaryDirectory(prefix="hami-gpu-") as folder:
        work, state = Path(folder), None
        if options.simulated:
            from hami_interpose import sim

            state = work / "gpus"
            sim.create(state, "h100", seed="kit")
        with Bed(work, library=options.library, simulated=state, device=options.device, python=options.python) as bed:
            command = " ".join(("python -m tests.gpu", *(word for word in words if word != "--keep")))
            report = Report(describe(bed), notices(bed), command)
            print(f"{report.machine['card']}, driver {report.machine['driver']}, {report.machine['memory']}")
            for notice in report.notices:
                print(f"note: {notice}")
            began = time.monotonic()
            for name in names:
                run, seconds = PARTS[name]
                left = ALL_S - (time.monotonic() - began)
                if options.full and name == "compute":
                    run, seconds, left = functools.partial(compute.run, times=compute.FULL), 3600, 3600
                print(f"\n{name}", flush=True)
                part = report.parts[name] = Shown()
                run_part(bed, part, min(seconds, left), run)
    if options.json:
        report.write(options.json)
    if options.keep:
        card = re.sub(r"[^A-Za-z0-9.]+", "-", f"{report.machine['card']}-{report.machine['driver']}")
        report.write(SIMULATED if options.simulated else RESULTS / f"{card}.json")
        page.PAGE.write_text(page.render())
    broken = report.broken()
    rows = sum(len(part.rows) for part in report.parts.values())
    print(f"\n{rows} rows in {time.monotonic() - began:.0f} s, {len(broken)} broken")
    for name, row in broken:
        print(f"  {name}: {row.name}: {row.says}")
    return 1 if broken else 0


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if all that is promised holds, 1 if not, 2 if the kit cannot run here."""
    words = sys.argv[1:] if words is None else words
    options = parser().parse_args(words)
    if options.page:
        page.PAGE.write_text(page.render())
        return 0
    try:
        return go(options, words)
    except KitError as error:
        print(f"python -m tests.gpu: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
