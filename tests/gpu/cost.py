"""Cost: what a limit adds to calls and to training and decoding."""

from __future__ import annotations

import json
import statistics
import subprocess
from typing import TYPE_CHECKING, Final

from .bed import EndedError, missing
from .compute import WARM_S, Marks

if TYPE_CHECKING:
    from .bed import Bed, Container
    from .report import Part

CALLS: Final = {
    "launch": "a launch",
    "alloc_small": "allocation and free of 4 KiB",
    "alloc_large": "allocation and free of 2 MiB",
    "alloc_async": "cuMemAllocAsync and free of 2 MiB",
    "mem_get_info": "cuMemGetInfo",
}
LOADS: Final = {"train": "training step", "decode": "decode step"}
ADDED_NS: Final = 2000.0
"""Processor time that a limit may add to one of these calls, in ns."""
SLOWER_PERCENT: Final = 2.0
"""Percent by which a memory limit may slow down a training step or a decode loop."""
MEMORY_MIB: Final = 16000


def run(bed: Bed, part: Part, rounds: int = 200, seconds: float = 3.0) -> None:
    """Compare the bare card with the preload: without limits, with a memory limit, with both limits."""
    places = {
        "bare": bed.bare(),
        "no limit": bed.container(),
        "memory limit": bed.container(memory_mib=MEMORY_MIB),
        "both limits": bed.container(memory_mib=MEMORY_MIB, cores=99),
    }
    _calls(bed, part, places, rounds)
    for library, unit in LOADS.items():
        _rate(part, places, library, unit, seconds)


def _calls(bed: Bed, part: Part, places: dict[str, Container], rounds: int) -> None:
    program = bed.program("cost")
    found: dict[str, dict[str, float]] = {}
    for name, place in places.items():
        done = subprocess.run([program, str(rounds)], env=place.env(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            part.add(f"calls, {name}", False, f"the program ended: {done.stderr.strip()}")
            return
        found[name] = json.loads(done.stdout)
    for call, title in CALLS.items():
        bare = found["bare"][call]
        added = {name: round(found[name][call] - bare, 1) for name in places if name != "bare"}
        says = f"{bare:.0f} ns bare; " + ", ".join(f"{name} {ns:+.0f}" for name, ns in added.items())
        part.add(title, max(added.values()) <= ADDED_NS, says, bare_ns=bare, **{f"{k}_ns": v for k, v in added.items()})


def _rate(part: Part, places: dict[str, Container], library: str, unit: str, seconds: float) -> None:
    """Units a second and the slowdown against bare. The median over windows ignores a single pause."""
    rates: dict[str, float] = {}
    for name, place in places.items():
        client = place.client(library, "serve")
        try:
            if why := missing(client.json()):
                part.leave_out(unit, why)
                return
            marks = Marks(client.json("go", int(seconds * 1000))["marks"])
        except EndedError as error:
            part.add(f"{unit}, {name}", False, f"the program ended: {error}")
            return
        rates[name] = statistics.median(marks.windows(0.5, marks.at[0] + WARM_S, marks.at[0] + seconds))
        client.end()
    slower = {name: round(100 * (1 - rate / rates["bare"]), 2) for name, rate in rates.items() if name != "bare"}
    says = f"{rates['bare']:.1f} a second bare; slower by " + ", ".join(f"{k} {v:.1f} %" for k, v in slower.items())
    holds = max(slower["no limit"], slower["memory limit"]) <= SLOWER_PERCENT
    part.add(unit, holds, says, bare_per_s=round(rates["bare"], 2), **{f"{k}_percent": v for k, v in slower.items()})
