"""What a launch costs: bare simulated driver, libvgpu.so without a limit, and with one; 1 and 8 processes at once.

    python interpose/bench/launch.py [--rounds N] [--repeat N] [--limit PERCENT] [--kernel MICROSECONDS]

Prints one JSON object. CPU time only: waiting for a turn or for balance costs none but that of going to sleep, which
some virtual machines make dear. How much of the figure that is tell `sleeps`, of the launching thread for each thousand
launches, and `sleep_us`, the CPU time of one here. `thread_ns` is the least of 40 batches of the launching thread,
`process_ns` likewise of the whole process, with its helper thread. Of the repeats, which alternate so that all kinds
see the same machine, the least counts: whatever else runs there can only add.

With --kernel the launches are of kernels that take so long, 2 ms of them between synchronizations, and the figures are
launches a second and the CPU time of all the processes in percent of one core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hami_gpusim as sim
import hami_interpose
from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent


def container(root: Path, uuid: str, cores: int) -> Path:
    """A container with a core limit."""
    limits = Limits((DeviceLimit(uuid, 0, 0, cores),), core_policy=CorePolicy.FORCE)
    for name in ("limits", "region", "turns"):
        (root / name).mkdir(parents=True)
    (root / "limits/limits").write_bytes(encode(limits))
    (root / "region/vgpu.cache").write_bytes(region.initial(limits))
    (root / "turns" / uuid).write_bytes(turn.initial())
    return root


def measure(program: Path, arguments: list[str], env: dict[str, str], processes: int) -> list[dict[str, float]]:
    """Runs the program in so many processes at once, until all have printed; what each of them did."""
    pipe = subprocess.PIPE
    command = [str(program), *arguments]
    running = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)]
    for process in running:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()
    found = [process.stdout.readline() for process in running if process.stdout is not None]
    for process in running:
        process.communicate()
    return [json.loads(line) for line in found]


@contextmanager
def stage(kernel: float, limit: int) -> Iterator[tuple[Path, dict[str, dict[str, str]]]]:
    """The program, and the environment of each kind of run; kernels take `kernel` seconds."""
    with tempfile.TemporaryDirectory(prefix="hami-bench-") as made:
        folder = Path(made)
        sim.create(folder / "gpus", "a100")
        with sim.State(folder / "gpus") as state:
            state.set_launch_time(kernel)
            uuid = state.devices[0].uuid
        program = folder / "launch"
        include = f"-I{HERE.parent / 'src'}"
        subprocess.run(
            ["gcc", "-std=gnu11", "-O2", include, str(HERE / "launch.c"), "-o", str(program), "-ldl"], check=True
        )
        bare = sim.environment(folder / "gpus")
        ours = bare | {"LD_PRELOAD": str(hami_interpose.library())}
        yield (
            program,
            {
                "bare": bare,
                "no_limit": ours | {"HAMI_VGPU_ROOT": str(container(folder / "free", uuid, 0))},
                "limit": ours | {"HAMI_VGPU_ROOT": str(container(folder / "limited", uuid, limit))},
            },
        )


def alternate(
    program: Path, kinds: dict[str, dict[str, str]], arguments: list[str], processes: int, repeat: int
) -> dict[str, list[list[dict[str, float]]]]:
    """What each process printed, by kind and repeat; the kinds alternate so that all see the same machine."""
    found: dict[str, list[list[dict[str, float]]]] = {kind: [] for kind in kinds}
    for _ in range(repeat):
        for kind, env in kinds.items():
            found[kind].append(measure(program, arguments, env, processes))
    return found


def compare(rounds: int, repeat: int, limit: int) -> dict[str, dict[str, float]]:
    """One launch: the least over the repeats, each the mean of its processes."""
    result: dict[str, dict[str, float]] = {}
    with stage(0, limit) as (program, kinds):
        for processes in (1, 8):
            found = alternate(program, kinds, [str(rounds)], processes, repeat)
            for name in ("thread_ns", "process_ns"):
                least = {
                    kind: min(statistics.mean(one[name] for one in run) for run in runs) for kind, runs in found.items()
                }
                for kind, ours in least.items():
                    row = result.setdefault(f"{kind}_{processes}", {})
                    row[name] = round(ours, 1)
                    row[f"{name[:-3]}_added_ns"] = round(ours - least["bare"], 1)
            for kind, runs in found.items():
                for name in ("sleeps", "sleep_us"):
                    typical = statistics.median(one[name] for run in runs for one in run)
                    result[f"{kind}_{processes}"][name] = round(typical, 2)
    return result


def steady(kernel_us: float, repeat: int, limit: int) -> dict[str, dict[str, float]]:
    """Kernels that take so long, for three seconds: medians over the repeats, each the sum of its processes."""
    arguments = [str(max(1, round(2000 / kernel_us))), "3"]
    result = {}
    with stage(kernel_us / 1e6, limit) as (program, kinds):
        for processes in (1, 8):
            for kind, runs in alternate(program, kinds, arguments, processes, repeat).items():
                result[f"{kind}_{processes}"] = {
                    name: round(statistics.median(sum(one[name] for one in run) for run in runs), 1)
                    for name in ("launches", "percent")
                }
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20000, help="launches in each of 40 batches")
    parser.add_argument("--repeat", type=int, default=10, help="runs of each kind")
    parser.add_argument("--limit", type=int, default=90, help="percent")
    parser.add_argument("--kernel", type=float, help="microseconds that a kernel takes")
    options = parser.parse_args()
    if options.kernel:
        found = steady(options.kernel, options.repeat, options.limit)
    else:
        found = compare(options.rounds, options.repeat, options.limit)
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
