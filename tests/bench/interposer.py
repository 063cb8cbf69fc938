"""What the interposer costs a program: alloc/free pairs and launches, over the bare simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.figures import Figure

BENCH = Path(__file__).parent.parent.parent / "interpose" / "bench"


def run(*, quick: bool) -> list[Figure]:
    """Run the program of interpose/bench and read its JSON lines."""
    argv = [sys.executable, str(BENCH / "cost.py"), *(["--quick"] if quick else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"interpose/bench/cost.py failed:\n{done.stderr}")
    return [Figure(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
