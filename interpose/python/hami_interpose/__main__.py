"""`python -m hami_interpose`: the library, what containers make of their slices, and programs on simulated GPUs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hami_interpose
from hami_interpose import check, dump, top

if TYPE_CHECKING:
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hami_interpose", description=hami_interpose.__doc__)
    parser.add_argument("--version", action="version", version=hami_interpose.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("path", help="print the path of libvgpu.so").set_defaults(run=_path)
    commands.add_parser("build-id", help="print its build id").set_defaults(run=_build_id)
    for tool in (dump, top, check):
        tool.register(commands)
    sim = commands.add_parser(
        "sim", help="run a command on simulated GPUs", usage="%(prog)s --profile NAME|FILE [--state DIR] -- COMMAND …"
    )
    sim.add_argument("--profile", help="built-in name (a100, a100x2, h100x8, t4, …) or a JSON or YAML file")
    sim.add_argument("--state", type=Path, help="state directory: used if it holds one, else made and kept there")
    sim.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    sim.set_defaults(run=_simulate, error=sim.error)
    return parser


def _path(_: argparse.Namespace) -> int:
    print(hami_interpose.library())
    return 0


def _build_id(_: argparse.Namespace) -> int:
    print(hami_interpose.build_id())
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from hami_interpose import sim  # noqa: PLC0415 - half of the package, for this command alone

    command = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if not command:
        options.error("sim needs a command: sim --profile h100x2 -- COMMAND …")
    return sim.run(command, profile=options.profile, state=options.state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, RuntimeError) as error:
        print(f"hami_interpose: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
