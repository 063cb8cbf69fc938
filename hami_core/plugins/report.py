"""What ``hami plugins`` shows: every plugin with its supplier, families, hooks, capabilities and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hami_core.capability import Capability, Support
from hami_core.hookspecs import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from hami_core.model import Family
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.loaded import Loaded
    from hami_core.plugins.vendor import LoadedVendor


def as_json(loaded: Loaded) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "apiVersion": _dotted(API_VERSION),
        "side": loaded.side,
        "vendors": [_vendor(vendor, loaded) for vendor in loaded.vendors],
        "plugins": [_source(source) for source in loaded.wrappers],
        "refused": [_source(source) for source in loaded.refused],
        "problems": [
            {
                "severity": problem.severity,
                "plugin": problem.plugin,
                "distribution": problem.source,
                "hook": problem.hook,
                "text": problem.text,
            }
            for problem in loaded.problems
        ],
    }


def rows(loaded: Loaded) -> list[tuple[str, str, str, str, str, str]]:
    """The table: name, distribution, API, families with their count resource, hooks, state."""
    table = [
        (
            vendor.name,
            vendor.source.label,
            _dotted(vendor.api_version),
            "\n".join(f"{family.word} ({family.resources.count})" for family in vendor.families) or "none",
            ", ".join(vendor.hooks),
            _state(vendor.name, loaded),
        )
        for vendor in loaded.vendors
    ]
    table += [(source.name, source.label, "", "", "wraps hooks", "ok") for source in loaded.wrappers]
    table += [(source.name, source.label, "", "", "", _state(source.name, loaded)) for source in loaded.refused]
    return table


def as_table(loaded: Loaded) -> Table:
    """The table for a terminal."""
    from rich.markup import escape  # noqa: PLC0415 - 64 ms that only the terminal needs
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(title=f"Vendor plugins (hook API {_dotted(API_VERSION)})", title_justify="left")
    for heading in ("name", "distribution", "API", "families", "hooks", "state"):
        table.add_column(heading, overflow="fold")
    for row in rows(loaded):
        table.add_row(*map(escape, row), style=None if row[-1] == "ok" else "yellow")
    if not table.rows:
        table.caption = "No vendor is installed; for example: pip install hami[nvidia]"
    return table


def capability_matrix(vendors: Iterable[LoadedVendor]) -> list[dict[str, str]]:
    """One row a family: each capability's support as the vendor declares it, with the reason where it is not full."""
    return [{"family": family.word, **_capabilities(family)} for vendor in vendors for family in vendor.families]


def _vendor(vendor: LoadedVendor, loaded: Loaded) -> dict[str, Any]:
    failures = {hook: count for (name, hook), count in loaded.reporter.failures.items() if name == vendor.name}
    return {
        **_source(vendor.source),
        "apiVersion": _dotted(vendor.api_version),
        "families": [
            {
                "word": family.word,
                "resources": list(family.resources.names()),
                "allocatedKey": family.allocated_key,
                "registerKey": family.register_key,
                "capabilities": _capabilities(family),
                "verifiesSignatures": _has_agent(family),
            }
            for family in vendor.families
        ],
        "hooks": list(vendor.hooks),
        "failures": failures,
    }


def _capabilities(family: Family) -> dict[str, str]:
    shown: dict[str, str] = {}
    for capability in Capability:
        grade = family.capabilities.get(capability)
        support = grade.support if grade else Support.UNSUPPORTED
        shown[capability.value] = f"{support.value}: {grade.reason}" if grade and grade.reason else support.value
    return shown


def _has_agent(family: Family) -> bool:
    """Whether our own agent, which verifies signatures, serves the family; other node plugins verify nothing."""
    grade = family.capabilities.get(Capability.NODE_AGENT)
    return grade is not None and grade.support in {Support.FULL, Support.PARTIAL}


def _source(source: Source) -> dict[str, str]:
    return {
        "name": source.name,
        "distribution": source.distribution,
        "version": source.version,
        "entryPoint": f"{source.group}: {source.target}",
    }


def _state(name: str, loaded: Loaded) -> str:
    return "\n".join(f"{p.severity}: {p.text}" for p in loaded.problems if p.plugin == name) or "ok"


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
