"""Output of ``hami plugins``: every plugin with its distribution, families, hooks, capabilities and problems."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

from hami_core.capability import Capability, Support
from hami_core.hookspecs import API_VERSION
from hami_core.plugins.discovery import SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hami_core.model import Family
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.examine import NodeSide
    from hami_core.plugins.loaded import Loaded
    from hami_core.plugins.vendor import LoadedVendor


def as_json(loaded: Loaded, nodes: Sequence[NodeSide] = ()) -> dict[str, Any]:
    """Return everything as plain data, for ``--json``."""
    return {
        "apiVersion": _dotted(API_VERSION),
        "side": loaded.side,
        "vendors": [_vendor(vendor, loaded) for vendor in loaded.vendors],
        "plugins": [_source(source) for source in loaded.wrappers],
        "nodeSides": [{**_source(side.source), "state": side.state, "hooks": list(side.hooks)} for side in nodes],
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


def as_text(loaded: Loaded, nodes: Sequence[NodeSide] = (), width: int = 80) -> str:
    """Return one block of text for each plugin. Words are never broken, so that names can be copied."""
    blocks: list[list[tuple[str, str]]] = []
    used: set[NodeSide] = set()
    for vendor in loaded.vendors:
        mine = [side for side in nodes if side.source.name == vendor.name]
        used.update(mine)
        title = f"{vendor.source.label}, hook API {_dotted(vendor.api_version)}"
        state = _states(vendor.name, loaded)
        block = [(vendor.name, f"{title}: {'ok' if not state else 'look at this'}")]
        names = [f"{family.word} ({family.resources.count})" for family in vendor.families]
        block += [("families" if not position else "", text) for position, text in enumerate(names)]
        block += [("hooks", ", ".join(vendor.hooks))]
        sides = [("node side", f"{side.state} ({side.source.target})") for side in mine]
        blocks.append([*block, *(sides or [("node side", "none installed")]), *state])
    for source in loaded.wrappers:
        state = _states(source.name, loaded)
        blocks.append([(source.name, f"{source.label}: {'ok' if not state else 'look at this'}, wraps hooks"), *state])
    for source in loaded.refused:
        sides = [("node side", f"{s.state} ({s.source.target})") for s in nodes if s.source.name == source.name]
        used.update(side for side in nodes if side.source.name == source.name)
        blocks.append([(source.name, f"{source.label}: not loaded"), *sides, *_states(source.name, loaded)])
    for side in nodes:
        if side not in used:
            title = f"{side.source.label}: node side alone, {side.state} ({side.source.target})"
            blocks.append([(side.source.name, title), *_states(side.source.name, loaded)])
    lines = [f"Vendor plugins (hook API {_dotted(API_VERSION)})"]
    for block in blocks:
        (name, title), *rest = block
        lines += ["", *_wrapped(f"{name}  ", title, width)]
        lines += [line for label, text in rest for line in _wrapped(f"  {label:<9}  ", text, width)]
    if not blocks:
        lines += ["", "No vendor is loaded. To install one, for example: pip install 'hami[all]'"]
    if SWITCH in os.environ:
        lines += ["", *_wrapped("", f"{SWITCH}={os.environ[SWITCH]} is set: other plugins are left out.", width)]
    general = _states("", loaded)
    return "\n".join(
        [*lines, *([""] if general else []), *(x for k, t in general for x in _wrapped(f"{k}  ", t, width))]
    )


def _wrapped(first: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * (len(first) if first.startswith("  ") else 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def capability_matrix(vendors: Iterable[LoadedVendor]) -> list[dict[str, str]]:
    """Return one row for each family: the declared support of each capability, with the reason if it is not full."""
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
    """Whether our agent serves the family. It verifies signatures; other node plugins verify nothing."""
    grade = family.capabilities.get(Capability.NODE_AGENT)
    return grade is not None and grade.support in {Support.FULL, Support.PARTIAL}


def _source(source: Source) -> dict[str, str]:
    return {
        "name": source.name,
        "distribution": source.distribution,
        "version": source.version,
        "entryPoint": f"{source.group}: {source.target}",
    }


def _states(name: str, loaded: Loaded) -> list[tuple[str, str]]:
    """Return severity and text of a plugin's problems; for the empty name, those of no particular plugin."""
    return [
        (problem.severity, f"in {problem.hook}: {problem.text}" if problem.hook else problem.text)
        for problem in loaded.problems
        if problem.plugin == name
    ]


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
