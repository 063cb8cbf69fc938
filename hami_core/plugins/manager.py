"""Builds a vendor from the classes that discovery found.

Each vendor has its own pluggy manager with the vendor's objects, defaults for the hooks that it leaves out, and all
wrappers.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pluggy

from hami_core import hookspecs
from hami_core.documents import did_you_mean
from hami_core.errors import ConfigError, VendorError
from hami_core.hookspecs import API_VERSION
from hami_core.model import Family
from hami_core.plugins import checks, metrics
from hami_core.plugins.call import HookCall, recorder
from hami_core.plugins.config import read_section, section_name
from hami_core.plugins.defaults import Defaults
from hami_core.plugins.discovery import is_user_interrupt
from hami_core.plugins.hooks import HOOKS, START
from hami_core.plugins.served import Served
from hami_core.plugins.vendor import LoadedVendor
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.model import NodeContext
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Reporter

_WORD: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class VendorManager(pluggy.PluginManager):
    """The pluggy manager of one vendor: a call through it reaches no other vendor."""

    def __init__(self, owner: Source, reporter: Reporter) -> None:
        super().__init__("hami")
        self.add_hookspecs(hookspecs)
        self.owner = owner
        self._reporter = reporter
        self._sources: dict[str, Source] = {}
        self._own: set[str] = set()
        self._shadowed: dict[int, frozenset[str]] = {}
        self.sections: set[str] = set()
        """Sections of the device-config that the vendor read."""

    @property
    def implemented_by_vendor(self) -> tuple[str, ...]:
        """Hooks that the vendor itself implements, in the order of the specifications."""
        return tuple(name for name in HOOKS if name in self._own)

    def add_vendor(self, plugin: object, source: Source) -> None:
        """Register one of the vendor's objects. If two objects implement a hook, the first one answers.

        Raises:
            VendorError: The object does not implement the contract correctly.
        """
        hooks = check_hooks(plugin, source, wrapper=False)
        self._shadowed[id(plugin)] = frozenset(self._own)
        self._register(plugin, f"{source.group}:{source.name}", source)
        self._own |= hooks

    def add_defaults(self, defaults: Defaults) -> None:
        """Register the defaults, which answer the hooks that the vendor leaves out."""
        self._shadowed[id(defaults)] = frozenset(self._own)
        self._register(defaults, "hami:defaults", self.owner)

    def add_wrapper(self, plugin: object, source: Source) -> None:
        """Register a wrapper plugin that passed `check_hooks`."""
        self._register(plugin, f"{source.group}:{source.name}", source)

    def compile(self, served: Served, closed: VendorError | None = None) -> dict[str, HookCall[..., Any]]:
        """Make the callable hooks. Nothing may be registered afterwards.

        Args:
            served: What the vendor serves.
            closed: The error that every call of a closed vendor raises; None: the vendor is open.
        """
        self.register(recorder(HOOKS.keys() - START), "hami:recorder")
        return {
            name: HookCall(
                hook,
                served,
                getattr(self.hook, name),
                sources=self._sources,
                owner=self.owner,
                reporter=self._reporter,
                closed=closed,
            )
            for name, hook in HOOKS.items()
        }

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:  # noqa: ANN401 - pluggy's own type
        """Leave out hooks that an object registered before implements already."""
        options = super().parse_hookimpl_opts(plugin, name)
        shadowed = self._shadowed.get(id(plugin), frozenset())
        return None if options and (options.get("specname") or name) in shadowed else options

    def _register(self, plugin: object, name: str, source: Source) -> None:
        try:
            self.register(plugin, name)
        except Exception as error:
            text = str(error).splitlines()[-1] if isinstance(error, pluggy.PluginValidationError) else str(error)
            raise VendorError(source.name, source.label, "", f"cannot be registered: {text}") from error
        self._sources[name] = source


def check_hooks(plugin: object, source: Source, *, wrapper: bool) -> set[str]:
    """Check that everything that a plugin marks as a hook is a valid hook.

    Returns:
        The names of the hooks.

    Raises:
        VendorError: A hook is not valid: its name or an argument is unknown, the mark is missing, or it is async. Or a
            vendor has a generator or wrapper, or a wrapper plugin a plain hook.
    """
    found: set[str] = set()
    probe = pluggy.PluginManager("hami")
    for attribute in dir(plugin):
        options = probe.parse_hookimpl_opts(plugin, attribute)
        function = getattr(type(plugin), attribute, None)
        if options is None:
            # A rule without its mark would never be called and so accept everything. Refuse the plugin instead.
            if attribute in HOOKS and inspect.isroutine(function):
                mark = "@hookimpl(wrapper=True)" if wrapper else "@hookimpl"
                text = f"the method has a hook's name and is not marked; write {mark} above it, or rename it"
                raise VendorError(source.name, source.label, attribute, text)
            continue
        name = options.get("specname") or attribute
        problem = _hook_problem(name, function, options, wrapper=wrapper)
        problem = problem or _argument_problem(name, getattr(plugin, attribute))
        if problem and not (options.get("optionalhook") and name not in HOOKS):
            raise VendorError(source.name, source.label, name, problem)
        found.add(name)
    return found


def _hook_problem(name: str, function: object, options: Mapping[str, Any], *, wrapper: bool) -> str:
    if name not in HOOKS:
        hint = did_you_mean(name, HOOKS)
        return "there is no such hook" + (f"; {hint}" if hint else "")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "hooks are plain functions, this one is async"
    if options.get("hookwrapper"):
        return "old-style wrappers are not accepted; write @hookimpl(wrapper=True)"
    if wrapper and not options.get("wrapper"):
        return "a plugin of the group hami.plugins may only wrap; write @hookimpl(wrapper=True)"
    if wrapper and not inspect.isgeneratorfunction(function):
        return "a wrapper is a generator function: it yields once and returns the answer"
    if wrapper and name in START:
        return "this hook cannot be wrapped"
    if not wrapper and options.get("wrapper"):
        return "a vendor cannot wrap; wrappers belong to a plugin of the group hami.plugins"
    if not wrapper and inspect.isgeneratorfunction(function):
        return "the hook is a generator function (it uses yield); it must return its answer"
    return ""


def _argument_problem(name: str, function: Callable[..., Any]) -> str:
    known = HOOKS[name].arguments
    for argument in inspect.signature(function).parameters.values():
        if argument.default is not argument.empty or argument.kind in {argument.VAR_POSITIONAL, argument.VAR_KEYWORD}:
            continue
        if argument.name not in known:
            hint = did_you_mean(argument.name, known) or f"it has {', '.join(known) or 'none'}"
            return f"the hook has no argument {argument.name!r}; {hint}"
        if argument.kind is argument.KEYWORD_ONLY:
            return f"the argument {argument.name!r} is keyword-only; hooks are called by position"
    return ""


def instantiate(plugin: type[Any], source: Source) -> object:
    """Make an instance of the plugin's class and check the contract version that it states.

    Raises:
        VendorError: The constructor failed, or the class was written for another major version of the contract.
    """
    built_for = api_version(plugin)
    if built_for is None or built_for[0] != API_VERSION[0]:
        if built_for is None:
            stated = repr(getattr(plugin, "api_version", None))
            text = f"api_version is {stated}, expected two whole numbers; write api_version = {API_VERSION}"
        else:
            stated = ".".join(map(str, built_for))
            text = f"is built for hook API {stated}, this is hook API {'.'.join(map(str, API_VERSION))}; upgrade "
            text += "hami" if built_for[0] > API_VERSION[0] else source.distribution
        raise VendorError(source.name, source.label, "", text)
    made: object = _guarded(source, "", plugin)
    return made


def api_version(plugin: type[Any]) -> tuple[int, int] | None:
    """Return the class's ``api_version``; (1, 0) if it has none, None if its value is not two whole numbers."""
    stated = getattr(plugin, "api_version", (1, 0))
    proper = isinstance(stated, tuple) and len(stated) == 2 and all(type(part) is int for part in stated)
    return stated if proper else None


def build_vendor(
    objects: Sequence[tuple[object, Source]],
    wrappers: Sequence[tuple[object, Source]],
    config: Mapping[str, Any],
    reporter: Reporter,
    closed: VendorError | None = None,
    *,
    node: NodeContext | None = None,
) -> LoadedVendor:
    """Build a vendor from its objects.

    Args:
        objects: Its scheduler-side object, its node-side object, or both in this order. The last one answers hooks
            that both implement.
        wrappers: Wrapper plugins.
        config: The device-config: section name → raw content.
        reporter: Collects problems.
        closed: Why the vendor is closed. A closed vendor says what it serves, and all its other hooks fail. None: it is
            open.
        node: The node that this process serves; None: it serves no node.

    Raises:
        VendorError: The vendor cannot be used.
        ConfigError: Its section of the device-config is wrong.
    """
    owner = objects[-1][1]
    manager = VendorManager(owner, reporter)
    families: tuple[Family, ...] | None = None
    for plugin, source in reversed(objects):
        manager.add_vendor(plugin, source)
    for plugin, source in objects:
        families = _families(plugin, source, config, reporter, manager.sections, node=node) or families
    if families is None:
        raise VendorError(owner.name, owner.label, "families", "is required and missing")
    defaults = Defaults(families)
    manager.add_defaults(defaults)
    for plugin, source in wrappers:
        manager.add_wrapper(plugin, source)
    version = api_version(type(objects[-1][0])) or API_VERSION
    specs = metrics.declared([*objects, *wrappers])
    calls = manager.compile(Served(families, specs), closed)
    hooks, sections = manager.implemented_by_vendor, frozenset(manager.sections)
    vendor = LoadedVendor(owner, families, version, manager, hooks, sections, calls, specs)
    defaults.parse = vendor.parse_request
    return vendor


def _families(
    plugin: object,
    source: Source,
    config: Mapping[str, Any],
    reporter: Reporter,
    sections: set[str],
    *,
    node: NodeContext | None,
) -> tuple[Family, ...] | None:
    hooks = check_hooks(plugin, source, wrapper=False)
    section = None
    if "config_model" in hooks:
        model = _guarded(source, "config_model", plugin.config_model)  # type: ignore[attr-defined]
        if model is not None:
            section = read_section(model, config, source, reporter)
            sections.add(section_name(type(section)))
    if "families" not in hooks:
        return None
    method = plugin.families  # type: ignore[attr-defined]
    told = {"config": section, "node": node}
    wanted = inspect.signature(method).parameters
    answer = _guarded(source, "families", method, **{name: told[name] for name in told if name in wanted})
    return check_families(answer, source)


def check_families(answer: object, source: Source) -> tuple[Family, ...]:
    """Check what `families` answered.

    Raises:
        VendorError: The answer is not a sequence of families, a family is incomplete, or two claim one word or
            resource.
    """
    try:
        families = checks.sequence(answer, Family)
    except checks.Unusable as finding:
        raise VendorError(source.name, source.label, "families", str(finding)) from None
    if not families:
        text = "answered no families, expected at least one hami_core.Family"
        raise VendorError(source.name, source.label, "families", text)
    words: set[str] = set()
    names: dict[str, str] = {}
    for family in families:
        problem = _family_problem(family, words, names)
        if problem:
            raise VendorError(source.name, source.label, "families", problem)
        words.add(family.word)
        names |= dict.fromkeys(family.resources.names(), family.word)
    return families


def _family_problem(family: Family, words: set[str], names: Mapping[str, str]) -> str:
    """Return what is wrong with a family.

    Args:
        family: The family.
        words: The words of the families before it.
        names: Resource names of the families before it → their words.
    """
    own = family.resources.names()
    if not _WORD.fullmatch(str(family.word)):
        return f"the common word {family.word!r} must be letters, digits, '.', '_' and '-'"
    if family.word in words:
        return f"the common word {family.word!r} is given twice"
    if not family.resources.count:
        return f"family {family.word} names no count resource"
    if not family.allocated_key:
        return f"family {family.word} names no allocated_key"
    for name, key in (("mode_key", family.mode_key), ("kept_key", family.kept_key)):
        if key and not keys.is_allocated_key(key):
            return f"family {family.word}: {name} {key} has not the form hami.io/…-allocated, which is signed"
    for position, name in enumerate(own):
        if name in own[:position]:
            return f"family {family.word} names the resource {name} twice"
        if name in names:
            return f"families {names[name]} and {family.word} both claim the resource {name}"
    return ""


def _guarded(source: Source, hook: str, function: Callable[..., Any], **told: Any) -> Any:  # noqa: ANN401 - checked next
    """Call into a plugin while loading. A `ConfigError` passes; any other exception becomes a `VendorError`."""
    try:
        return function(**told)
    except ConfigError:
        raise
    except BaseException as error:
        if is_user_interrupt(error):
            raise
        text = f"{type(error).__name__}: {error}"
        raise VendorError(source.name, source.label, hook, text if hook else f"cannot be created: {text}") from error
