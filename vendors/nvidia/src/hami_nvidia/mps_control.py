"""Asks NVIDIA's MPS control daemon by its own program, ``nvidia-cuda-mps-control``.

Without options, the program sends each line of its stdin to the daemon behind ``CUDA_MPS_PIPE_DIRECTORY`` and writes
the answers to stdout. Source: NVIDIA, Multi-Process Service, "Tools and Interface Reference". The supervisor
(`hami_nvidia.mps`) and the agent (`hami_nvidia.mps_node`) both ask through this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM: Final = "nvidia-cuda-mps-control"
PIPE_DIRECTORY: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG_DIRECTORY: Final = "CUDA_MPS_LOG_DIRECTORY"
IS_ALIVE: Final = "get_default_active_thread_percentage"
"""The command that asks if the daemon works. Every daemon since Volta knows it, and it changes nothing."""

_ANSWER_BYTES: Final = 4096
_KILL_WAIT_S: Final = 0.2


class MpsError(DeviceError):
    """The control daemon does not answer as it should.

    Attributes:
        reason: What is wrong, in words that do not change from one question to the next.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class MissingProgramError(MpsError):
    """The program can't be started."""


@dataclass(frozen=True, slots=True)
class MpsFolders:
    """The folders that daemon and containers share.

    Attributes:
        base: The folder that holds them. It has the same path on the host, in the agent and for the daemon.
    """

    base: Path

    @property
    def pipe(self) -> Path:
        """The daemon's sockets."""
        return self.base / "pipe"

    @property
    def log(self) -> Path:
        """The daemon's log files."""
        return self.base / "log"

    @property
    def shm(self) -> Path:
        """What daemon and clients have at ``/dev/shm``."""
        return self.base / "shm"

    def env(self) -> dict[str, str]:
        """The variables by which the program finds the daemon."""
        return {PIPE_DIRECTORY: str(self.pipe), LOG_DIRECTORY: str(self.log)}


@dataclass(frozen=True, slots=True)
class MpsControl:
    """How to start the program.

    Attributes:
        program: Its path below ``root``.
        folders: Where the daemon is.
        root: The root folder that the program gets; ``/``: this process's own.
        clock: Monotonic seconds.
    """

    program: Path
    folders: MpsFolders
    root: Path = Path("/")
    clock: Callable[[], float] = field(default=time.monotonic)

    def start(self, *options: str, stdin: int, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """Start the program in a session of its own.

        Args:
            options: Its arguments.
            stdin: Where it reads.
            stdout: Where it writes, errors included; None: where this process writes.

        Raises:
            MissingProgramError: It can't be started.
        """

        def enter_root() -> None:
            os.chroot(self.root)
            os.chdir("/")

        try:
            return subprocess.Popen(
                [str(self.program), *options],
                env=os.environ | self.folders.env(),
                stdin=stdin,
                stdout=stdout,
                stderr=None if stdout is None else subprocess.STDOUT,
                start_new_session=True,
                # Only the supervisor has another root, and it has one thread.
                preexec_fn=None if self.root == Path("/") else enter_root,  # noqa: PLW1509
            )
        except (OSError, subprocess.SubprocessError) as error:
            below = "" if self.root == Path("/") else f" below {self.root}"
            raise MissingProgramError(f"{self.program}{below} can't be started", str(error)) from error

    def question(self, command: str, limit_s: float) -> Question:
        """Send one command. The answer is read later, so this does not block.

        Raises:
            MissingProgramError: The program can't be started.
        """
        stdin, to_program = os.pipe()
        try:
            os.write(to_program, f"{command}\n".encode())
            os.close(to_program)
            process = self.start(stdin=stdin, stdout=subprocess.PIPE)
        finally:
            os.close(stdin)
        return Question(process, command, self.clock() + limit_s, limit_s, self.clock)

    def ask(self, command: str, limit_s: float) -> str:
        """Send one command and wait for its answer.

        Raises:
            MpsError: The daemon does not answer within ``limit_s`` seconds, or the program fails.
        """
        question = self.question(command, limit_s)
        while (answer := question.poll()) is None:
            time.sleep(0.01)
        return answer

    def check(self, limit_s: float) -> float:
        """Ask if the daemon works. Returns its default active thread percentage.

        Raises:
            MpsError: It does not answer, or not with a percentage.
        """
        return percentage_of(self.ask(IS_ALIVE, limit_s))


@dataclass(slots=True)
class Question:
    """One command that was sent.

    Args:
        process: The running program.
        command: The command.
        due: When the time is over, in seconds of ``clock``.
        limit_s: The time that the answer may take.
        clock: Monotonic seconds.
    """

    process: subprocess.Popen[bytes]
    command: str
    due: float
    limit_s: float
    clock: Callable[[], float]

    def poll(self) -> str | None:
        """The answer; None: the daemon has yet to answer, and its time is not over.

        Raises:
            MpsError: The time is over, or the program failed.
        """
        status = self.process.poll()
        if status is None and self.clock() < self.due:
            return None
        if status is None:
            self.close()
            raise MpsError("the MPS control daemon does not answer in time", f"{self.command}, {self.limit_s:g} s")
        text = self._text()
        self.close()
        if status != 0:
            raise MpsError("no MPS control daemon answers", text or f"{PROGRAM} ended with status {status}")
        return text

    def _text(self) -> str:
        stdout = self.process.stdout
        if stdout is None:
            return ""
        # A child that outlives the program may hold the pipe open, so this must not wait for its end.
        os.set_blocking(stdout.fileno(), False)
        try:
            content = os.read(stdout.fileno(), _ANSWER_BYTES)
        except BlockingIOError:
            content = b""
        return content.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the program if it still runs. A process that the kernel can't kill now is reaped later."""
        if self.process.poll() is None:
            end_session(self.process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_KILL_WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all processes of its session's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def percentage_of(answer: str) -> float:
    """The percentage in the answer to `IS_ALIVE`.

    Raises:
        MpsError: The answer is something else.
    """
    try:
        value = float(answer)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise MpsError("the MPS control daemon does not answer with a percentage", repr(answer[:80]))
    return value
