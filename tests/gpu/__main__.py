"""``python -m tests.gpu``: runs the kit on a card of this machine and reports which promises hold."""

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
for _package, _folder in {"hami_interpose": "interpose/python", "hami_gpusim": "interpose/gpusim/python"}.items():
    if importlib.util.find_spec(_package) is None:
        sys.path.insert(0, str(ROOT / _folder))

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
"""Time limit of all parts together, in seconds."""


class TooLongError(Exception):
    """A part has reached its time limit."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    epilog = "parts: " + ", ".join(f"{name} (at most {seconds} s)" for name, (_, seconds) in PARTS.items())
    made = argparse.ArgumentParser("python -m tests.gpu", description=__doc__, epilog=epilog)
    made.add_argument("--parts", default=",".join(PARTS), help="parts to run, separated by commas")
    made.add_argument("--device", default="0", help="index or UUID of the card (default: 0)")
    made.add_argument("--library", type=Path, help="a built libvgpu.so (default: build it from the tree with gcc)")
    made.add_argument(
        "--python", default=sys.executable, help="the Python that has PyTorch and others (default: this one)"
    )
    made.add_argument("--json", type=Path, help="file for the findings")
    made.add_argument("--keep", action="store_true", help=f"keep the run and rewrite {page.PAGE.relative_to(ROOT)}")
    made.add_argument("--full", action="store_true", help="windows of 10 s in every cell of compute; no time limit")
    made.add_argument("--simulated", action="store_true", help="use the simulated driver of hami_gpusim")
    made.add_argument("--page", action="store_true", help="only rewrite the page from the kept runs")
    return made


def notices(bed: Bed) -> list[str]:
    """What makes this machine's figures less reliable."""
    card, found = bed.card, []
    if card["processes"]:
        found.append(f"{card['processes']} other processes use the card")
    elif card["used"] > 0.05 * card["total"]:
        found.append(f"{card['used'] >> 20} MiB of the card are in use by processes that NVML does not show")
    if card["processes"] is None:
        found.append("NVML does not report memory by process: use is the device's, minus its use before")
    if not card["utilization"]:
        found.append("NVML does not report utilization by process")
    if card["mig"]:
        found.append("the card is in MIG mode: choose an instance with --device")
    kernel = Path("/proc/version").read_text()
    if "gVisor" in kernel or Path("/proc/sys/kernel/osrelease").read_text().strip() == "4.4.0":
        found.append("this is gVisor: it has its own record locks and /proc, and its overhead is in all times")
    if os.cpu_count() is not None and len(os.sched_getaffinity(0)) < 4:
        found.append(f"only {len(os.sched_getaffinity(0))} processors: launches of two tenants delay each other")
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
    """Run one part and end its programs. An exception becomes a row."""

    def over(*_: object) -> None:
        raise TooLongError

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1))
    try:
        run(bed, part)
    except TooLongError:
        part.add("time", False, f"did not end within {seconds:.0f} s: nothing after the last row above was tried")
    except Exception as error:  # noqa: BLE001 - the other parts still run
        part.add("the part itself", False, f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        bed.end_all()
        part.seconds = time.monotonic() - began


def chosen(text: str) -> Iterator[str]:
    """Parse a list of parts.

    Raises:
        KitError: The list has an unknown part.
    """
    for name in filter(None, text.split(",")):
        if name not in PARTS:
            raise KitError(f"unknown part {name!r}; choose from {', '.join(PARTS)}")
        yield name


class Shown(Part):
    """A part that prints each row at once, since a run takes minutes."""

    SIGNS: ClassVar = {State.HOLDS: "ok    ", State.BROKEN: "BROKEN", State.FIGURE: "      ", State.LEFT_OUT: "-     "}

    def put(self, row: Row) -> Row:
        print(f"  {self.SIGNS[row.state]} {row.name}: {row.says}", flush=True)
        return super().put(row)


def go(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Run the chosen parts. Returns the exit status."""
    names = list(chosen(options.parts))
    if options.json and not os.access(options.json.resolve().parent, os.W_OK):
        raise KitError(f"--json {options.json}: its folder is missing or not writable")
    with tempfile.TemporaryDirectory(prefix="hami-gpu-") as folder:
        work, state = Path(folder), None
        if options.simulated:
            import hami_gpusim as sim

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
    """Returns 0 if every promise holds, 1 if not, 2 if the kit can't run here."""
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
