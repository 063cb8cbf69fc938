"""How many instructions libvgpu.so adds to the calls that programs make most, counted by valgrind's callgrind.

    python interpose/bench/instructions.py            compare with instructions.json
    python interpose/bench/instructions.py --write    store what was counted

It also counts what the start of a process takes alone and beside others, which must not be much more: nothing about a
start waits for, or looks long at, the other processes of a container.

Counts do not depend on what else the machine is doing, so a test can hold them to what is stored; they do depend a
little on the compiler, hence the tolerance.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import run

if TYPE_CHECKING:
    from collections.abc import Iterator

STORED = run.HERE / "instructions.json"
CALLS = ("alloc_small", "alloc_large", "mem_get_info", "nvml_memory_info", "launch")
ROUNDS = (500, 2500)
TOLERANCE = 1.15
BESIDE = (0, 7, 63)
MOST_BESIDE = 1.2


@contextmanager
def members(program: Path, count: int, env: dict[str, str]) -> Iterator[None]:
    """So many other processes of the container that have a context and wait."""
    command, pipe = [str(program), "1", "1"], subprocess.PIPE
    held = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    try:
        for member in held:
            if member.stdout is None or member.stdout.readline() != "ready\n":
                raise RuntimeError(f"a process beside has ended: {member.wait()}")
        yield
    finally:
        for member in held:
            member.kill()
            member.communicate()


def total(program: Path, folder: Path, call: str, rounds: int, *, ours: bool, beside: int = 0) -> int:
    """Instructions of a whole run, beside so many other processes."""
    out = folder / "callgrind.out"
    with run.stage(ours=ours) as env, members(program, beside, env):
        command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command += [str(program), str(rounds), "only", call]
        env["HAMI_SIM_ADDRESS_GIB"] = "8"  # valgrind has no room for more
        subprocess.run(command, env=env, check=True, capture_output=True)
    found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"callgrind wrote no total to {out}")
    return int(found[1])


def counted() -> dict[str, float]:
    """Instructions added to one call."""
    few, many = ROUNDS
    result = {}
    with tempfile.TemporaryDirectory(prefix="hami-instructions-") as name:
        folder = Path(name)
        program = run.build(folder)
        for call in CALLS:
            each = [
                (total(program, folder, call, many, ours=ours) - total(program, folder, call, few, ours=ours))
                / (many - few)
                for ours in (False, True)
            ]
            result[call] = round(each[1] - each[0], 1)
    return result


def starts() -> list[int]:
    """Instructions of a process that makes a context and ends, for each number in `BESIDE` of others at work."""
    with tempfile.TemporaryDirectory(prefix="hami-instructions-") as name:
        program = run.build(Path(name))
        return [total(program, Path(name), "nothing", 1, ours=True, beside=others) for others in BESIDE]


def available() -> str:
    """Empty where valgrind is installed, else the reason why nothing can be counted."""
    return "" if shutil.which("valgrind") else "valgrind is not installed: instructions are not counted"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the counts")
    options = parser.parse_args()
    if reason := available():
        sys.stderr.write(f"{reason}\n")
        return 1
    found = counted()
    if options.write:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    for call in CALLS:
        sys.stdout.write(f"{call}: {found[call]} added, {stored[call]} stored\n")
    alone, *others = starts()
    for beside, count in zip(BESIDE[1:], others, strict=True):
        sys.stdout.write(f"start beside {beside} others: {count}, {count / alone:.2f} of {alone} alone\n")
    dear = any(found[call] > stored[call] * TOLERANCE + 2 for call in CALLS)
    return int(dear or any(count > alone * MOST_BESIDE for count in others))


if __name__ == "__main__":
    raise SystemExit(main())
