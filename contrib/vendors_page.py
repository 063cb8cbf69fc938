"""The reference page of all vendors, as docs/reference/vendors.md: ``python -m contrib.vendors_page > …``.

What a vendor declares comes from its installed package. What it was tested against comes from this repository: the
replays in ``tests/foreign/``, and the table ``[tool.hami.tested-against]`` of the vendor's pyproject.toml. Its table
``[tool.hami.units]`` names the unit of a resource (by its default name) that is neither MiB nor percent.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from contrib.vendor_folders import NODE, ROOT, in_tree
from hami_core.capability import Capability, Support
from hami_core.plugins import discovery
from hami_core.plugins.load import load
from hami_core.plugins.report import capability_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.model import Family, SelectorKeys
    from hami_core.plugins.vendor import LoadedVendor

CHIP: Final = "CHIP"
"""Stands for the words of several families that differ by nothing else."""
MARKS: Final = {"full": "●", "partial": "◐", "planned": "◌", "unsupported": "○"}
_WRITTEN: Final = re.compile(r"Written after (.+?)(?:\.\s|\.?$)", re.DOTALL)
_REPOSITORY: Final = re.compile(r"(?<![\w/.-])[A-Za-z0-9][\w-]*/[A-Za-z][\w.-]*\w")

INTRO: Final = """# Vendors at a glance

Generated from the installed vendors by `python -m contrib.vendors_page`; a test compares. Each vendor's page says more.

Where a vendor has families that differ by their word only, one row stands for them, and `CHIP` for the word.

## What a pod requests

Memory and cores are amounts on each device. Cores are percent of a device, unless the table names another unit.
*Whole*: a device serves one container at a time. *Partitions*: the vendor divides a device, in sizes that it defines.

"""
ON_THE_NODE: Final = """
## What serves the devices on a node

*Our agent*: this project has an agent for the vendor's nodes. Without it, one of the *other device plugins* serves
them; `hami doctor` knows these. *Tested against* says what our tests run the vendor with. A device plugin there is
replayed on an embedded cluster: a fake in `tests/foreign/` reads and writes what the real one does, after the source
that is linked. Where no source is public, the fake follows what HAMi's scheduler writes and reads for the plugin. None
of them has run on the vendor's hardware yet. Of all parts, only NVIDIA's interposer has: on an NVIDIA H200, as
{doc}`accuracy` shows. *Demo*: `hami demo --vendor NAME` needs no further options. For the other vendors it needs
manifests and devices: *Try it* on the vendor's page, or on that of its agent, has the command.

"""
ANNOTATIONS: Final = """
## Annotations

The node plugin writes the *register* on its node; without one, devices follow from the node's capacity. Bind writes
*allocated* and *to allocate* on the pod and the *lock* on the node. By the annotations under *select* a pod names the
devices or models that it may get, or those that it refuses.

"""
SUPPORT: Final = """
## What is supported

● full, ◐ partial, ◌ planned, ○ not supported. `hami conformance NAME` tests it, and `hami plugins --json` prints it for
what is installed. The [policies](settings.md#policies) rank the devices of every vendor. Those about NUMA nodes and
links need the capabilities `numa-binding` and `topology`.

"""
REASONS: Final = """
### Reasons

"""


def page(
    vendors: Sequence[LoadedVendor],
    demos: Sequence[str],
    tested: Mapping[str, Sequence[str]],
    units: Mapping[str, str] | None = None,
) -> str:
    """The whole page in MyST markdown.

    Args:
        vendors: Vendors to list.
        demos: Names of those that have a part in the demo.
        tested: Names of all vendors → what they were tested against.
        units: Resource names → their units, if these are neither MiB nor percent.
    """
    nodes = [
        [
            _link(vendor),
            "yes" if _has_agent(vendor) else "no",
            ", ".join(dict.fromkeys(_neighbours(vendor))) or "none known",
            "; ".join(tested[vendor.name]) or "nothing",
            "yes" if vendor.name in demos else "no",
        ]
        for vendor in vendors
    ]
    requests = partial(_requests, units=units or {})
    grades = [(vendor, words, row) for vendor in vendors for words, row in _grades(vendor)]
    marks = [
        [_link(vendor, words), *(MARKS[text.partition(":")[0]] for text in row.values())]
        for vendor, words, row in grades
    ]
    return "".join(
        (
            INTRO,
            _table("vendor, family, devices, memory, cores, further resources, sharing", _rows(vendors, requests)),
            ON_THE_NODE,
            _table("vendor, our agent, other device plugins, tested against, demo", nodes),
            ANNOTATIONS,
            _table(
                "vendor, family, register, allocated, to allocate, lock, select by id, select by model",
                _rows(vendors, _annotations),
            ),
            SUPPORT,
            _table(", ".join(("vendor", *Capability)), marks),
            REASONS,
            _table("vendor, capability, why not full", [row for vendor in vendors for row in _reasons(vendor)]),
        )
    )


def evidence() -> dict[str, list[str]]:
    """Name of each vendor of this repository → what it was tested against."""
    found = {}
    for vendor in in_tree():
        said = vendor.pyproject.get("tool", {}).get("hami", {}).get("tested-against", {})
        found[vendor.name] = list(said)
        replay = ROOT / f"tests/foreign/{vendor.name}.py"
        if replay.is_file():
            found[vendor.name].append(replayed(ast.get_docstring(ast.parse(replay.read_text("utf-8"))) or ""))
    return found


def replayed(docstring: str) -> str:
    """What a replay stands for: the first sentence of its docstring, and the repositories that it was written after."""
    title = re.split(r"\.(?:\s|$)", docstring.replace("``", "`"), maxsplit=1)[0].replace("\n", " ")
    written = _WRITTEN.search(re.sub(r"``.*?``", "", docstring, flags=re.DOTALL))
    names = dict.fromkeys(_REPOSITORY.findall(written[1])) if written else {}
    links = ", ".join(f"[{name}](https://github.com/{name})" for name in names)
    return f"{title} ({links})" if links else f"{title} (no public source)"


def _rows(vendors: Sequence[LoadedVendor], cells: Callable[[Family], list[str]]) -> list[list[str]]:
    """Rows of families; those of a vendor that differ by their word only are one row."""
    rows = []
    for vendor in vendors:
        same: dict[tuple[str, ...], list[str]] = {}
        for family in vendor.families:
            row = tuple(cell.replace(family.word, CHIP) for cell in cells(family))
            same.setdefault(row, []).append(family.word)
        for row, words in same.items():
            shown = row if len(words) > 1 else [cell.replace(CHIP, words[0]) for cell in row]
            rows.append([_link(vendor), ", ".join(f"`{word}`" for word in words), *shown])
    return rows


def units_of() -> dict[str, str]:
    """Default name of a resource of this repository's vendors → its unit, if that is neither MiB nor percent."""
    tools = [vendor.pyproject.get("tool", {}).get("hami", {}) for vendor in in_tree()]
    return {name: unit for tool in tools for name, unit in tool.get("units", {}).items()}


def _requests(family: Family, units: Mapping[str, str]) -> list[str]:
    """Devices, memory with its unit, cores, further resources, sharing."""
    resources = family.resources
    unit = "MiB" if family.memory_factor == 1 else f"units of {family.memory_factor} MiB"
    memory = units.get(resources.memory, unit) + " for all devices together" * family.amounts_are_totals
    cores = units.get(resources.cores, "")
    known = {resources.count, resources.memory, resources.cores}
    return [
        _code(resources.count),
        f"{_code(resources.memory)}, {memory}" if resources.memory else "none",
        f"{_code(resources.cores)}, {cores}" if cores else _code(resources.cores),
        ", ".join(map(_code, (name for name in resources.names() if name not in known))) or "none",
        _sharing(family),
    ]


def _sharing(family: Family) -> str:
    """How containers share a device."""
    good = {word for word, grade in family.capabilities.items() if grade.support in {Support.FULL, Support.PARTIAL}}
    if Capability.SHARING not in good:
        return "whole"
    kinds = [("memory", family.resources.memory), ("cores", family.resources.cores)]
    shared = "shared" + (
        f" by {' and '.join(kind for kind, name in kinds if name)}" if any(n for _, n in kinds) else ""
    )
    return f"{shared}; partitions" if Capability.HARDWARE_PARTITIONS in good else shared


def _annotations(family: Family) -> list[str]:
    """Register, allocated, to allocate, lock, selectors."""
    allocated = ", ".join(map(_code, filter(None, (family.allocated_key, family.kept_key))))
    keys = (_code(family.register_key), allocated, _code(family.to_allocate_key), _code(family.foreign_lock))
    return [*keys, _selectors(family.uuid_selectors), _selectors(family.type_selectors)]


def _selectors(pairs: Sequence[SelectorKeys]) -> str:
    return ", ".join(_code(key) for pair in pairs for key in (pair.use, pair.nouse) if key) or "none"


def _grades(vendor: LoadedVendor) -> list[tuple[str, dict[str, str]]]:
    """What a vendor declares for each capability: one row for families that declare the same, with their words."""
    same: dict[tuple[str, ...], list[str]] = {}
    for row in capability_matrix([vendor]):
        same.setdefault(tuple(row[word] for word in Capability), []).append(row["family"])
    return [
        (", ".join(words) if len(same) > 1 else "", dict(zip(Capability, texts, strict=True)))
        for texts, words in same.items()
    ]


def _reasons(vendor: LoadedVendor) -> list[list[str]]:
    """Why grades are not full. Families and capabilities with the same reason share a row."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in capability_matrix([vendor]):
        for word in Capability:
            reason = row[word].partition(": ")[2]
            if reason and word is not Capability.NODE_AGENT:
                words, capabilities = found.setdefault(reason, ({}, {}))
                words[row["family"]] = capabilities[f"`{word}`"] = None
    return [
        [_link(vendor, ", ".join(words) if len(words) < len(vendor.families) else ""), ", ".join(capabilities), reason]
        for reason, (words, capabilities) in found.items()
    ]


def _neighbours(vendor: LoadedVendor) -> list[str]:
    return [neighbour.whose for family in vendor.families for neighbour in family.doctor.neighbours]


def _has_agent(vendor: LoadedVendor) -> bool:
    return vendor.name in {source.name for source, _ in discovery.installed(NODE)}


def _link(vendor: LoadedVendor, words: str = "") -> str:
    return f"{{doc}}`{vendor.name} </vendors/{vendor.name}>`" + (f": {words}" if words else "")


def _code(name: str) -> str:
    return f"`{name}`" if name else "none"


def _table(heads: str, rows: Sequence[Sequence[str]]) -> str:
    columns = heads.split(", ")
    return "".join(f"| {' | '.join(row)} |\n" for row in [columns, ["---"] * len(columns), *rows])


def main() -> None:
    """Print the page."""
    demos, tested = [source.name for source, _ in discovery.installed(discovery.DEMO)], evidence()
    sys.stdout.write(page([vendor for vendor in load().vendors if vendor.name in tested], demos, tested, units_of()))


if __name__ == "__main__":
    main()
