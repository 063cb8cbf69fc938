"""What libvgpu.so costs: CPU time of single calls, bare simulated driver against the same with the library preloaded.

    python interpose/bench/run.py [--rounds N] [--repeat N]

Prints one JSON object: for each call the bare figure, ours, the ratio and the nanoseconds added: the least over the
repeats, which alternate so that both see the same machine, since whatever else runs there can only add. Of eight at
once it is the medians: there the least is the run in which they met least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hami_gpusim as sim
import hami_interpose
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
CROWDS = {"alloc_large_8_threads": (1, 8), "alloc_large_8_processes": (8, 1)}
"""Processes, and threads of each."""


def container(root: Path, state: Path) -> None:
    """A container with half of the first card."""
    with sim.State(state) as books:
        device = books.devices[0]
    half = device.memory_total // 2
    limits = Limits((DeviceLimit(device.uuid, half, half),))
    (root / "limits").mkdir()
    (root / "limits/limits").write_bytes(encode(limits))
    (root / "region").mkdir()
    (root / "region/vgpu.cache").write_bytes(region.initial(limits))


def build(folder: Path) -> Path:
    """Compiles cost.c."""
    program = folder / "cost"
    include = f"-I{HERE.parent / 'src'}"
    command = ["gcc", "-std=gnu11", "-O2", include, str(HERE / "cost.c"), "-o", str(program), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def measure(program: Path, rounds: int, env: dict[str, str]) -> dict[str, float]:
    """Runs the program once."""
    found: dict[str, float] = json.loads(subprocess.check_output([program, str(rounds)], env=env))
    return found


def crowd(program: Path, rounds: int, env: dict[str, str], processes: int, threads: int) -> float:
    """CPU nanoseconds of one allocation and free of 2 MiB while all these do so at once, on average."""
    command = [str(program), str(rounds), str(threads)]
    pipe = subprocess.PIPE
    members = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)]
    for member in members:
        if member.stdout is not None:
            member.stdout.readline()
    for member in members:
        if member.stdin is not None:
            member.stdin.write("go\n")
            member.stdin.flush()
    return statistics.mean(float(member.communicate()[0]) for member in members)


@contextmanager
def stage(*, ours: bool) -> Iterator[dict[str, str]]:
    """A card that nobody has used before, since the dead slow the simulated driver down; yields the environment."""
    with tempfile.TemporaryDirectory(prefix="hami-bench-") as name:
        folder = Path(name)
        sim.create(folder / "gpus", "a100")
        with sim.State(folder / "gpus") as state:
            state.set_launch_time(0)
        env = sim.environment(folder / "gpus")
        if ours:
            container(folder, folder / "gpus")
            env |= {"LD_PRELOAD": str(hami_interpose.library()), "HAMI_VGPU_ROOT": str(folder)}
        yield env


def beside(program: Path, rounds: int, env: dict[str, str], others: int) -> float:
    """Nanoseconds of one allocation and free of 2 MiB beside processes that have contexts and do nothing."""
    pipe = subprocess.PIPE
    idle = [subprocess.Popen([str(program), "1", "1"], env=env, stdin=pipe, stdout=pipe) for _ in range(others)]
    for process in idle:
        if process.stdout is not None:
            process.stdout.readline()
    found = measure(program, rounds, env)["alloc_large"]
    for process in idle:
        process.communicate(b"go\n")
    return found


def start_together(program: Path, env: dict[str, str], count: int) -> float:
    """CPU nanoseconds, in user and kernel, of one of `count` processes that start and make a context at once."""
    command = [str(program), "1", "only", "nothing"]
    started = [subprocess.Popen(command, env=env) for _ in range(count)]
    spent = []
    for process in started:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        spent.append((usage.ru_utime + usage.ru_stime) * 1e9)
    return statistics.mean(spent)


def all_calls(program: Path, rounds: int, *, ours: bool) -> dict[str, float]:
    """Every figure, once."""
    with stage(ours=ours) as env:
        found = measure(program, rounds, env)
    for name, (processes, threads) in CROWDS.items():
        with stage(ours=ours) as env:
            found[name] = crowd(program, rounds * 4, env, processes, threads)
    for others in (15, 63):
        with stage(ours=ours) as env:
            found[f"alloc_large_beside_{others}"] = beside(program, rounds, env, others)
    for count in (1, 8, 64):
        with stage(ours=ours) as env:
            found[f"start_{count}"] = start_together(program, env, count)
    return found


def compare(rounds: int, repeat: int) -> dict[str, dict[str, float]]:
    """Runs bare and preloaded in turn and compares the least, or the medians, of each."""
    with tempfile.TemporaryDirectory(prefix="hami-bench-") as name:
        program = build(Path(name))
        runs = [(all_calls(program, rounds, ours=False), all_calls(program, rounds, ours=True)) for _ in range(repeat)]
    result = {}
    for call in runs[0][0]:
        typical = statistics.median if call in CROWDS else min
        bare, ours = (typical([run[which][call] for run in runs]) for which in (0, 1))
        result[call] = {
            "bare_ns": round(bare, 1),
            "hami_ns": round(ours, 1),
            "ratio": round(ours / bare, 3),
            "added_ns": round(ours - bare, 1),
        }
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5000, help="calls in each of 15 batches")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each kind")
    options = parser.parse_args()
    calls = compare(options.rounds, options.repeat)
    machine = {"cpus": os.cpu_count(), "library": hami_interpose.build_id()}
    json.dump({"interposer": calls, "machine": machine}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
