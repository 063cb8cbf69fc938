"""Cost of the interposer: pairs of allocation and free, and launches, compared with the bare simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.bench.figures import Figure

PROGRAMS: Final = Path(__file__).parent.parent.parent / "interpose" / "bench"
BUDGET_NS: Final = {
    "alloc_small": 60.0,
    "alloc_large": 60.0,
    "alloc_small_1000_live": 60.0,
    "alloc_small_100000_live": 60.0,
    "alloc_large_100000_live": 60.0,
    "alloc_large_8_threads": 200.0,
    "alloc_large_8_processes": 200.0,
    "launch": 8.0,
    "mem_get_info": 40.0,
    "nvml_memory_info": 40.0,
}
"""Nanoseconds of CPU time that the interposer may add to a call."""
LIMITED_BUDGET_NS: Final = 25.0
"""Nanoseconds of CPU time that it may add to a launch under a core limit, in one process and in eight."""


def _printed(name: str, *, quick: bool) -> Any:
    program = PROGRAMS / name
    argv = [sys.executable, str(program), *(["--rounds", "500", "--repeat", "1"] if quick else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def run(*, quick: bool) -> list[Figure]:
    """Run the programs of interpose/bench and parse their output."""
    figures = []
    for call, found in _printed("run.py", quick=quick)["interposer"].items():
        figures.append(Figure("interposer", f"{call}, added", found["added_ns"], "ns", BUDGET_NS.get(call)))
        figures.append(Figure("interposer", f"{call}, ÷ bare driver", found["ratio"], "ratio"))
    launches = _printed("launch.py", quick=quick)
    for processes in (1, 8):
        found, bare = launches[f"limit_{processes}"], launches[f"bare_{processes}"]
        where = f"launch under a core limit, {processes} at once"
        for part in ("thread", "process"):
            added = found[f"{part}_added_ns"]
            figures.append(Figure("interposer", f"{where}, added to its {part}", added, "ns", LIMITED_BUDGET_NS))
        figures.append(Figure("interposer", f"{where}, ÷ bare driver", found["thread_ns"] / bare["thread_ns"], "ratio"))
        figures.append(Figure("interposer", f"{where}, sleeps for a thousand", found["sleeps"], "sleeps"))
        figures.append(Figure("interposer", f"{where}, CPU time of a sleep here", found["sleep_us"], "µs"))
    return figures
