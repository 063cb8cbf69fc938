"""The reference page of installed vendors: ``python -m hami_core.plugins.vendors_reference > …``."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Final

from hami_core.capability import Capability
from hami_core.plugins import discovery
from hami_core.plugins.load import load
from hami_core.plugins.report import capability_matrix

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hami_core.model import Family
    from hami_core.plugins.vendor import LoadedVendor

_INTRO: Final = """# Vendors at a glance

Generated from the installed vendors by `python -m hami_core.plugins.vendors_reference`; a test compares.

A pod asks for a family's devices by the resource names below. Memory and cores are amounts on each device; cores are
percent of a device. *Node side*: our agent serves the devices; otherwise the vendor's own device plugin does.
*Demo*: `hami demo --vendor NAME` runs the vendor on one machine.

| vendor | family | devices | memory | cores | further resources | node side | demo |
|---|---|---|---|---|---|---|---|
"""

_SUPPORT: Final = """## What is supported

What each vendor declares; `hami conformance NAME` tests it, and `hami plugins --json` prints it for what is installed.
The [policies](settings.md#policies) rank the devices of every vendor. Those about NUMA nodes and links need the
capabilities `numa-binding` and `topology`.

"""


def page(vendors: Sequence[LoadedVendor], node_sides: Collection[str], demos: Collection[str]) -> str:
    """The whole page in MyST markdown.

    Args:
        vendors: Vendors to list.
        node_sides: Names of those that have a node side.
        demos: Names of those that have a part in the demo.
    """
    rows = [
        [
            f"{{doc}}`{vendor.name} </vendors/{vendor.name}>`",
            f"`{family.word}`",
            *_resources(family),
            "yes" if vendor.name in node_sides else "no",
            "yes" if vendor.name in demos else "no",
        ]
        for vendor in vendors
        for family in vendor.families
    ]
    columns = [column for vendor in vendors for column in _columns(vendor)]
    support = [["capability", *(name for name, _ in columns)], ["---"] * (len(columns) + 1)]
    support += [[f"`{word}`", *(grades[word] for _, grades in columns)] for word in Capability]
    return _INTRO + _lines(rows) + "\n" + _SUPPORT + _lines(support)


def installed() -> tuple[Sequence[LoadedVendor], set[str], set[str]]:
    """The arguments of `page` for the installed vendors. No node side is imported."""
    names = {
        group: {source.name for source, _ in discovery.installed(group)} for group in (discovery.NODE, discovery.DEMO)
    }
    return load().vendors, names[discovery.NODE], names[discovery.DEMO]


def _resources(family: Family) -> tuple[str, ...]:
    """Cells of a family's row: devices, memory with its unit, cores, further resources."""
    resources = family.resources
    unit = "MiB" if family.memory_factor == 1 else f"units of {family.memory_factor} MiB"
    memory = f"`{resources.memory}`, {unit}" if resources.memory else "none"
    cores = f"`{resources.cores}`" if resources.cores else "none"
    known = {resources.count, resources.memory, resources.cores}
    further = ", ".join(f"`{name}`" for name in resources.names() if name not in known)
    return f"`{resources.count}`", memory, cores, further or "none"


def _columns(vendor: LoadedVendor) -> list[tuple[str, dict[str, str]]]:
    """Heading and grades: one column where all families of a vendor declare the same, otherwise one for each kind."""
    rows = [(str(row.pop("family")), row) for row in capability_matrix([vendor])]
    kinds = [(grades, [word for word, _ in same]) for grades, same in groupby(rows, key=lambda row: row[1])]
    if len(kinds) == 1:
        return [(vendor.name, kinds[0][0])]
    return [(f"{vendor.name}: {', '.join(words)}", grades) for grades, words in kinds]


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(page(*installed()))
