"""`python -m hami_interpose check`: whether a container is set up so that its limits hold."""

from __future__ import annotations

import json
import os
import sys
from argparse import RawDescriptionHelpFormatter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose._regions import REGION_PART, library_root, load, root
from hami_interpose._show import printable
from hami_interpose.checks import drivers, environment, files, nvml, program
from hami_interpose.checks.finding import State, not_applicable, ok, wrong
from hami_interpose.checks.preload import Preload
from hami_interpose.region import RegionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hami_interpose.checks.files import Mounted
    from hami_interpose.checks.finding import Finding

_EPILOG: Final = """\
examples:
  kubectl exec POD -- python -m hami_interpose check
  python -m hami_interpose check -- ./train           and whether this program can be held
  python -m hami_interpose check --json | jq '.checks[] | select(.state == "wrong")'

Run it inside a container, as the user whose programs are meant: it looks at the library, the limits, the region and at
what NVML shows, and changes nothing.

Exit status: 0 when all is well, 1 when something is wrong, 2 for a wrong command line.
"""
_COLOURS: Final = {State.OK: "\x1b[32m", State.WRONG: "\x1b[31m", State.NOT_APPLICABLE: "\x1b[2m"}
_SHORT: Final = {State.OK: "ok", State.WRONG: "wrong", State.NOT_APPLICABLE: "n/a"}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "check",
        help="verify a container's set-up",
        usage="%(prog)s [-h] [--json] [--root DIR] [-- PROGRAM]",
        description="Verify that this container is set up so that its limits hold; say what is wrong and what to do.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="a program to judge: can it be held at all?")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--root", type=Path, metavar="DIR", help="instead of /usr/local/vgpu")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Checks and reports."""
    words = [word for word in options.program if word != "--"]
    findings = list(_findings(root(options.root, os.environ), words[0] if words else None))
    good = all(finding.state != State.WRONG for finding in findings)
    if options.json:
        print(json.dumps({"ok": good, "checks": [asdict(finding) for finding in findings]}))
    else:
        _report(findings)
    return 0 if good else 1


def _report(findings: list[Finding]) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for finding in findings:
        word = f"{_SHORT[finding.state]:<6}"
        state = f"{_COLOURS[finding.state]}{word}\x1b[0m" if colour else word
        print(f"{state} {finding.check:<17} {printable(finding.found)}")
        if finding.fix:
            print(f"{'':<24} -> {finding.fix}")
    counts = {state: sum(finding.state == state for finding in findings) for state in State}
    print(", ".join(f"{count} {state}" for state, count in counts.items()))


def _findings(where: Path, command: str | None) -> Iterator[Finding]:
    preload = Preload(where, os.environ)
    yield from preload.findings()
    mounted = files.look(where)
    yield from mounted.findings
    yield environment.check(os.environ)
    build = _build(where, preload)  # what asks NVML below leaves its own
    yield from _nvml(mounted)
    yield build
    yield from drivers.findings(where)
    if command is not None:
        yield program.check(command, preload.library, preloaded_by_file=preload.by_file)


def _nvml(mounted: Mounted) -> Iterator[Finding]:
    source = library_root(os.environ)
    if mounted.limits is None or mounted.found is None:
        yield not_applicable("nvml", "nothing to compare with: see limits.file and region.file")
    elif source is None or source.resolve() != mounted.root.resolve():
        there = f"from {source}" if source else "from HAMi's environment variables"
        yield not_applicable("nvml", f"libvgpu.so takes its limits {there} here, not from {mounted.root}")
    else:
        answer = nvml.ask(mounted.limits)
        before = mounted.found.region
        try:
            after = load(mounted.root / REGION_PART).region
        except (OSError, RegionError) as error:
            yield wrong("nvml", f"the region broke while NVML was asked: {error}", "see region.file")
        else:
            yield from nvml.check(mounted.limits, before, answer, after)


def _build(where: Path, preload: Preload) -> Finding:
    check = "region.build"
    expected = preload.build or next((one.build for one in preload.mapped), "")
    try:
        found = load(where / REGION_PART).region.build
    except (OSError, RegionError):
        return not_applicable(check, "no region that could tell: see region.file")
    if not found:
        return not_applicable(check, "no program has used CUDA or NVML here yet")
    if not expected:
        return not_applicable(check, f"{printable(found)}; there is no libvgpu.so to compare it with")
    if found != expected:
        said = f"a program here runs build {printable(found)}, the library has build {expected}"
        return wrong(check, said, "end that program: it has loaded another libvgpu.so; see preload.variable")
    return ok(check, f"{found}, as the library")
