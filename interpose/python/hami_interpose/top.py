"""`python -m hami_interpose top`: what containers use of their slices, live."""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hami_interpose._regions import REGION_PART, root
from hami_interpose._screen import as_json, plain, rendered, screen
from hami_interpose._watch import Watch

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from hami_interpose._watch import Frame

_EPILOG = """\
examples:
  python -m hami_interpose top                        inside a container: its own slice
  python -m hami_interpose top /var/lib/hami          on the node: every container of the agent's records
  python -m hami_interpose top --once --json FILE     one look, after one interval, for a program
  python -m hami_interpose top --interval 5 | tee log a line per device every 5 s

A region, a container's folder, a folder of those and an agent's state directory may all be named. Compute is the
device time charged during the last interval; waiting is what launches waited meanwhile, summed over threads.
q, Ctrl-C and SIGTERM end it. NO_COLOR is respected.

Exit status: 0; with --once 1 when a region could not be read.
"""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen without a cursor, and back
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text}: from 0.05 to 3600 seconds")
    return value


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "top",
        help="watch what containers use",
        description="Watch what containers use of their slices: memory, compute time, refusals, processes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", nargs="*", type=Path, metavar="FILE|DIR", help="what to watch (this container)")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between looks (1)")
    parser.add_argument("--once", action="store_true", help="look twice, show the second look, end")
    parser.add_argument("--json", action="store_true", help="one JSON object per look")
    parser.add_argument("--root", type=Path, metavar="DIR", help="instead of /usr/local/vgpu, when nothing is named")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Watches until it is told to end."""
    watch = Watch(options.sources or [root(options.root, os.environ) / REGION_PART])
    for number in _ENDINGS:
        signal.signal(number, signal.default_int_handler)
    try:
        if options.once:
            return _once(watch, options)
        if options.json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            _stream(watch, options)
        else:
            with Terminal() as terminal:
                _live(watch, terminal, options.interval)
    except KeyboardInterrupt:
        pass  # an ordinary end
    return 0


def _once(watch: Watch, options: argparse.Namespace) -> int:
    watch.look()
    time.sleep(options.interval)
    frame = watch.look()
    _show(frame, as_objects=options.json)
    return 1 if any(container.error for container in frame.containers) else 0


def _show(frame: Frame, *, as_objects: bool) -> None:
    for line in [json.dumps(as_json(frame))] if as_objects else plain(frame):
        print(line)
    sys.stdout.flush()


def _stream(watch: Watch, options: argparse.Namespace) -> None:
    while True:
        _show(watch.look(), as_objects=options.json)
        time.sleep(options.interval)


def _live(watch: Watch, terminal: Terminal, interval: float) -> None:
    colour = not os.environ.get("NO_COLOR")
    frame = watch.look()
    due = time.monotonic() + interval
    while True:
        size = shutil.get_terminal_size()
        lines = [rendered(line, size.columns, colour=colour) for line in screen(frame, size.columns, size.lines)]
        terminal.draw(lines)
        if terminal.wait(due - time.monotonic()) == b"q":
            return
        if time.monotonic() >= due:
            frame = watch.look()
            due = time.monotonic() + interval


class Terminal:
    """The terminal, ours while `with` lasts: keys come unechoed, the shell's own screen stays as it was."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._saved = termios.tcgetattr(self._keys) if self._keys is not None else None
        self._wake, self._woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)  # any signal ends the wait
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.signal(signal.SIGTSTP, self._stop)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts this
        signal.set_wakeup_fd(-1)
        self._give_back()

    def _take(self) -> None:
        if self._keys is not None:
            tty.setcbreak(self._keys)
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        if self._keys is not None and self._saved is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._saved)

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Ctrl-Z: the shell gets its terminal, and we get it back when we go on."""
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stop)
        self._take()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def draw(self, lines: list[str]) -> None:
        """Puts these lines on the screen, over what was there."""
        self._write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")

    def wait(self, seconds: float) -> bytes:
        """Returns a key, or nothing when the time is over or the window has changed."""
        watched = [self._wake] if self._keys is None else [self._wake, self._keys]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0))
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._keys is not None and self._keys in ready:
            return os.read(self._keys, 1)
        return b""
