"""`python -m hami_interpose dump`: everything that a region holds."""

from __future__ import annotations

import json
import os
import time
from argparse import RawDescriptionHelpFormatter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hami_interpose._processes import Names
from hami_interpose._regions import REGION_PART, Found, load, root
from hami_interpose._show import mib, printable, since, span

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hami_interpose.region import DeviceUse

_EPILOG = """\
examples:
  python -m hami_interpose dump                 inside a container: its own region
  python -m hami_interpose dump --json | jq .devices[].used_bytes
  python -m hami_interpose dump /var/lib/hami/containers/ID/region/vgpu.cache
                                                on the node: any container's

Exit status: 0, or 1 when there is no region that can be read.
"""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "dump",
        help="show what a region file holds",
        description="Show what a container's region holds: use and limits of its devices, its processes, refusals.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", default="-", help="vgpu.cache of a container; - or nothing: this one's")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--root", type=Path, metavar="DIR", help="instead of /usr/local/vgpu, for - and nothing")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Shows the region.

    Raises:
        RegionError: It is no region, truncated or damaged.
        OSError: It cannot be read.
    """
    path = root(options.root, os.environ) / REGION_PART if options.file == "-" else Path(options.file)
    found = load(path, follow=options.file != "-")
    if options.json:
        print(json.dumps(asdict(found.region) | {"agent_heartbeat": found.agent_heartbeat}))
        return 0
    for line in _lines(path, found, time.time()):
        print(line)
    return 0


def _lines(path: Path, found: Found, now: float) -> Iterator[str]:
    region = found.region
    yield f"region {printable(str(path))}"
    yield f"limits generation {region.generation}, library build {printable(region.build) or 'none yet'}"
    yield f"a process was last at work {since(region.heartbeat, now)}"
    yield f"an agent last looked {since(found.agent_heartbeat, now)}"
    yield f"{region.launches:,} kernels and graphs launched"
    for index, device in enumerate(region.devices):
        yield from _device(index, device)
    seen = Names().find(region.processes)
    for process in region.processes:
        used = ", ".join(mib(used) for used in process.used_bytes)
        known = seen.get((process.pid, process.start_time))
        away = ", ".join(mib(size) for size in process.away_bytes)
        state = f", checkpointed: {away} MiB when it is restored" if process.suspended else ""
        name = f" ({known.name})" if known else ""
        yield f"process {process.pid}: {used} MiB{name}, {process.launches:,} launches{state}"
    if not region.processes:
        yield "no process"
    if region.reason:
        place = f"device {region.reason_device}" if region.reason_device >= 0 else "no device of this container"
        asked = f"{region.reason_bytes:,} bytes on {place}" if region.reason_bytes else place
        yield f"last refusal: {asked}, {since(region.reason_time, now)}: {region.reason}"


def _device(index: int, device: DeviceUse) -> Iterator[str]:
    limit = f"{mib(device.limit_bytes)} MiB" if device.limit_bytes else "no limit"
    context = f"a context takes {mib(device.context_bytes)}" if device.context_bytes else "no context measured yet"
    yield (
        f"device {index} {printable(device.uuid)}: {mib(device.used_bytes)} MiB of {limit} "
        f"(peak {mib(device.peak_bytes)}, {context}), {device.denied:,} refused"
    )
    parts = device.parts
    if device.used_bytes:
        yield (
            f"  of that {mib(parts.contexts_bytes)} MiB in contexts, {mib(parts.modules_bytes)} MiB in code, "
            f"{mib(parts.buffers_bytes)} MiB in buffers"
        )
    if device.orphaned_bytes:
        yield f"  of that shared, by a process that has let go of it or ended: {mib(device.orphaned_bytes)} MiB"
    host = device.oversubscription
    if host.limit_bytes or host.allocations:
        yield (
            f"  of that in host memory: {mib(host.used_bytes)} MiB of {mib(host.limit_bytes)} MiB "
            f"(peak {mib(host.peak_bytes)}); {host.allocations:,} allocations of {mib(host.allocated_bytes)} MiB so far"
        )
    use = device.compute
    share = f"limit {device.cores} %" if 0 < device.cores < 100 else "no limit"
    yield f"  compute: {share}, {span(use.charged)} charged, {span(use.estimated)} of it by estimate"
    yield (
        f"    {use.grants:,} grants, {use.turns:,} turns; launches waited {span(use.waited)} in all, "
        f"{span(use.longest_wait)} at most"
    )
    yield f"    given up: {use.timeouts:,} waits for a completion, {use.turn_timeouts:,} for a turn"
