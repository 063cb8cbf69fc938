"""Record which files, sockets, processes, driver libraries, clocks and variables a hook uses while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EVENTS: Final = ("open", "socket.", "subprocess.", "os.system", "os.listdir", "os.scandir", "os.fork", "ctypes.dlopen")
_CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")

_active: list[tuple[int, list[str]]] = []
_installed = False


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Record each side effect of the code within, without preventing it.

    Yields:
        A list that gets one line for each side effect.
    """
    global _installed  # noqa: PLW0603 - an audit hook cannot be removed, so it is added once
    if not _installed:
        sys.addaudithook(_audit)
        _installed = True
    acts: list[str] = []
    with contextlib.ExitStack() as undo:
        for name in _CLOCKS:
            undo.enter_context(_replaced(time, name, _noting(getattr(time, name), f"time.{name}()", acts)))
        undo.enter_context(_replaced(os, "environ", _Environment(os.environ, acts)))
        _active.append((threading.get_ident(), acts))
        try:
            yield acts
        finally:
            _active.pop()


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _active and event.startswith(_EVENTS) and _active[-1][0] == threading.get_ident():
        _active[-1][1].append(f"{event} {args[0] if args else ''!r}")


def _noting(function: Callable[..., Any], what: str, acts: list[str]) -> Callable[..., Any]:
    def call(*args: object) -> Any:  # noqa: ANN401 - whatever the clock says
        acts.append(what)
        return function(*args)

    return call


class _Environment:
    """`os.environ` that records each read."""

    def __init__(self, real: Any, acts: list[str]) -> None:  # noqa: ANN401 - as os.environ
        self._real, self._acts = real, acts

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - as os.environ
        self._acts.append(f"os.environ[{key!r}]")
        return self._real[key]

    def __contains__(self, key: str) -> bool:
        self._acts.append(f"os.environ[{key!r}]")
        return key in self._real

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as os.environ
        self._acts.append(f"os.environ.{name}")
        return getattr(self._real, name)


@contextlib.contextmanager
def _replaced(where: object, name: str, value: object) -> Iterator[None]:
    before = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, before)
