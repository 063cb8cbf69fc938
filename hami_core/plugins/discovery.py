"""Find plugins by entry point and import them. The only module that knows stevedore and importlib-metadata.

Nothing a plugin does while it is imported ends the process: what it raises, `SystemExit` and `AssertionError` among
it, becomes a `Found` with an error that names distribution and version.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import importlib_metadata
from stevedore.extension import Extension, ExtensionManager

from hami_core.documents import did_you_mean, shown
from hami_core.errors import ConfigError, VendorError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.metadata import EntryPoint

VENDORS: Final = "hami.vendors"
NODE: Final = "hami.node"
PLUGINS: Final = "hami.plugins"
DEMO: Final = "hami.demo"
SWITCH: Final = "HAMI_PLUGINS"
"""Debugging switch: names to load and nothing else (``nvidia,audit``), names to leave out (``-ascend``), or both;
set but empty: load none."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who supplies a plugin.

    Attributes:
        name: Entry-point name.
        group: Entry-point group.
        target: What the entry point names, ``module:Class``.
        distribution: Distribution name, empty when unknown.
        version: Its version.
    """

    name: str
    group: str
    target: str = ""
    distribution: str = ""
    version: str = ""

    @property
    def label(self) -> str:
        """Distribution and version for messages."""
        return f"{self.distribution} {self.version}".strip() or "unknown distribution"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry point: the class behind it, or why there is none."""

    source: Source
    plugin: type[Any] | None = None
    error: VendorError | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which plugins to load by name: ``only`` None means all; ``blocked`` always wins."""

    only: frozenset[str] | None = None
    blocked: frozenset[str] = frozenset()

    def takes(self, name: str) -> bool:
        """Whether the plugin is to be loaded."""
        return name not in self.blocked and (self.only is None or name in self.only)

    @classmethod
    def of(cls, only: Sequence[str] | None = None, blocked: Sequence[str] = (), switch: str | None = None) -> Selection:
        """Combine the caller's choice with the debugging switch, which can only take further plugins away."""
        chosen = None if only is None else frozenset(only)
        out = frozenset(blocked)
        if switch is not None:
            names = [name.strip() for name in switch.split(",") if name.strip()]
            out |= {name[1:] for name in names if name.startswith("-")}
            wanted = frozenset(name for name in names if not name.startswith("-"))
            if wanted or not names:
                chosen = wanted if chosen is None else chosen & wanted
        return cls(chosen, out)

    @classmethod
    def from_environment(cls, only: Sequence[str] | None = None, blocked: Sequence[str] = ()) -> Selection:
        """`of` with the switch taken from the environment."""
        return cls.of(only, blocked, os.environ.get(SWITCH))


def is_ours_to_pass(error: BaseException) -> bool:
    """Whether an exception out of a plugin is really the user's Ctrl-C, to be passed on.

    Daemons replace the default SIGINT handler, so there a `KeyboardInterrupt` can only come from the plugin.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def installed(group: str) -> list[tuple[Source, EntryPoint]]:
    """All entry points of a group with who supplies them, without importing anything."""
    unique: dict[tuple[str, str, str], tuple[Source, EntryPoint]] = {}
    for point in importlib_metadata.entry_points(group=group):
        dist = point.dist
        source = Source(
            name=point.name,
            group=group,
            target=point.value,
            distribution=dist.name if dist is not None else "",
            version=dist.version if dist is not None else "",
        )
        unique.setdefault((source.name, source.target, source.distribution), (source, point))
    return sorted(unique.values(), key=lambda pair: (pair[0].name, pair[0].distribution))


def require_installed(names: Sequence[str], group: str, setting: str) -> None:
    """Check that vendors an administrator names are there, whether or not they can be imported.

    Args:
        names: What the setting says.
        group: Entry-point group the vendors must be in.
        setting: The flag, for messages.

    Raises:
        ConfigError: One is not installed; names it and those that are.
    """
    here = sorted({source.name for source, _ in installed(group)})
    for name in names:
        if name in here:
            continue
        part = "node side" if group == NODE else "package"
        problem = f"{shown(name)} names no installed {part} of a vendor; installed: {', '.join(here) or 'none'}"
        install = "install its package, such as: pip install 'hami[all]'; in a cluster the image must hold it"
        install += ", see scheduler.vendorPackages of the chart" if group == VENDORS else ""
        raise ConfigError(setting, problem, did_you_mean(name, here) or install)


def misspelt_switch() -> list[str]:
    """One warning for each name in ``HAMI_PLUGINS`` that no installed plugin has."""
    names = [name.strip().removeprefix("-") for name in os.environ.get(SWITCH, "").split(",") if name.strip(" -")]
    if not names:
        return []
    here = {source.name for group in (VENDORS, NODE, PLUGINS) for source, _ in installed(group)}
    hints = {name: did_you_mean(name, here) for name in names if name not in here}
    told = {name: f"{SWITCH}: {shown(name)} names no installed plugin" for name in hints}
    return [f"{told[name]}; {hint}" if hint else told[name] for name, hint in hints.items()]


def misspelt_groups() -> list[str]:
    """One error for each entry-point group that resembles one of ours, or begins like one, and that nobody reads."""
    known = (VENDORS, NODE, PLUGINS, DEMO)
    told = []
    for point in importlib_metadata.entry_points():
        hint = did_you_mean(point.group, known, 0.8)
        if point.group in known or not (hint or point.group.startswith("hami.")):
            continue
        who = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "a distribution"
        hint = hint or f"expected one of {', '.join(known)}"
        told.append(
            f"{who}: its entry point {point.name!r} is in the group {point.group!r}, which nobody reads; {hint}"
        )
    return list(dict.fromkeys(told))


def discover(
    group: str, selection: Selection, barred: Callable[[Source], VendorError | None] = lambda _: None
) -> list[Found]:
    """Import the selected plugins of a group.

    Args:
        group: Entry-point group.
        selection: What to load; everything else is not even imported.
        barred: Why a plugin must not be imported, or None.

    Returns:
        One entry for each selected entry point, by name. Two distributions that claim one name both get an error
        naming both, and neither is imported.
    """
    by_name: dict[str, list[tuple[Source, EntryPoint]]] = defaultdict(list)
    for source, point in installed(group):
        if selection.takes(source.name):
            by_name[source.name].append((source, point))
    found: list[Found] = []
    for name, claims in by_name.items():
        if len(claims) > 1:
            text = f"the name {name!r} is claimed by {_listed([source for source, _ in claims])}; uninstall all but one"
            found += [Found(source, error=VendorError(name, source.label, "", text)) for source, _ in claims]
            continue
        source, point = claims[0]
        error = barred(source)
        found.append(Found(source, error=error) if error is not None else _import(source, point))
    return found


def _listed(sources: Sequence[Source]) -> str:
    return " and ".join(f"{source.label} ({source.target})" for source in sources)


class _Broken(Exception):  # noqa: N818 - not an error of ours, a carrier for one of the plugin's
    """Carries whatever a plugin raised at import past stevedore, which lets some exceptions through."""


class _Manager(ExtensionManager[Any]):
    """Stevedore's manager over one entry point that still knows its distribution."""

    def __init__(self, group: str, point: EntryPoint, errors: list[BaseException]) -> None:
        self._point = point
        super().__init__(group, on_load_failure_callback=lambda _m, _p, error: errors.append(error))

    def list_entry_points(self) -> list[EntryPoint]:
        # stevedore's own list has lost the distribution and comes from a cache file in the user's home
        return [self._point]

    def _load_one_plugin(self, ep: EntryPoint, *args: Any, **kwargs: Any) -> Extension[Any] | None:  # noqa: ANN401 - stevedore's
        try:
            return super()._load_one_plugin(ep, *args, **kwargs)
        except BaseException as error:
            if is_ours_to_pass(error):
                raise
            raise _Broken from error


def _import(source: Source, point: EntryPoint) -> Found:
    errors: list[BaseException] = []
    manager = _Manager(source.group, point, errors)
    for error in errors:
        cause = error.__cause__ or error
        text = f"cannot be imported from {source.target}: {type(cause).__name__}: {cause}"
        broken = VendorError(source.name, source.label, "", text)
        broken.__cause__ = cause
        return Found(source, error=broken)
    plugin = manager.extensions[0].plugin
    if not isinstance(plugin, type):
        text = f"the entry point {source.target} names {plugin!r}; it must name a class"
        return Found(source, error=VendorError(source.name, source.label, "", text))
    return Found(source, plugin)
