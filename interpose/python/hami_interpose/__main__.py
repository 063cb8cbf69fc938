"""`python -m hami_interpose`: the library, and what containers make of their slices."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import hami_interpose
from hami_interpose import check, dump, top
from hami_interpose._moved import gpusim

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
    return parser


def _path(_: argparse.Namespace) -> int:
    print(hami_interpose.library())
    return 0


def _build_id(_: argparse.Namespace) -> int:
    print(hami_interpose.build_id())
    return 0


def _simulate(arguments: Sequence[str]) -> int:
    """Forwards the old command to the one of hami-gpusim."""
    gpusim("python -m hami_interpose sim", "python -m hami_gpusim")
    status: int = import_module("hami_gpusim.__main__").main(arguments)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["sim"]:
            return _simulate(words[1:])
        options = _parser().parse_args(words)
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        print(f"hami_interpose: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
