"""What the interposer costs a program: alloc/free pairs and launches, over the bare simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.figures import Figure

PROGRAM: Final = Path(__file__).parent.parent.parent / "interpose" / "bench" / "run.py"
BUDGET_NS: Final = {"alloc_large": 60.0, "launch": 8.0, "mem_get_info": 40.0, "nvml_memory_info": 40.0}
"""Nanoseconds of CPU a call may cost more than on the bare driver."""


def run(*, quick: bool) -> list[Figure]:
    """Run the program of interpose/bench and read what it prints."""
    argv = [sys.executable, str(PROGRAM), *(["--rounds", "2000", "--repeat", "3"] if quick else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{PROGRAM} failed:\n{done.stderr}")
    figures = []
    for call, found in json.loads(done.stdout)["interposer"].items():
        figures.append(Figure("interposer", f"{call}, added", found["added_ns"], "ns", BUDGET_NS.get(call)))
        figures.append(Figure("interposer", f"{call}, ÷ bare driver", found["ratio"], "ratio"))
    return figures
