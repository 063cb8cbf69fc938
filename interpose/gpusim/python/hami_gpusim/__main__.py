"""`python -m hami_gpusim --profile a100x2 -- COMMAND`, also installed as `hami-gpusim`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hami_gpusim

if TYPE_CHECKING:
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hami-gpusim",
        usage="%(prog)s --profile NAME|FILE [--state DIR] -- COMMAND …",
        description="Run a command on simulated NVIDIA GPUs.",
    )
    parser.add_argument("--version", action="version", version=hami_gpusim.__version__)
    parser.add_argument("--profile", help="built-in name (a100, a100x2, h100x8, t4, …) or a JSON or YAML file")
    parser.add_argument("--state", type=Path, help="state directory: used if it holds one, else made and kept there")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("write a command after --: --profile h100x2 -- COMMAND …")
    try:
        return hami_gpusim.run(command, profile=options.profile, state=options.state)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"hami-gpusim: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
