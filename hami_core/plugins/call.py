"""One line of the table of hooks, and the call of one hook of one vendor: attribution, checks, what wrappers may do.

A hook with one implementation and no wrapper, which is nearly every hook, is called directly (0.1 µs); only a wrapped
one goes through pluggy's call loop. Whatever a plugin raises comes out as a `VendorError` that names distribution,
version, hook and arguments, except for the errors by which a hook is meant to say no.
"""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from types import CodeType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from hami_core.errors import HamiError, VendorError
from hami_core.hookspecs import hookimpl
from hami_core.model import Reason
from hami_core.plugins import checks, tighten
from hami_core.plugins.discovery import is_ours_to_pass
from hami_core.plugins.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pluggy

    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Reporter
    from hami_core.plugins.served import Served

P = ParamSpec("P")
R = TypeVar("R")

NO_DEFAULT: Final[Any] = object()


class Hook(Generic[P, R]):
    """One line of the table (`hami_core.plugins.hooks`): the hook with all that is not in its specification.

    As an attribute of a vendor it is the hook to call, with the arguments of the specification and the answer of the
    check. An argument named ``pod`` reaches the plugin with declared annotations only: those of the argument
    ``family``, else those of all families.

    Args:
        spec: The function in `hami_core.hookspecs`.
        check: Returns the answer in its final form or raises `Unusable`. Where several may answer, it gets the list of
            answers. Without a check, who asks the hook checks the answer himself.
        check_with: A check that needs more: called with what the vendor serves, the answer and the arguments.
        tighten: What a wrapper may make of the vendor's answer (`hami_core.plugins.tighten`).
        default: Stands for None. Without one, None goes to the check.
        required: A vendor without it is not loaded; one of the node side has no node side.
        may_raise: Errors by which the hook says no; they belong to the user or to the peer and pass as they are.
        failed: What stands for a failure when the hook is a rule of placement. It is called with the error and the
            arguments.
        pool: Threads of the agent it is called in. A driver call that hangs while devices are watched must not hold
            up a container's start.
        limit_s: How long the agent waits for it.
    """

    def __init__(
        self,
        spec: Callable[P, Any],
        *,
        check: Callable[[Any], R] | None = None,
        check_with: Callable[Concatenate[Served, Any, P], R] | None = None,
        tighten: Callable[[Any, Any], Any] = tighten.same,
        default: R = NO_DEFAULT,
        required: bool = False,
        may_raise: tuple[type[HamiError], ...] = (),
        failed: Callable[..., R] | None = None,
        pool: Literal["start", "watch"] = "watch",
        limit_s: float = 10.0,
    ) -> None:
        self.name: Final[str] = spec.__name__
        self.spec: Final = spec
        self.arguments: Final = tuple(inspect.signature(spec).parameters)
        self.check: Final[Callable[[Any], R]] = check or _unchecked
        self.check_with: Final[Callable[..., R] | None] = check_with
        self.tighten: Final = tighten
        self.default: Final = default
        self.required: Final = required
        self.may_raise: Final = may_raise
        self.failed: Final = failed
        self.pool: Final = pool
        self.limit_s: Final = limit_s

    @overload
    def __get__(self, vendor: None, owner: type) -> Self: ...
    @overload
    def __get__(self, vendor: InPlace, owner: type) -> HookCall[P, R]: ...
    @overload
    def __get__(self, vendor: InThreads, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, vendor: InPlace | InThreads | None, owner: type) -> Any:
        if vendor is None:
            return self
        call = vendor.__dict__[self.name] = vendor.of(self)  # found there from now on
        return call


class InPlace(ABC):
    """A vendor whose hooks run in the thread that asks."""

    @abstractmethod
    def of(self, hook: Hook[P, R]) -> HookCall[P, R]:
        """The hook to call."""


class InThreads(ABC):
    """A vendor whose hooks run in threads of their own and are awaited."""

    @abstractmethod
    def of(self, hook: Hook[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        """The hook to await."""


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


class HookCall(Generic[P, R]):
    """One hook of one vendor, fixed once all plugins are registered.

    Args:
        hook: Its line in the table.
        served: What the vendor serves.
        caller: The pluggy hook of the vendor's own manager.
        sources: Who stands behind each plugin object, by its name in the manager.
        owner: The vendor.
        reporter: Where failures are counted.
        closed: Why the vendor is closed: every call raises it; None: it is open.
    """

    def __init__(
        self,
        hook: Hook[P, R],
        served: Served,
        caller: pluggy.HookCaller,
        *,
        sources: Mapping[str, Source],
        owner: Source,
        reporter: Reporter,
        closed: VendorError | None = None,
    ) -> None:
        if caller.spec is None:  # pragma: no cover - the manager adds the specs first
            raise TypeError(f"hook {hook.name} has no specification")
        self.name: Final = hook.name
        self.hook: Final = hook
        self.owner: Final = owner
        self._served = served
        self._shown = served.shown
        self._caller = caller
        self._sources = sources
        self._reporter = reporter
        self._first = bool(caller.spec.opts["firstresult"])
        self._pod = _position("pod", hook.arguments)
        self._family = _position("family", hook.arguments)
        impls = [impl for impl in caller.get_hookimpls() if impl.plugin_name in sources]
        self._own = [impl for impl in impls if not impl.wrapper]
        self._wrappers = [impl for impl in impls if impl.wrapper]
        self.implemented: Final = bool(impls)
        self.wrapped: Final = bool(self._wrappers)
        self._closed = closed
        plain = len(self._own) == 1 and not self.wrapped and closed is None
        self._direct = _direct(self._own[0], hook.arguments) if plain else None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the hook and check what it answers.

        Raises:
            VendorError: The vendor or a wrapper failed; counted and logged already.
            HamiError: One that the table allows this hook.
        """
        given: Sequence[Any] = args
        if kwargs:
            given = (*args, *(kwargs[name] for name in self.hook.arguments[len(args) :]))
        at = self._pod
        if at is not None:
            word = "" if self._family is None else given[self._family].word
            shown = self._shown(given[at], word)
            if shown is not given[at]:
                given = [*given]
                given[at] = shown
        if self._direct is None or not self._first:
            return self._checked(self.answer(given), given)
        try:  # as `answer` does, which costs a call
            answer = self._direct(*given)
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            self._raise(error, given)
        return self._checked(answer, given)

    def rule(self) -> Callable[P, R]:
        """The hook as a rule of placement, which never raises."""
        failed = self.hook.failed
        if failed is None:
            raise TypeError(f"hook {self.name} is no rule: the table does not say what stands for its failure")
        return self._guarded(failed) if self._direct is None else self._guarded_direct(self._direct, failed)

    def _guarded(self, failed: Callable[..., R]) -> Callable[P, R]:
        """The rule of a hook that wrappers or several objects of the vendor answer."""

        def asks(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return self(*args, **kwargs)
            except VendorError as error:
                return failed(error, *args)

        return asks

    def _guarded_direct(self, direct: Callable[..., Any], failed: Callable[..., R]) -> Callable[..., R]:
        """The rule of a hook that one function answers: the hot path, which does without a check of plain answers."""
        default = self.hook.default
        as_is = Reason if self.hook.check is checks.reason else None

        def asks(*args: Any) -> Any:  # noqa: ANN401 - the hook's arguments and answer
            try:
                answer = direct(*args)
            except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
                return failed(self._failed(error, args), *args)
            if answer is None:
                return default
            if type(answer) is as_is:
                return answer
            try:
                return self._checked(answer, args)
            except VendorError as error:
                return failed(error, *args)

        return asks

    def answer(self, args: Sequence[Any]) -> Any:  # noqa: ANN401 - not checked yet
        """Call the hook with all its arguments in order.

        Returns:
            The first answer that is not None for a ``firstresult`` hook, else the list of such answers.

        Raises:
            VendorError: The vendor or a wrapper failed; counted and logged already.
            HamiError: One that the table allows this hook.
        """
        if self._direct is not None:
            try:
                answer = self._direct(*args)
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
                return self._caller(**dict(zip(self.hook.arguments, args, strict=True)))
            except BaseException as error:  # noqa: BLE001 - as above
                self._raise(error, args)
        return self._wrapped(args)

    def bad(self, problem: str, args: Sequence[Any]) -> VendorError:
        """Report an answer of the wrong type or range and return the error that stands for it."""
        return self._report(self.owner, problem, "bad answer", None, args)

    def _checked(self, answer: Any, args: Sequence[Any]) -> R:  # noqa: ANN401 - checked here
        hook = self.hook
        if answer is None and hook.default is not NO_DEFAULT:
            return hook.default
        try:
            if hook.check_with is None:
                return hook.check(answer)
            return hook.check_with(self._served, answer, *args)
        except checks.Unusable as finding:
            raise self.bad(str(finding), args) from None
        except Exception as error:
            # an answer of the right type whose own attributes or length raise
            raise self.bad(f"{type(error).__name__}: {error}", args) from error

    def _wrapped(self, args: Sequence[Any]) -> Any:  # noqa: ANN401 - as above
        if not hasattr(_calls, "stack"):
            _calls.stack = []
        seen = _Seen()
        _calls.stack.append(seen)
        try:
            answer = self._caller(**dict(zip(self.hook.arguments, args, strict=True)))
        except BaseException as error:  # noqa: BLE001 - as above
            self._raise(error, args)
        finally:
            _calls.stack.pop()
        if seen.error is not None:
            self._blame_wrappers("swallowed the vendor's error", args)
            self._raise(seen.error, args)
        try:
            return self.hook.tighten(seen.answer, answer)
        except tighten.Loosened as finding:
            self._blame_wrappers(str(finding), args)
        except Exception as error:  # noqa: BLE001 - the wrapper's answer is of no known form
            self._blame_wrappers(f"returned something unusable ({type(error).__name__}: {error})", args)
        return seen.answer

    def _blame_wrappers(self, problem: str, args: Sequence[Any]) -> None:
        for impl in self._wrappers:
            text = f"{problem}; the answer of vendor {self.owner.name} stands"
            if len(self._wrappers) > 1:
                text = f"one of {len(self._wrappers)} wrappers of this hook {text}"
            self._report(self._sources[impl.plugin_name], text, "loosened", None, args)

    def _failed(self, error: BaseException, args: Sequence[Any]) -> VendorError:
        """Report what a plugin raised and return the error that stands for it; the user's Ctrl-C is raised on."""
        if is_ours_to_pass(error):
            raise error
        problem = f"{type(error).__name__}: {error}"
        return self._report(self.culprit(_codes(error.__traceback__)), problem, type(error).__name__, error, args)

    def _raise(self, error: BaseException, args: Sequence[Any]) -> NoReturn:
        if isinstance(error, self.hook.may_raise):
            raise error
        raise self._failed(error, args) from error

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
        self, source: Source, problem: str, kind: str, cause: BaseException | None, args: Sequence[Any]
    ) -> VendorError:
        called = ", ".join(f"{name}={_short(value)}" for name, value in zip(self.hook.arguments, args, strict=False))
        with_arguments = f"; called with {called}" if called else ""
        error = VendorError(source.name, source.label, self.name, problem + with_arguments)
        self._reporter.failed(Problem("error", source.name, source.label, self.name, error.problem, error), kind, cause)
        return error


def _unchecked(answer: Any) -> Any:  # noqa: ANN401 - whatever it is
    return answer


def _position(name: str, arguments: tuple[str, ...]) -> int | None:
    return arguments.index(name) if name in arguments else None


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
