"""Loads all plugins: discovery, one manager for each vendor, and the checks that compare vendors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from hami_core.compatibility import HAMI
from hami_core.documents import did_you_mean
from hami_core.errors import ConfigError, HamiError, VendorError
from hami_core.hookspecs import API_VERSION
from hami_core.model import EMPTY
from hami_core.observe.metrics import disagreements
from hami_core.plugins import discovery
from hami_core.plugins.discovery import Found, Selection, Source
from hami_core.plugins.hooks import HOOKS, NODE
from hami_core.plugins.loaded import Loaded
from hami_core.plugins.manager import VendorManager, api_version, build_vendor, check_hooks, instantiate
from hami_core.plugins.metrics import declared
from hami_core.plugins.problem import Problem, Reporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import NodeContext
    from hami_core.plugins.vendor import LoadedVendor

Side = Literal["scheduler", "node"]
Closed = Callable[[Source], tuple[VendorError, bool] | None]
"""Returns why a vendor is closed, and whether it must not be imported; None: it is open."""


def load(
    config: Mapping[str, Any] = EMPTY,
    *,
    side: Side = "scheduler",
    node: NodeContext | None = None,
    only: Sequence[str] | None = None,
    blocked: Sequence[str] = (),
    named_by: str = "",
    observer: Callable[[Problem], None] | None = None,
    closed: Closed = lambda _: None,
) -> Loaded:
    """Load the installed vendors and wrapper plugins.

    Args:
        config: The device-config: section name → raw content, such as `hami_core.settings.DeviceConfig`.
        side: ``scheduler`` loads ``hami.vendors``; ``node`` loads ``hami.node`` and the vendors of the same names.
        node: The node that this process serves; None: it serves no node.
        only: Names of the only vendors to load; None: all. It has no effect on wrapper plugins.
        blocked: Names of vendors and wrapper plugins to leave out. The environment variable ``HAMI_PLUGINS`` restricts
            ``only`` and ``blocked`` further.
        named_by: The flag that ``only`` comes from; each name must then be installed. Empty: names need not be.
        observer: Called with each problem when it first occurs, at loading and later.
        closed: Says whether a vendor is closed (`hami_core.plugins.closed.ClosedVendors.of`).

    Returns:
        What could be loaded. `Loaded.problems` says what could not, and why. A plugin's fault raises nothing.

    Raises:
        ConfigError: ``named_by`` names a vendor that is not installed.
    """
    if named_by:
        discovery.require_installed(only or (), discovery.NODE if side == "node" else discovery.VENDORS, named_by)
    selection = Selection.from_environment(only, blocked)

    def barred(source: Source) -> VendorError | None:
        found = closed(source)
        return found[0] if found is not None and found[1] else None

    vendors = discovery.discover(discovery.VENDORS, selection, barred)
    nodes: list[Found] = []
    if side == "node":
        nodes = discovery.discover(discovery.NODE, selection)
        names = {found.source.name for found in nodes}
        vendors = [found for found in vendors if found.source.name in names]
    # `only` names vendors. It must not drop a wrapper, which may enforce a policy.
    wrappers = discovery.discover(discovery.PLUGINS, Selection.from_environment(None, blocked))
    loaded = assemble(vendors, nodes, wrappers, config=config, side=side, node=node, observer=observer, closed=closed)
    for text in discovery.switch_problems():
        loaded.reporter.found(Problem("warning", "", "", "", text))
    for text in discovery.group_problems():
        loaded.reporter.found(Problem("error", "", "", "", text))
    return loaded


def assemble(
    vendors: Sequence[Found],
    nodes: Sequence[Found] = (),
    plugins: Sequence[Found] = (),
    *,
    config: Mapping[str, Any] = EMPTY,
    side: Side = "scheduler",
    node: NodeContext | None = None,
    observer: Callable[[Problem], None] | None = None,
    closed: Closed = lambda _: None,
) -> Loaded:
    """Like `load`, without discovery: for the conformance kit, and for tests of vendors that are not installed."""
    reporter = Reporter(observer)
    refused: list[Source] = []
    wrappers = _wrappers(plugins, reporter, refused)
    built: list[LoadedVendor] = []
    for group in _by_name(vendors, nodes):
        owner = group[-1].source
        try:
            shut = closed(owner)
            vendor = build_vendor(_objects(group), wrappers, config, reporter, shut[0] if shut else None, node=node)
            if shut:
                refused.append(owner)
                reporter.found(_as_problem(owner, shut[0]))
            _check_node_side(vendor, side)
        except HamiError as error:
            refused.append(owner)
            reporter.found(_as_problem(owner, error))
            continue
        if vendor.api_version > API_VERSION:
            stated = ".".join(map(str, vendor.api_version))
            reporter.warn(owner, f"is built for hook API {stated}; hooks newer than ours are not called")
        built.append(vendor)
    kept = _without_conflicts(built, reporter, refused)
    _unclaimed_sections(config, kept, reporter)
    return Loaded(side, tuple(kept), tuple(source for _, source in wrappers), tuple(refused), reporter)


def _by_name(vendors: Iterable[Found], nodes: Iterable[Found]) -> list[list[Found]]:
    """Group the classes of each vendor, scheduler side first. Several claims to one name stay separate groups."""
    parts: dict[str, list[Found]] = defaultdict(list)
    for found in (*vendors, *nodes):
        name = found.source.name
        twice = any(other.source.group == found.source.group for other in parts[name])
        parts[f"{name} {found.source.label}" if twice else name].append(found)
    return [group for _, group in sorted(parts.items()) if group]


def _objects(group: Sequence[Found]) -> list[tuple[object, Source]]:
    """Make instances of a vendor's classes. A node class that is, or extends, the vendor class serves as both."""
    classes: list[tuple[type[Any], Source]] = []
    for found in group:
        if found.error is not None:
            raise found.error
        if found.plugin is None:
            raise VendorError(found.source.name, found.source.label, "", "has no class")
        classes = [pair for pair in classes if not issubclass(found.plugin, pair[0])]
        classes.append((found.plugin, found.source))
    return [(instantiate(plugin, source), source) for plugin, source in classes]


def _check_node_side(vendor: LoadedVendor, side: Side) -> None:
    required = [name for name, hook in HOOKS.items() if hook.required and name in NODE]
    missing = [name for name in required if name not in vendor.hooks]
    if missing and side == "node":
        text = f"the node side does not implement {', '.join(missing)}"
        raise VendorError(vendor.name, vendor.source.label, "", text)


def _wrappers(plugins: Sequence[Found], reporter: Reporter, refused: list[Source]) -> list[tuple[object, Source]]:
    made: list[tuple[object, Source]] = []
    for found in plugins:
        try:
            if found.error is not None:
                raise found.error
            if found.plugin is None or api_version(found.plugin) is None:
                raise VendorError(found.source.name, found.source.label, "", "has no class with a proper api_version")
            plugin = instantiate(found.plugin, found.source)
            check_hooks(plugin, found.source, wrapper=True)
            declared([(plugin, found.source)])
            VendorManager(found.source, reporter).add_wrapper(plugin, found.source)  # checks argument names
        except HamiError as error:
            refused.append(found.source)
            reporter.found(_as_problem(found.source, error))
            continue
        made.append((plugin, found.source))
    return made


def _without_conflicts(
    vendors: Sequence[LoadedVendor], reporter: Reporter, refused: list[Source]
) -> list[LoadedVendor]:
    """Drop every vendor that claims a word, key, resource or metric that another vendor claims too."""
    claims: dict[tuple[str, str], list[LoadedVendor]] = defaultdict(list)
    for vendor in vendors:
        for family in vendor.families:
            annotations = [
                ("annotation", key) for key in (family.allocated_key, family.kept_key, family.mode_key) if key
            ]
            resources = [("resource", name) for name in family.resources.names()]
            for claim in (("common word", family.word), *annotations, *resources):
                claims[claim].append(vendor)
    tables = [vendor.metric_specs.values() for vendor in vendors]
    for name in disagreements(tables):
        claims["metric", name] = [vendor for vendor in vendors if name in vendor.metric_specs]
    losers: dict[str, str] = {}  # vendor → how to keep it
    for (what, name), claimants in claims.items():
        if len({id(vendor) for vendor in claimants}) > 1:
            both = " and ".join(dict.fromkeys(f"{vendor.name} ({vendor.source.label})" for vendor in claimants))
            for vendor in claimants:
                others = " ".join(dict.fromkeys(v.distribution or v.name for v in claimants if v is not vendor))
                text = (
                    f"the {what} {name} is claimed by {both}; neither is loaded; to keep {vendor.name}: pip uninstall"
                )
                losers.setdefault(vendor.name, f"{text} {others}, or name it alone in --vendors or {discovery.SWITCH}")
    for vendor in vendors:
        if vendor.name in losers:
            error = VendorError(vendor.name, vendor.source.label, "families", losers[vendor.name])
            reporter.found(_as_problem(vendor.source, error))
            refused.append(vendor.source)
    return [vendor for vendor in vendors if vendor.name not in losers]


def _unclaimed_sections(config: Mapping[str, Any], vendors: Sequence[LoadedVendor], reporter: Reporter) -> None:
    """Warn of sections that neither HAMi nor a loaded vendor has, most likely a typing error."""
    known = set(HAMI.sections).union(*(vendor.sections for vendor in vendors))
    where = getattr(config, "path", "") or "device-config"
    for name in sorted({*config, *getattr(config, "empty", ())} - known):
        hint = did_you_mean(name, known)
        text = f"{where}: no loaded vendor reads the section {name}" + (f"; {hint}" if hint else "")
        reporter.found(Problem("warning", "", "", "", text))


def _as_problem(source: Source, error: HamiError) -> Problem:
    hook = error.hook if isinstance(error, VendorError) else ""
    text = error.problem if isinstance(error, VendorError | ConfigError) else str(error)
    if isinstance(error, ConfigError):
        text = str(error)
    return Problem("error", source.name, source.label, hook, text, error)
