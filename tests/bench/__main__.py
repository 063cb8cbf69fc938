"""``python -m tests.bench [NAME …]``: run benchmarks, print a table, store JSON under ``.bench/``."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tests.bench.figures import Figure

BENCHES = {
    "filter": "Filter in process: 100, 1,000 and 5,000 nodes of 8 cards, empty and filled, unseen requests",
    "http": "Filter and webhook over HTTP through the whole scheduler process",
    "objects": "the whole scheduler process with 1,000, 5,000 and 50,000 nodes whose objects are as large as real ones",
    "binds": "Filter and Bind of many pods: on one node, from four clients at once; API calls of a placed pod",
    "top": "hami top with 1,000 agents behind an API server; /usage of 5,000 nodes",
    "pending": "10,000 pods that wait: memory, the search for pods that fit by now, Filters of other pods meanwhile",
    "agent": "the node agent's answers to the kubelet, its memory and idle CPU",
    "codecs": "encode and decode throughput of the wire formats",
    "interposer": "cost of alloc/free and of a launch over the bare simulated driver",
    "simulate": "hami simulate: time and memory at 5,000, 20,000 and 50,000 nodes of 8 cards",
    "hooks": "cost of a call through the plugin layer",
}


REAL = {"real": "pods through real kube-scheduler, API server and kubelet"}
"""These need a real bed (see docs/how-to/real-bed.md), so they run only on request."""


def main() -> int:
    """Run the benchmarks that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--out", type=Path, default=Path(".bench"), help="folder for the JSON files")
    parser.add_argument("--real", action="store_true", help="run those on real Kubernetes")
    options = parser.parse_args()
    known = BENCHES | REAL
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; choose from {', '.join(known)}")
    console = Console()
    figures: list[Figure] = []
    for name in options.names or (REAL if options.real else BENCHES):
        with console.status(f"{name}: {known[name]}"):
            figures += import_module(f"tests.bench.{name}").run(quick=options.quick)
    table = Table()
    for column in ("bench", "case", "figure", "unit", "budget", ""):
        table.add_column(column, justify="right" if column in {"figure", "budget"} else "left")
    for figure in figures:
        mark = {None: "", True: "[green]kept[/]", False: "[red]missed[/]"}[figure.within]
        budget = "" if figure.budget is None else f"{figure.budget:g}"
        table.add_row(figure.bench, figure.case, f"{figure.value:,.3f}", figure.unit, budget, mark)
    console.print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    file = options.out / f"{now:%Y%m%dT%H%M%SZ}.json"
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    document = {"taken": now.isoformat(), "on": machine, "figures": [asdict(f) | {"within": f.within} for f in figures]}
    file.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"stored in {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
