"""`python -m hami_interpose`: where the library is, what a region holds, and programs on simulated GPUs."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import hami_interpose
from hami_interpose import region

if TYPE_CHECKING:
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hami_interpose", description=hami_interpose.__doc__)
    parser.add_argument("--version", action="version", version=hami_interpose.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("path", help="print the path of libvgpu.so")
    commands.add_parser("build-id", help="print its build id")
    dump = commands.add_parser("dump", help="show what a region file holds")
    dump.add_argument("file", type=Path, help="vgpu.cache of a container")
    dump.add_argument("--json", action="store_true", help="for machines")
    sim = commands.add_parser(
        "sim", help="run a command on simulated GPUs", usage="%(prog)s --profile NAME|FILE [--state DIR] -- COMMAND …"
    )
    sim.add_argument("--profile", help="built-in name (a100, a100x2, h100x8, t4, …) or a JSON or YAML file")
    sim.add_argument("--state", type=Path, help="state directory: used if it holds one, else made and kept there")
    sim.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _dump(path: Path, *, as_json: bool) -> None:
    found = region.read(path)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    mib = 1 << 20
    print(f"limits generation {found.generation}, library build {found.build or 'none yet'}")
    for index, device in enumerate(found.devices):
        limit = f"{device.limit_bytes / mib:,.0f} MiB" if device.limit_bytes else "no limit"
        print(
            f"device {index} {device.uuid}: {device.used_bytes / mib:,.0f} MiB of {limit} "
            f"(peak {device.peak_bytes / mib:,.0f}, a context takes {device.context_bytes / mib:,.0f}), "
            f"cores {device.cores or 100} %, {device.denied} refused"
        )
    for process in found.processes:
        used = ", ".join(f"{used / mib:,.0f}" for used in process.used_bytes)
        print(f"process {process.pid}: {used} MiB")
    if found.reason:
        print(f"last refusal: {found.reason_bytes} bytes on device {found.reason_device}: {found.reason}")


def _simulate(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from hami_interpose import sim  # noqa: PLC0415 - half of the package, for this command alone

    command = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if not command:
        parser.error("sim needs a command: sim --profile h100x2 -- COMMAND …")
    return sim.run(command, profile=options.profile, state=options.state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.command == "path":
            print(hami_interpose.library())
        elif options.command == "build-id":
            print(hami_interpose.build_id())
        elif options.command == "dump":
            _dump(options.file, as_json=options.json)
        else:
            return _simulate(options, parser)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"hami_interpose: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
