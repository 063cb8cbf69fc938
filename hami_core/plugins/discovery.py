"""Finds plugins by entry point and imports them. No other module uses stevedore or importlib-metadata.

A plugin cannot end the process while it is imported. Any exception, even `SystemExit`, becomes a `Found` with an error
that names distribution and version.
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
"""Environment variable for debugging: names of the only plugins to load (``nvidia,audit``), names of plugins to leave
out (``-ascend``), or both. Set but empty: no plugin is loaded."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a plugin comes from: its entry point and its distribution.

    Attributes:
        name: Entry-point name.
        group: Entry-point group.
        target: The class that the entry point names, ``module:Class``.
        distribution: Name of the distribution; empty: unknown.
        version: The distribution's version.
    """

    name: str
    group: str
    target: str = ""
    distribution: str = ""
    version: str = ""

    @property
    def label(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}".strip() or "unknown distribution"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry point, with its class or the error of its import."""

    source: Source
    plugin: type[Any] | None = None
    error: VendorError | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The names of plugins to load.

    Attributes:
        only: Names to load; None: all.
        blocked: Names to leave out, even if ``only`` has them.
    """

    only: frozenset[str] | None = None
    blocked: frozenset[str] = frozenset()

    def takes(self, name: str) -> bool:
        """Whether to load the plugin of this name."""
        return name not in self.blocked and (self.only is None or name in self.only)

    @classmethod
    def of(cls, only: Sequence[str] | None = None, blocked: Sequence[str] = (), switch: str | None = None) -> Selection:
        """Combine the caller's choice with the debugging switch, which can only leave out further plugins."""
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
        """Like `of`, with the switch from the environment."""
        return cls.of(only, blocked, os.environ.get(SWITCH))


def is_user_interrupt(error: BaseException) -> bool:
    """Whether an exception out of a plugin is the user's Ctrl-C, which must be raised again.

    Daemons replace the default SIGINT handler, so in them a `KeyboardInterrupt` can only come from the plugin.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def installed(group: str) -> list[tuple[Source, EntryPoint]]:
    """List all entry points of a group with their sources, without importing anything."""
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
    """Check that the vendors that an administrator names are installed, whether or not they can be imported.

    Args:
        names: The vendors' names.
        group: Entry-point group of the vendors.
        setting: The flag with these names, for messages.

    Raises:
        ConfigError: A vendor is not installed; names it and the installed ones.
    """
    here = sorted({source.name for source, _ in installed(group)})
    for name in names:
        if name in here:
            continue
        part = "node side" if group == NODE else "package"
        problem = f"{shown(name)} names no installed {part} of a vendor; installed: {', '.join(here) or 'none'}"
        install = "install its package, such as: pip install 'hami[all]'; in a cluster the image must hold it"
        if group == VENDORS:
            install += ", or the chart must not name it: devices.*.enabled, scheduler.vendorPackages"
        raise ConfigError(setting, problem, did_you_mean(name, here) or install)


def switch_problems() -> list[str]:
    """Return a warning for each name in ``HAMI_PLUGINS`` that no installed plugin has."""
    names = [name.strip().removeprefix("-") for name in os.environ.get(SWITCH, "").split(",") if name.strip(" -")]
    if not names:
        return []
    here = {source.name for group in (VENDORS, NODE, PLUGINS) for source, _ in installed(group)}
    hints = {name: did_you_mean(name, here) for name in names if name not in here}
    told = {name: f"{SWITCH}: {shown(name)} names no installed plugin" for name in hints}
    return [f"{told[name]}; {hint}" if hint else told[name] for name, hint in hints.items()]


def group_problems() -> list[str]:
    """Return an error for each entry-point group that resembles one of ours, or begins like one, but is not known."""
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
        selection: The plugins to import.
        barred: Says why a plugin must not be imported; None: it may be.

    Returns:
        One entry for each selected entry point, by name. If two distributions claim one name, neither is imported, and
        both get an error that names both.
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


class _Broken(Exception):  # noqa: N818 - it only carries an exception of the plugin
    """Carries the exception of a plugin's import through stevedore, which would not catch every kind."""


class _Manager(ExtensionManager[Any]):
    """Stevedore's manager for one entry point."""

    def __init__(self, group: str, point: EntryPoint, errors: list[BaseException]) -> None:
        self._point = point
        super().__init__(group, on_load_failure_callback=lambda _m, _p, error: errors.append(error))

    def list_entry_points(self) -> list[EntryPoint]:
        # Stevedore's own list lacks the distribution, and comes from a cache file in the user's home.
        return [self._point]

    def _load_one_plugin(self, ep: EntryPoint, *args: Any, **kwargs: Any) -> Extension[Any] | None:  # noqa: ANN401 - stevedore's
        try:
            return super()._load_one_plugin(ep, *args, **kwargs)
        except BaseException as error:
            if is_user_interrupt(error):
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
