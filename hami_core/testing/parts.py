"""Our processes on a stage. It starts, kills and restarts them; each has a log of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp

from hami_core.errors import HamiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 20.0


_LAUNCH: Final = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGTERM = 1, 15
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""A program that becomes its command line, which the kernel then ends when the stage's process ends, for whatever
reason. The stage must not do this between fork and exec itself: fork is unsafe in a process that runs gRPC's threads.
"""


class StageError(HamiError):
    """A process of the stage did not start, the API server refused a call, or a pod does not run. The text says why.

    >>> str(StageError("pod broken is Failed"))
    'pod broken is Failed'
    """


def free_port() -> int:
    """Reserve a TCP port of the loopback interface for a server that this process starts.

    A socket that does not listen stays bound to the port until this process ends. The kernel gives such a port to no
    other socket by itself, but a server that sets ``SO_REUSEADDR``, as asyncio and Go do, can listen on it.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    probe.detach()  # the descriptor stays open
    return port


@dataclass
class Part:
    """One process: how it is started, and how to tell that it is ready.

    Attributes:
        name: Name in messages and for `restart`.
        argv: Command line.
        env: The whole environment.
        log: File for its output.
        ready_url: URL that answers 200 once the part serves.
        fatal: Text in its log (JSON lines) that means that it will never serve. Waiting ends at once then. Empty: none.
        fix: What the user can do about the fatal error.
    """

    name: str
    argv: list[str]
    env: Mapping[str, str]
    log: Path
    ready_url: str
    fatal: str = ""
    fix: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the process without waiting until it serves."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, *self.argv],
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until it serves.

        Raises:
            StageError: The process ended, or did not serve in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            while loop.time() < deadline:
                if self.process is None or (code := self.process.poll()) is not None:
                    how = "is not started" if self.process is None else f"ended while starting (exit code {code})"
                    raise StageError(f"{self.name} {how}:\n{self.tail()}")
                if told := self._fatal_error():
                    raise StageError(f"{self.name}: {self.fatal}: {told} ({self.fix})")
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(self.ready_url) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.02)
        raise StageError(f"{self.name} did not serve {self.ready_url} within {limit_s:.0f} s:\n{self.tail()}")

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def wait(self) -> None:
        """Wait until the process ends. Kill it if that takes longer than `STOP_LIMIT_S`."""
        if self.process is None:
            return
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _fatal_error(self) -> str:
        for line in self.tail().splitlines() if self.fatal else ():
            if self.fatal in line:
                with contextlib.suppress(ValueError, KeyError):
                    return str(json.loads(line)["error"])
        return ""

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return f"(no log: {error})"
