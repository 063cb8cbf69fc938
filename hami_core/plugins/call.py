"""Calls one hook of one vendor: checks the answer, limits what wrappers may change, and says which plugin failed.

`Hook` is one line of the table of hooks (`hami_core.plugins.hooks`), `HookCall` is that hook of one vendor. Nearly
every hook has one implementation and no wrapper, and is called directly (0.1 µs); others go through pluggy's call loop.
An exception from a plugin becomes a `VendorError` that names distribution, version, hook and arguments. Only the errors
by which a hook refuses a request pass unchanged.
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
from hami_core.plugins.discovery import is_user_interrupt
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
"""Marks a hook without a default."""


class Hook(Generic[P, R]):
    """One line of the table of hooks: everything about a hook that its specification does not say.

    As an attribute of a vendor, it is the callable hook, with the arguments of the specification and the answer that
    the check returns. Of an argument named ``pod``, the plugin sees the declared annotations only: those of the
    argument ``family`` if there is one, else those of all families of the vendor.

    Args:
        spec: The function in `hami_core.hookspecs`.
        check: Returns the answer in its final form, or raises `Unusable`. If several implementations may answer, it
            gets the list of answers. Without a check, the caller of the hook checks the answer.
        check_with: A check that needs more. It is called with what the vendor serves, the answer and the arguments.
        tighten: Limits what a wrapper may change (`hami_core.plugins.tighten`).
        default: Replaces the answer None. Without a default, None goes to the check.
        required: Whether a vendor, or a node side, without this hook is not loaded.
        may_raise: Errors by which the hook says no. They are the user's or the peer's fault and pass unchanged.
        failed: Makes the answer that replaces a failure when the hook is a rule of placement. It is called with the
            error and the arguments.
        pool: The agent's threads in which the hook is called. A driver call that hangs while devices are watched must
            not delay the start of a container.
        limit_s: How long the agent waits for the hook, in seconds.
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
        call = vendor.__dict__[self.name] = vendor.of(self)  # later look-ups find it there
        return call


class InPlace(ABC):
    """A vendor whose hooks run in the caller's thread."""

    @abstractmethod
    def of(self, hook: Hook[P, R]) -> HookCall[P, R]:
        """Return the hook as a callable."""


class InThreads(ABC):
    """A vendor whose hooks run in threads of their own and are awaited."""

    @abstractmethod
    def of(self, hook: Hook[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return the hook as a coroutine function."""


_ARGUMENT_LENGTH: Final = 300
"""Limit of an argument's text in a message, in characters."""


class _Seen:
    """The vendor's own answer or error during one wrapped call."""

    __slots__ = ("answer", "error", "reached")

    def __init__(self) -> None:
        self.reached = False
        self.answer: Any = None
        self.error: BaseException | None = None


_calls = threading.local()


def recorder(hooks: Iterable[str]) -> object:
    """Make a plugin that wraps every hook innermost and records the vendor's own answer before any wrapper sees it.

    Args:
        hooks: Names of the hooks.
    """

    def record() -> Generator[None, Any, Any]:
        stack: list[_Seen] = getattr(_calls, "stack", [])
        seen = stack[-1] if stack else _Seen()  # a caller used the manager's hook without `HookCall`
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
        # Each hook needs its own function, because `hookimpl` marks the function.
        setattr(plugin, name, hookimpl(wrapper=True, trylast=True)(_copy(record)))
    return plugin


def _copy(function: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Generator[None, Any, Any]:
        return (yield from function())

    return call


class HookCall(Generic[P, R]):
    """One hook of one vendor, fixed once all plugins are registered.

    Args:
        hook: The hook's line in the table.
        served: What the vendor serves.
        caller: The pluggy hook of the vendor's own manager.
        sources: The supplier of each plugin object, by the object's name in the manager.
        owner: The vendor.
        reporter: Counts and logs failures.
        closed: Why the vendor is closed; every call raises it. None: the vendor is open.
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
        """Call the hook and check its answer.

        Raises:
            VendorError: The vendor or a wrapper failed. The failure is already counted and logged.
            HamiError: An error that the table allows this hook to raise.
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
        try:  # the same as `answer`, without the cost of another call
            answer = self._direct(*given)
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            self._raise(error, given)
        return self._checked(answer, given)

    def rule(self) -> Callable[P, R]:
        """Return the hook as a rule of placement, which never raises."""
        failed = self.hook.failed
        if failed is None:
            raise TypeError(f"hook {self.name} is no rule: the table does not say what stands for its failure")
        return self._guarded(failed) if self._direct is None else self._guarded_direct(self._direct, failed)

    def _guarded(self, failed: Callable[..., R]) -> Callable[P, R]:
        """Make the rule of a hook that has wrappers or several implementations."""

        def asks(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return self(*args, **kwargs)
            except VendorError as error:
                return failed(error, *args)

        return asks

    def _guarded_direct(self, direct: Callable[..., Any], failed: Callable[..., R]) -> Callable[..., R]:
        """Make the rule of a hook with one implementation. This is the hot path: a plain `Reason` is not checked."""
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
        """Call the hook with all its arguments in order, without checking the answer.

        Returns:
            For a ``firstresult`` hook, the first answer that is not None; else the list of such answers.

        Raises:
            VendorError: The vendor or a wrapper failed. The failure is already counted and logged.
            HamiError: An error that the table allows this hook to raise.
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
        """Report an answer of the wrong type or out of range, and return the error to raise for it."""
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
            # The answer has the right type, but reading its attributes or its length raises.
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
        except Exception as error:  # noqa: BLE001 - a wrapper may answer anything
            self._blame_wrappers(f"returned something unusable ({type(error).__name__}: {error})", args)
        return seen.answer

    def _blame_wrappers(self, problem: str, args: Sequence[Any]) -> None:
        for impl in self._wrappers:
            text = f"{problem}; the answer of vendor {self.owner.name} stands"
            if len(self._wrappers) > 1:
                text = f"one of {len(self._wrappers)} wrappers of this hook {text}"
            self._report(self._sources[impl.plugin_name], text, "loosened", None, args)

    def _failed(self, error: BaseException, args: Sequence[Any]) -> VendorError:
        """Report what a plugin raised, and return the error to raise for it. The user's Ctrl-C is raised again."""
        if is_user_interrupt(error):
            raise error
        problem = f"{type(error).__name__}: {error}"
        return self._report(self.culprit(_codes(error.__traceback__)), problem, type(error).__name__, error, args)

    def _raise(self, error: BaseException, args: Sequence[Any]) -> NoReturn:
        if isinstance(error, self.hook.may_raise):
            raise error
        raise self._failed(error, args) from error

    def functions(self) -> Iterator[tuple[Source, str, str]]:
        """Yield each function that implements or wraps the hook: its supplier, file and name."""
        for impl in (*self._own, *self._wrappers):
            code = _code(impl.function)
            if isinstance(code, CodeType):
                yield self._sources[impl.plugin_name], code.co_filename, code.co_name

    def culprit(self, codes: Iterable[object]) -> Source:
        """Return the supplier of the innermost implementation or wrapper among these frames' code.

        Args:
            codes: The code of each frame of the call, outermost first.
        """
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
    """Adapt an implementation so that it takes all of the hook's arguments by position."""
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
