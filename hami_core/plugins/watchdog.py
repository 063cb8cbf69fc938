"""A thread that sees when a hook holds up the event loop, says which, and in the end ends the process.

The scheduler calls hooks on its event loop, so one that blocks stops everything: Filter, webhook, probes, SIGTERM. The
loop beats; while it does not, this thread looks which hook the main thread is in (`hami_core.plugins.running`). A
vendor whose hooks held the loop for the limit without a beat is closed from the next start on, and the process ends.

A call in C that keeps Python's lock, such as a regular expression that backtracks, keeps this thread from running too.
Then `faulthandler`, which needs no lock, ends the process and leaves the stack for the next start to judge.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from typing import IO, TYPE_CHECKING, Any, Final

import structlog

from hami_core.plugins.discovery import PLUGINS
from hami_core.plugins.running import IMPORT, Running, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.plugins.closed import ClosedVendors
    from hami_core.plugins.loaded import Loaded
    from hami_core.plugins.problem import Reporter

log = structlog.get_logger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
BEAT_S: Final = 0.2
TICK_S: Final = 0.1
QUIET_S: Final = 0.5
"""The loop is held up once it has not beaten for so long."""
TELL_AFTER_S: Final = 0.5
"""A hook that was seen in a held-up loop for so long is told of: one second after it began."""
TELL_IMPORT_AFTER_S: Final = 10.0
"""Importing a package with large libraries takes seconds."""
ARM_EVERY_S: Final = 1.0
END_AFTER_S: Final = 5.0
"""After SIGTERM, a hook that holds up the loop for so long does not keep the process from ending."""
END_MARGIN_S: Final = 10.0
"""The process ends so long after the time for draining at the latest."""
_STACK_LINES: Final = 12


class Watchdog:
    """Watches the thread that makes it, from before plugins are loaded.

    Args:
        closed: Where a vendor that is closed is remembered.
        limit_s: How long a vendor's hooks may hold up the loop; 0: for ever, it is only told.
        drain_s: How long the process may take to end after a signal, beside `END_MARGIN_S`.
    """

    def __init__(self, closed: ClosedVendors, *, limit_s: float, drain_s: float) -> None:
        self._reporter: Reporter | None = None
        self._dump: IO[Any] | None = None
        self._closed = closed
        self._limit_s = limit_s
        self._drain_s = drain_s
        self._watched = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beats = 0
        self._signalled = 0
        self._signalled_at = 0.0
        self._over = threading.Event()
        self._told: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def guard(self, loaded: Loaded) -> None:
        """Plugins are loaded: count blocked calls where their failures are counted, and see calls in C as well."""
        self._reporter = loaded.reporter
        try:
            self._dump = self._closed.prepare_dump(loaded.vendors, self._limit_s) or sys.stderr
        except OSError as error:
            log.warning("a vendor that blocks in C can't be kept closed", error=str(error))
            self._dump = sys.stderr

    def attach(self, stop: Callable[[], object]) -> None:
        """Watch the running loop; ``stop`` is called in it at a signal that ends the process.

        Python runs signal handlers in the main thread, which a hook may block. What it writes to the wakeup file comes
        at once, whatever that thread does.
        """
        self._loop = asyncio.get_running_loop()
        self._beat()
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(write, False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        work = (self._loop, read, stop)
        threading.Thread(target=self._take_signals, args=work, name="watchdog-signals", daemon=True).start()

    def close(self) -> None:
        """End watching: the loop is over."""
        self._over.set()
        faulthandler.cancel_dump_traceback_later()

    def _beat(self) -> None:
        self._beats += 1
        if self._loop is not None and not self._over.is_set():
            self._loop.call_later(BEAT_S, self._beat)

    # --- signals -----------------------------------------------------------------------------------------------------

    def _take_signals(self, loop: asyncio.AbstractEventLoop, read: int, stop: Callable[[], object]) -> None:
        while data := os.read(read, 1):
            if data[0] not in SIGNALS:
                continue
            self._signalled_at, self._signalled = time.monotonic(), data[0]
            try:
                loop.call_soon_threadsafe(stop)
            except RuntimeError:  # the loop is closed: the process ends already
                return

    # --- watching ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        seen, last, quiet, armed = -1, time.monotonic(), 0.0, 0.0
        spent: defaultdict[str, float] = defaultdict(float)
        of_hook: defaultdict[Running, float] = defaultdict(float)
        while not self._over.wait(TICK_S):
            now = time.monotonic()
            # A process that was stopped, or not given a processor, did not spend that time in a hook.
            passed, last = min(now - last, 3 * TICK_S), now
            if self._dump is not None and self._limit_s and now - armed > ARM_EVERY_S:
                armed = now
                faulthandler.dump_traceback_later(self._limit_s + ARM_EVERY_S, exit=True, file=self._dump)
            if self._signalled and now - self._signalled_at > self._drain_s + END_MARGIN_S:
                self._end(128 + self._signalled, "the process does not end by itself after a signal, it is ended")
            if self._beats != seen:
                seen, quiet = self._beats, 0.0
                spent.clear()
                of_hook.clear()
                continue
            quiet += passed
            if quiet < QUIET_S:
                continue
            try:
                hook, stack = self._look()
            except Exception:
                log.exception("what holds up the process can't be seen")
                continue
            if hook is None:
                continue
            spent[hook.owner.name] += passed
            before = of_hook[hook]
            of_hook[hook] += passed
            tell_after_s = TELL_IMPORT_AFTER_S if hook.hook == IMPORT else TELL_AFTER_S
            if before < tell_after_s <= of_hook[hook]:
                self._tell(hook, stack, quiet)
            self._judge(hook, stack, spent[hook.owner.name] + QUIET_S, now)

    def _look(self) -> tuple[Running | None, str]:
        """The hook that the watched thread is in, and its stack."""
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - the documented way to see another thread
        hook = running(frame)
        return hook, "" if hook is None else _shown(traceback.extract_stack(frame))

    def _tell(self, hook: Running, stack: str, quiet: float) -> None:
        """Count it, and log the 1st, 10th, 100th time, so that a slow hook does not fill the disk."""
        self._told[hook.owner.name, hook.hook] += 1
        count = self._told[hook.owner.name, hook.hook]
        if self._reporter is not None:
            self._reporter.blocked(hook.owner.name, hook.hook)
        if str(count).strip("0") == "1":
            said = {"occurrence": count, "seconds": round(quiet, 1), "stack": stack}
            _say(f"a hook holds up the process: {hook}", hook, **said)

    def _judge(self, hook: Running, stack: str, seconds: float, now: float) -> None:
        if hook.hook == IMPORT:
            return
        ends = self._signalled and seconds > END_AFTER_S and now - self._signalled_at > END_AFTER_S
        if not ends and not (self._limit_s and seconds >= self._limit_s):
            return
        remembered = "nothing remembers it: --closed-vendors-file is not set"
        if hook.owner.group == PLUGINS:
            remembered = "a policy is not dropped, so the next start loads it again"
        elif self._closed.path is not None:
            try:
                self._closed.add(hook, seconds, stack)
                remembered = f"the vendor stays closed ({self._closed.path})"
            except OSError as error:
                remembered = f"the vendor can't be kept closed: {error}"
        code = 128 + self._signalled if ends else 1
        text = f"a hook held up the process for {seconds:.0f} s, it is ended: {hook}; {remembered}"
        self._end(code, text, hook, stack=stack)

    @staticmethod
    def _end(code: int, text: str, hook: Running | None = None, **said: object) -> None:
        _say(text, hook, **said)
        os._exit(code)


def _say(text: str, hook: Running | None, **said: object) -> None:
    """Log an error; past the log where the hook holds its lock."""
    if hook is not None:
        said |= {"plugin": hook.owner.name, "version": hook.owner.label, "hook": hook.hook}
    saying = threading.Thread(target=lambda: log.error(text, **said), daemon=True)  # getting log.error may lock too
    saying.start()
    saying.join(1.0)
    if saying.is_alive():
        os.write(2, json.dumps({"event": text, "level": "error", **said}, default=str).encode() + b"\n")


def _shown(stack: traceback.StackSummary) -> str:
    return "".join(traceback.format_list(stack[-_STACK_LINES:]))
