"""Call one hook of one vendor: attribution, what the wrappers may do, and what a call costs.

A hook with one implementation and no wrapper, which is nearly every hook, is called directly (0.1 µs); only a wrapped
one goes through pluggy's call loop. Whatever a plugin raises comes out as a `VendorError` that names distribution,
version, hook and arguments, except for the errors by which a hook is meant to say no.
"""

from __future__ import annotations

import inspect
import threading
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hami_core.errors import HamiError, RequestError, VendorError, WireError
from hami_core.hookspecs import hookimpl
from hami_core.plugins.discovery import is_ours_to_pass
from hami_core.plugins.problem import Problem
from hami_core.plugins.tighten import RULES, Loosened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from types import TracebackType

    import pluggy

    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Reporter

ALLOWED: Final[Mapping[str, tuple[type[HamiError], ...]]] = {
    "register": (WireError,),
    "mutate_admission": (RequestError,),
    "parse_request": (RequestError,),
}
"""Errors by which a hook answers no; they belong to the user or to the peer and pass as they are."""

_ARGUMENT_LENGTH: Final = 300


class _Seen:
    """What the vendor itself did during one wrapped call."""

    __slots__ = ("answer", "error", "reached")

    def __init__(self) -> None:
        self.reached = False
        self.answer: Any = None
        self.error: BaseException | None = None


_calls = threading.local()


def recorder(hooks: Iterable[str]) -> object:
    """Make the innermost wrapper of every hook: it notes the vendor's own answer before any wrapper sees it.

    Args:
        hooks: Names of the hooks.
    """

    def note() -> Generator[None, Any, Any]:
        stack: list[_Seen] = getattr(_calls, "stack", [])
        seen = stack[-1] if stack else _Seen()  # somebody calls the manager's hook himself
        seen.reached = True
        try:
            seen.answer = yield
        except BaseException as error:
            seen.error = error
            raise
        return seen.answer

    class Recorder:
        pass

    plugin = Recorder()
    for name in hooks:
        # a fresh function each, since the marker hangs on it; it takes no argument of the hook
        setattr(plugin, name, hookimpl(wrapper=True, trylast=True)(_copy(note)))
    return plugin


def _copy(function: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Generator[None, Any, Any]:
        return (yield from function())

    return call


class HookCall:
    """One hook of one vendor, fixed once all plugins are registered.

    Args:
        hook: The pluggy hook of the vendor's own manager.
        sources: Who stands behind each plugin object, by its name in the manager.
        owner: The vendor.
        reporter: Where failures are counted.
        closed: Why the vendor is closed: every call raises it; None: it is open.
    """

    def __init__(
        self,
        hook: pluggy.HookCaller,
        sources: Mapping[str, Source],
        owner: Source,
        reporter: Reporter,
        closed: VendorError | None = None,
    ) -> None:
        if hook.spec is None:  # pragma: no cover - the manager adds the specs first
            raise TypeError(f"hook {hook.name} has no specification")
        self.name: Final = hook.name
        self.owner: Final = owner
        self._hook = hook
        self._sources = sources
        self._reporter = reporter
        self._argnames = tuple(hook.spec.argnames)
        self._first = bool(hook.spec.opts["firstresult"])
        impls = [impl for impl in hook.get_hookimpls() if impl.plugin_name in sources]
        self._own = [impl for impl in impls if not impl.wrapper]
        self._wrappers = [impl for impl in impls if impl.wrapper]
        self.implemented: Final = bool(impls)
        self.wrapped: Final = bool(self._wrappers)
        self._closed = closed
        plain = len(self._own) == 1 and not self.wrapped and closed is None
        self.direct: Final = _direct(self._own[0], self._argnames) if plain else None
        """The implementation itself, for hot paths, whose callers hand what it raises to `failed`."""
        self._allowed = ALLOWED.get(self.name, ())

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - checked by whoever knows the hook
        """Call the hook with all its arguments in order.

        Returns:
            The first answer that is not None for a ``firstresult`` hook, else the list of such answers.

        Raises:
            VendorError: The vendor or a wrapper failed; counted and logged already.
            HamiError: One of `ALLOWED` for this hook.
        """
        if self.direct is not None:
            try:
                answer = self.direct(*args)
            except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
                self._raise(error, args)
            if self._first:
                return answer
            return [] if answer is None else [answer]
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if not self.implemented:
            return None if self._first else []
        if not self.wrapped:
            try:
                return self._hook(**dict(zip(self._argnames, args, strict=True)))
            except BaseException as error:  # noqa: BLE001 - as above
                self._raise(error, args)
        return self._wrapped(args)

    def bad(self, problem: str, args: tuple[Any, ...]) -> VendorError:
        """Report an answer of the wrong type or range and return the error that stands for it."""
        return self._report(self.owner, problem, "bad answer", None, args)

    def _wrapped(self, args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
        if not hasattr(_calls, "stack"):
            _calls.stack = []
        seen = _Seen()
        _calls.stack.append(seen)
        try:
            answer = self._hook(**dict(zip(self._argnames, args, strict=True)))
        except BaseException as error:  # noqa: BLE001 - as above
            self._raise(error, args)
        finally:
            _calls.stack.pop()
        if seen.error is not None:
            self._blame_wrappers("swallowed the vendor's error", args)
            self._raise(seen.error, args)
        try:
            return RULES[self.name](seen.answer, answer)
        except Loosened as finding:
            self._blame_wrappers(str(finding), args)
        except Exception as error:  # noqa: BLE001 - the wrapper's answer is of no known form
            self._blame_wrappers(f"returned something unusable ({type(error).__name__}: {error})", args)
        return seen.answer

    def _blame_wrappers(self, problem: str, args: tuple[Any, ...]) -> None:
        for impl in self._wrappers:
            text = f"{problem}; the answer of vendor {self.owner.name} stands"
            if len(self._wrappers) > 1:
                text = f"one of {len(self._wrappers)} wrappers of this hook {text}"
            self._report(self._sources[impl.plugin_name], text, "loosened", None, args)

    def failed(self, error: BaseException, args: tuple[Any, ...]) -> VendorError:
        """Report what a plugin raised and return the error that stands for it; the user's Ctrl-C is raised on."""
        if is_ours_to_pass(error):
            raise error
        problem = f"{type(error).__name__}: {error}"
        return self._report(self.culprit(_codes(error.__traceback__)), problem, type(error).__name__, error, args)

    def _raise(self, error: BaseException, args: tuple[Any, ...]) -> NoReturn:
        if isinstance(error, self._allowed):
            raise error
        raise self.failed(error, args) from error

    def functions(self) -> Iterator[tuple[Source, str, str]]:
        """Who implements or wraps the hook, with file and name of the function."""
        for impl in (*self._own, *self._wrappers):
            code = _code(impl.function)
            if isinstance(code, CodeType):
                yield self._sources[impl.plugin_name], code.co_filename, code.co_name

    def culprit(self, codes: Iterable[object]) -> Source:
        """Whose code runs, given the code of each frame of the call, outermost first: the last implementation's."""
        impls = {_code(impl.function): impl.plugin_name for impl in (*self._wrappers, *self._own)}
        names = [impls[code] for code in codes if code in impls]
        return self._sources[names[-1]] if names else self.owner

    def _report(
        self, source: Source, problem: str, kind: str, cause: BaseException | None, args: tuple[Any, ...]
    ) -> VendorError:
        called = ", ".join(f"{name}={_short(value)}" for name, value in zip(self._argnames, args, strict=False))
        with_arguments = f"; called with {called}" if called else ""
        error = VendorError(source.name, source.label, self.name, problem + with_arguments)
        self._reporter.failed(Problem("error", source.name, source.label, self.name, error.problem, error), kind, cause)
        return error


def _direct(impl: pluggy.HookImpl, argnames: tuple[str, ...]) -> Callable[..., Any]:
    """The implementation as a callable of all the hook's arguments by position."""
    function: Callable[..., Any] = impl.function
    if tuple(impl.argnames) == argnames and not impl.kwargnames:
        return function
    take = tuple(argnames.index(name) for name in impl.argnames)
    named = tuple((name, argnames.index(name)) for name in impl.kwargnames if name in argnames)
    if named:
        return lambda *args: function(*[args[i] for i in take], **{name: args[i] for name, i in named})
    return lambda *args: function(*[args[i] for i in take])


def _codes(trace: TracebackType | None) -> Iterator[object]:
    while trace is not None:
        yield trace.tb_frame.f_code
        trace = trace.tb_next


def _code(function: object) -> object:
    return getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)  # type: ignore[arg-type]


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a plugin's object may not even be printable
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= _ARGUMENT_LENGTH else text[: _ARGUMENT_LENGTH - 1] + "…"
