"""Time and memory of `hami simulate`, one policy, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tests.bench.figures import Figure

BENCH = "simulate"
SIZES = ((250, 100_000, 1.5), (5_000, 100_000, 0.95), (20_000, 20_000, 0.95), (50_000, 20_000, 0.95))
"""Nodes of 8 cards, pods and load. Under a load of 1.5, most pods wait."""
QUICK = ((50, 500, 0.95),)


def measured(folder: Path, nodes: int, pods: int, load: float) -> list[Figure]:
    """Run the command once."""
    row = {"name": "n-{}", "count": nodes, "family": "NVIDIA", "cards": 8, "memoryMiB": 81920, "numaNodes": 2}
    wanted = {"pods": pods, "load": load}
    (folder / "cluster.yaml").write_text(yaml.safe_dump({"nodes": [row]}))
    (folder / "workload.yaml").write_text(yaml.safe_dump({"generate": wanted}))
    argv = [sys.executable, "-c", "from hami_core.cli.main import main; main()", "simulate", "cluster.yaml"]
    argv += ["workload.yaml", "--policies", "binpack/spread", "-o", "json"]
    began = time.perf_counter()
    with (folder / "out.json").open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hami simulate exits with {process.returncode}")
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())["policies"][0]
    case = f"{nodes} nodes x 8 cards, {pods} pods, load {load:g}"
    return [
        Figure(BENCH, f"{case}, time", taken, "s"),
        Figure(BENCH, f"{case}, CPU time", usage.ru_utime + usage.ru_stime, "s"),
        Figure(BENCH, f"{case}, peak memory", usage.ru_maxrss / 1024, "MiB"),
        Figure(BENCH, f"{case}, wait p50", found["waitSeconds"]["p50"], "s"),
        Figure(BENCH, f"{case}, booked memory", found["utilisation"]["memory"] * 100, "%"),
        Figure(BENCH, f"{case}, Filter p50", found["filterMilliseconds"]["p50"], "ms"),
        Figure(BENCH, f"{case}, Filter p99", found["filterMilliseconds"]["p99"], "ms"),
    ]


def run(*, quick: bool = False) -> list[Figure]:
    """Measure each size in a process of its own."""
    figures: list[Figure] = []
    for size in QUICK if quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures += measured(Path(folder), *size)
    return figures
