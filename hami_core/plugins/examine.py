"""Checks that ``hami plugins`` makes besides loading: names that Kubernetes refuses, contract versions, node sides.

Unlike the scheduler, this module imports node sides, as the agent does. A node side may need a driver that this machine
lacks. That is reported, but is not an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from hami_core.documents import did_you_mean
from hami_core.errors import ConfigError, DeviceError
from hami_core.hookspecs import API_VERSION
from hami_core.plugins import discovery
from hami_core.plugins.hooks import HOOKS, NODE
from hami_core.plugins.load import load
from hami_core.plugins.problem import Problem
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hami_core.model import Family
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.loaded import Loaded
    from hami_core.plugins.vendor import LoadedVendor

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_KEY: Final = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_RESOURCE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeSide:
    """An installed node side, and whether it can be loaded on this machine.

    Attributes:
        source: Its entry point.
        state: ``ok``, ``not importable here: …``, or what is wrong.
        hooks: Hooks that it and its scheduler side implement; empty: it could not be loaded.
    """

    source: Source
    state: str
    hooks: tuple[str, ...] = ()


def examine(loaded: Loaded) -> tuple[NodeSide, ...]:
    """Check names, versions and node sides, and add what is wrong to the problems of ``loaded``."""
    for vendor in loaded.vendors:
        for severity, text in _vendor_problems(vendor):
            loaded.reporter.found(Problem(severity, vendor.name, vendor.source.label, "", text))
    return _node_sides(loaded)


def entry_point_problem(name: str) -> str:
    """Return what is wrong with an entry point's name, which becomes part of settings and file names."""
    return "" if _NAME.fullmatch(name) else f"the entry point name {name!r} must be lower case, digits and '-'"


def name_problems(family: Family) -> list[str]:
    """Describe the resource names and annotation keys that Kubernetes would refuse."""
    found = [
        f"family {family.word}: the resource name {name!r} is not legal, expected domain/name such as acme.example/npu"
        for name in family.resources.names()
        if not _RESOURCE.fullmatch(name)
    ]
    selectors = [key for pair in (*family.uuid_selectors, *family.type_selectors) for key in (pair.use, pair.nouse)]
    used = (family.allocated_key, family.to_allocate_key, family.register_key, family.handshake_key)
    every = dict.fromkeys((*used, family.foreign_lock, family.mode_key, family.kept_key, *family.pod_keys, *selectors))
    found += [f"family {family.word}: the annotation key {k!r} is not legal" for k in illegal_keys(filter(None, every))]
    return found


def illegal_keys(written: Iterable[str]) -> list[str]:
    """Return the keys of annotations or labels that the API server would refuse."""
    return [key for key in written if not _KEY.fullmatch(key)]


def allocated_key_problem(family: Family) -> str:
    """Return why users could write a family's allocation key; empty: the admission policy protects it."""
    if keys.is_allocated_key(family.allocated_key):
        return ""
    wanted = f"{keys.ALLOCATED_PREFIX}…{keys.ALLOCATED_SUFFIX}"
    text = f"family {family.word}: allocated_key is {family.allocated_key!r}, expected {wanted}"
    return f"{text}: the chart's admission policy keeps users from writing such keys and no others"


def node_hooks_of_scheduler_side(plugin: object) -> str:
    """Return what is wrong if the entry point of the scheduler side names the class of the node side."""
    here = [name for name in HOOKS if name in NODE and callable(getattr(plugin, name, None))]
    if not here:
        return ""
    text = f"the scheduler side's class {type(plugin).__name__} has hooks of the node side ({', '.join(here)})"
    return f"{text}; does the entry point in {discovery.VENDORS} name the wrong class?"


def missing_api_version(plugin: object) -> str:
    """Return what is wrong if a class does not state the contract version that it was written for."""
    return "" if hasattr(type(plugin), "api_version") else f"states no contract; write api_version = {API_VERSION}"


def node_name_problem(node: Source) -> str:
    """Return why no scheduler side belongs to a node side, with the name that was probably meant."""
    sides = [source for source, _ in discovery.installed(discovery.VENDORS)]
    if node.name in {source.name for source in sides}:
        return ""
    own = [source.name for source in sides if source.distribution == node.distribution]
    text = f"no entry point of this name in {discovery.VENDORS}, so the scheduler does not know these devices"
    if own:
        return f"{text}; {node.distribution} calls its scheduler side {', '.join(own)}: give both the same name"
    return "; ".join(filter(None, [text, did_you_mean(node.name, {source.name for source in sides})]))


def needs_the_machine(error: BaseException | None, source: Source) -> bool:
    """Whether a failed import may succeed on a node, because a library or a device is missing here."""
    if isinstance(error, ImportError):
        own = source.target.partition(":")[0].partition(".")[0]
        foreign = (error.name or "").partition(".")[0] not in {own, "hami_core"}
        return foreign and "cannot import name" not in str(error)
    return isinstance(error, OSError | DeviceError)


def _vendor_problems(vendor: LoadedVendor) -> Iterator[tuple[Literal["error", "warning"], str]]:
    plugin = vendor.manager.get_plugin(f"{discovery.VENDORS}:{vendor.name}")
    wrong = [entry_point_problem(vendor.name), *(text for family in vendor.families for text in name_problems(family))]
    doubtful = [*map(allocated_key_problem, vendor.families)]
    doubtful += [missing_api_version(plugin), node_hooks_of_scheduler_side(plugin)]
    yield from (("error", text) for text in wrong if text)
    yield from (("warning", text) for text in doubtful if text)


def _node_sides(loaded: Loaded) -> tuple[NodeSide, ...]:
    node = load(side="node")
    known = {(problem.plugin, problem.text) for problem in loaded.problems}
    sides: list[NodeSide] = []
    for source in (*(vendor.source for vendor in node.vendors), *node.refused):
        if source.group != discovery.NODE:
            continue
        orphan = node_name_problem(source)
        if orphan:
            loaded.reporter.found(Problem("error", source.name, source.label, "", orphan))
        vendor = next((vendor for vendor in node.vendors if vendor.source is source), None)
        if vendor is not None:
            sides.append(NodeSide(source, "ok", vendor.hooks))
            continue
        state = "not loaded, see the error"
        for problem in node.problems:
            if problem.plugin != source.name or problem.severity != "error" or (source.name, problem.text) in known:
                continue
            cause = problem.error.__cause__ if problem.error is not None else None
            if not isinstance(problem.error, ConfigError) and needs_the_machine(cause, source):
                state = f"not importable here: {type(cause).__name__}: {cause}"
                continue
            text = problem.text if problem.text.startswith("the node side") else f"node side: {problem.text}"
            loaded.reporter.found(Problem("error", source.name, source.label, problem.hook, text, problem.error))
        sides.append(NodeSide(source, state))
    return tuple(sorted(sides, key=lambda side: (side.source.name, side.source.distribution)))
