"""A thread that notices when a hook blocks the event loop, reports the hook, and finally ends the process.

The scheduler calls hooks on its event loop, so a hook that blocks stops everything: Filter, webhook, probes, SIGTERM.
The loop increments a counter every `BEAT_S`. While it does not, this thread finds the hook that the main thread is in
(`hami_core.plugins.running`). If a vendor's hooks block the loop for the limit, the process ends, and the vendor is
closed from the next start on.

A call in C that keeps Python's global lock, such as a backtracking regular expression, blocks this thread too. Then
`faulthandler`, which does not need the lock, ends the process and leaves the stack. The next start closes the vendor
that the stack names.
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
BLOCKED_AFTER_S: Final = 0.5
"""The loop counts as blocked after this time without a beat."""
REPORT_AFTER_S: Final = 0.5
"""A hook is reported after this time in a blocked loop, which is one second after it began."""
REPORT_IMPORT_AFTER_S: Final = 10.0
"""As `REPORT_AFTER_S`, for an import: importing large libraries takes seconds."""
ARM_EVERY_S: Final = 1.0
END_AFTER_S: Final = 5.0
"""After SIGTERM, the process is ended if a hook blocks the loop for this time."""
END_MARGIN_S: Final = 10.0
"""After a signal, the process is ended this long after the time for draining."""
_STACK_LINES: Final = 12


class Watchdog:
    """Watches the thread that creates it, beginning before plugins are loaded.

    Args:
        closed: The file of closed vendors.
        limit_s: How long a vendor's hooks may block the loop; 0: without limit, blocking is only reported.
        drain_s: How long the process may drain after a signal. `END_MARGIN_S` is added.
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
        self._reported: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Start watching."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def guard(self, loaded: Loaded) -> None:
        """Watch loaded plugins: count blocked calls with their failures, and also end the process for calls in C."""
        self._reporter = loaded.reporter
        try:
            self._dump = self._closed.prepare_dump(loaded.vendors, self._limit_s) or sys.stderr
        except OSError as error:
            log.warning("a vendor that blocks in C can't be kept closed", error=str(error))
            self._dump = sys.stderr

    def attach(self, stop: Callable[[], object]) -> None:
        """Watch the running loop, and call ``stop`` in it on SIGTERM or SIGINT.

        Python runs signal handlers in the main thread, which a hook may block. The byte that Python writes to the
        wakeup file arrives at once, whatever that thread does.
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
        """Stop watching, after the loop has ended."""
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
        spent_in_hook: defaultdict[Running, float] = defaultdict(float)
        while not self._over.wait(TICK_S):
            now = time.monotonic()
            # If the process was stopped or got no processor, that time was not spent in a hook.
            passed, last = min(now - last, 3 * TICK_S), now
            if self._dump is not None and self._limit_s and now - armed > ARM_EVERY_S:
                armed = now
                faulthandler.dump_traceback_later(self._limit_s + ARM_EVERY_S, exit=True, file=self._dump)
            if self._signalled and now - self._signalled_at > self._drain_s + END_MARGIN_S:
                self._end(128 + self._signalled, "the process did not end by itself after a signal, so it is ended")
            if self._beats != seen:
                seen, quiet = self._beats, 0.0
                spent.clear()
                spent_in_hook.clear()
                continue
            quiet += passed
            if quiet < BLOCKED_AFTER_S:
                continue
            try:
                hook, stack = self._find_hook()
            except Exception:
                log.exception("the hook that holds up the process can't be found")
                continue
            if hook is None:
                continue
            spent[hook.owner.name] += passed
            before = spent_in_hook[hook]
            spent_in_hook[hook] += passed
            report_after_s = REPORT_IMPORT_AFTER_S if hook.hook == IMPORT else REPORT_AFTER_S
            if before < report_after_s <= spent_in_hook[hook]:
                self._report_blocking(hook, stack, quiet)
            self._end_if_over_limit(hook, stack, spent[hook.owner.name] + BLOCKED_AFTER_S, now)

    def _find_hook(self) -> tuple[Running | None, str]:
        """Return the hook that the watched thread is in, and its stack."""
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - the documented way to see another thread
        hook = running(frame)
        return hook, "" if hook is None else _shown(traceback.extract_stack(frame))

    def _report_blocking(self, hook: Running, stack: str, quiet: float) -> None:
        """Count a blocking hook. Log the 1st, 10th, 100th… time, so that a slow hook cannot fill the disk."""
        self._reported[hook.owner.name, hook.hook] += 1
        count = self._reported[hook.owner.name, hook.hook]
        if self._reporter is not None:
            self._reporter.blocked(hook.owner.name, hook.hook)
        if str(count).strip("0") == "1":
            said = {"occurrence": count, "seconds": round(quiet, 1), "stack": stack}
            _log_error(f"a hook holds up the process: {hook}", hook, **said)

    def _end_if_over_limit(self, hook: Running, stack: str, seconds: float, now: float) -> None:
        if hook.hook == IMPORT:
            return
        ends = self._signalled and seconds > END_AFTER_S and now - self._signalled_at > END_AFTER_S
        if not ends and not (self._limit_s and seconds >= self._limit_s):
            return
        remembered = "nothing remembers it: --closed-vendors-file is not set"
        if hook.owner.group == PLUGINS:
            remembered = "a wrapper may enforce a policy, so the next start loads it again"
        elif self._closed.path is not None:
            try:
                self._closed.add(hook, seconds, stack)
                remembered = f"the vendor stays closed ({self._closed.path})"
            except OSError as error:
                remembered = f"the vendor can't be kept closed: {error}"
        code = 128 + self._signalled if ends else 1
        text = f"a hook held up the process for {seconds:.0f} s, so it is ended: {hook}; {remembered}"
        self._end(code, text, hook, stack=stack)

    @staticmethod
    def _end(code: int, text: str, hook: Running | None = None, **said: object) -> None:
        _log_error(text, hook, **said)
        os._exit(code)


def _log_error(text: str, hook: Running | None, **said: object) -> None:
    """Log an error. If the blocked hook holds the log's lock, write to standard error instead."""
    if hook is not None:
        said |= {"plugin": hook.owner.name, "version": hook.owner.label, "hook": hook.hook}
    logger = threading.Thread(target=lambda: log.error(text, **said), daemon=True)  # even getting `log.error` may lock
    logger.start()
    logger.join(1.0)
    if logger.is_alive():
        os.write(2, json.dumps({"event": text, "level": "error", **said}, default=str).encode() + b"\n")


def _shown(stack: traceback.StackSummary) -> str:
    return "".join(traceback.format_list(stack[-_STACK_LINES:]))
