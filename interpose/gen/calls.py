"""Which file of libvgpu.so calls which: every call must go down, by the order of the rooms, and none in a circle.

    python interpose/gen/calls.py              figures, and each call that breaks a rule; exit 1 if there is one
    python interpose/gen/calls.py --arrows     also each file with the files that it calls
    python interpose/gen/calls.py --root DIR   another copy of interpose/

A call is a function that one object file lacks and another one has, as `nm` shows it. Tables of functions are data and
count as no call: `hami_parts` (src/parts.c) is the one way up. Needs gcc and nm.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOMS = ("doors", "ledger", "memory", "compute", "nvml", "top")
"""From the bottom. Files at src/ and generated ones are the top: the table of parts and the table of hooks."""
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O0", "-c")

Arrows = dict[str, dict[str, set[str]]]
"""For each file the files that it calls, with the functions."""


def name_of(source: Path) -> str:
    """A file as reports name it: room and stem, so that dlsym.c and dlsym.S are one."""
    room = source.parent.name
    return f"{room}/{source.stem}" if room in ROOMS else f"top/{source.stem}"


def symbols(source: Path, root: Path, folder: Path) -> tuple[set[str], set[str]]:
    """The functions that a source file defines for others, and the names that it needs from others.

    Raises:
        CalledProcessError: it does not compile.
    """
    out = folder / f"{source.parent.name}-{source.name}.o"
    include = (f"-I{root / 'src'}", f"-I{root / 'generated'}")
    subprocess.run(["gcc", *FLAGS, *include, str(source), "-o", str(out)], check=True)
    table = subprocess.run(["nm", "-P", str(out)], check=True, capture_output=True, text=True).stdout
    has, needs = set[str](), set[str]()
    for line in table.splitlines():
        symbol, kind = line.split()[:2]
        if kind in {"T", "W"}:
            has.add(symbol)
        elif kind == "U":
            needs.add(symbol)
    return has, needs


def arrows(root: Path) -> Arrows:
    """The calls between all source files under `root`/src and `root`/generated."""
    sources = sorted([*root.glob("src/**/*.[cS]"), *root.glob("generated/**/*.c")])
    with tempfile.TemporaryDirectory(prefix="hami-calls-") as folder, ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda source: symbols(source, root, Path(folder)), sources))
    home = {symbol: name_of(source) for source, (has, _) in zip(sources, found, strict=True) for symbol in has}
    graph: Arrows = {name_of(source): {} for source in sources}
    for source, (_, needs) in zip(sources, found, strict=True):
        for symbol in needs & home.keys():
            if home[symbol] != name_of(source):
                graph[name_of(source)].setdefault(home[symbol], set()).add(symbol)
    return graph


def upward(graph: Arrows) -> list[str]:
    """Each pair of files of which the lower calls the upper."""

    def height(name: str) -> int:
        return ROOMS.index(name.partition("/")[0])

    return [
        f"{caller} -> {called} ({', '.join(sorted(functions))})"
        for caller, calls in graph.items()
        for called, functions in calls.items()
        if height(caller) < height(called)
    ]


def circles(graph: Arrows) -> list[str]:
    """Each group of files that call one another in a circle."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        reach[start], new = set(), set(graph[start])
        while new:
            reach[start] |= new
            new = {called for name in new for called in graph[name]} - reach[start]
    groups = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in graph if a in reach[a]}
    return [" ".join(group) for group in sorted(groups)]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--arrows", action="store_true")
    options = parser.parse_args()
    graph = arrows(options.root)
    up, round_ = upward(graph), circles(graph)
    if options.arrows:
        for caller, calls in graph.items():
            sys.stdout.write(f"{caller}: {' '.join(sorted(calls))}\n")
    count = sum(len(calls) for calls in graph.values())
    sys.stdout.write(f"files {len(graph)}, arrows {count}, up {len(up)}, circles {len(round_)}\n")
    sys.stdout.writelines(f"up: {pair}\n" for pair in up)
    sys.stdout.writelines(f"circle: {group}\n" for group in round_)
    return 1 if up or round_ else 0


if __name__ == "__main__":
    sys.exit(main())
