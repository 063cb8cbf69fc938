"""A machine: mount, pid, network, uts and ipc namespaces. One process holds them as their pid 1.

Killing that process ends all processes of the machine, including containers, and removes its mounts and interfaces.
The machine sees the host's files, except where `tests.e2e.bed.disk` mounts others over them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bed import processes
from tests.e2e.bed.errors import BedError
from tests.e2e.bed.processes import Process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.bed.state import Held

HOLDER = Path(__file__).with_name("holder.py")
# The environment for shell commands. Machines inherit nothing from the caller, in particular no proxy settings.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--mount-proc")


def arguments(bed: str, name: str) -> list[str]:
    """Command line of the process that holds a machine. It contains the bed's id, so that the process can be found."""
    return [sys.executable, "-I", "-S", str(HOLDER), bed, name]


def create(bed: str, name: str) -> tuple[Process, subprocess.Popen[bytes]]:
    """Make the namespaces.

    Returns:
        Pid 1 of the machine, and the process outside the machine that waits for it.
    """
    command = [*_UNSHARE, "--propagation", "private", *arguments(bed, name)]
    launcher = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=ENVIRONMENT,
    )
    assert launcher.stdout is not None
    assert launcher.stderr is not None
    with launcher.stdout, launcher.stderr:
        if launcher.stdout.readline() != b"ready\n":
            why = launcher.stderr.read().decode(errors="replace").strip()
            launcher.wait()
            raise BedError(f"no namespaces for {name}: {why or 'no reason given'} (a bed needs root)")
    return Process.of(processes.children(launcher.pid)[0]), launcher


def holders(bed: str) -> list[Process]:
    """All processes that hold a machine of the bed, found by their exact command line."""
    found = []
    for row in processes.table():
        try:
            words = (processes.PROC / str(row.pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[3:5] == [str(HOLDER).encode(), bed.encode()]:
            found.append(Process.of(row.pid))
    return found


@dataclass(frozen=True)
class Machine:
    """A running machine."""

    name: str
    held: Held

    @property
    def root(self) -> Path:
        """The machine's file system as the host sees it. Absolute links point to the host, so use real paths."""
        return Path(f"/proc/{self.held.holder.pid}/root")

    def enter(self, *command: str) -> list[str]:
        """The command line that runs a command in the machine, in the caller's working directory."""
        if not self.held.holder.alive():
            raise BedError(f"{self.name} does not run")
        where = ("nsenter", f"--target={self.held.holder.pid}", "-m", "-n", "-p", "-u", "-i", f"--wd={Path.cwd()}")
        return [*where, "--", *command]

    def run(
        self,
        *command: str,
        check: bool = True,
        stdin: str | bytes | None = None,
        timeout: float = 60,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command until it ends.

        Raises:
            BedError: The command took too long, or it failed and ``check`` is set.
        """
        given = stdin.encode() if isinstance(stdin, str) else stdin
        line = " ".join(command)[:200]
        try:
            done = subprocess.run(
                self.enter(*command),
                input=b"" if given is None else given,
                capture_output=True,
                check=False,
                timeout=timeout,
                env={**ENVIRONMENT, **(environment or {})},
            )
        except subprocess.TimeoutExpired as error:
            raise BedError(f"{self.name}: {line}: not done within {timeout:g} s") from error
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if check and done.returncode:
            raise BedError(f"{self.name}: {line}: exit status {done.returncode}\n{err.strip()}\n{out.strip()[-2000:]}")
        return subprocess.CompletedProcess(command, done.returncode, out, err)

    def run_in_network(self, *command: str) -> None:
        """Run a command only in the machine's network namespace, with the host's files and processes."""
        where = ("nsenter", f"--target={self.held.holder.pid}", "--net", "--")
        done = subprocess.run([*where, *command], check=False, capture_output=True, text=True, env=ENVIRONMENT)
        if done.returncode:
            raise BedError(f"{self.name}: {' '.join(command)}: {done.stderr.strip()}")

    def script(self, text: str) -> None:
        """Run shell commands. Stop at the first that fails."""
        self.run("/bin/sh", "-euc", text)

    def spawn(
        self, command: list[str], log: Path, environment: Mapping[str, str]
    ) -> tuple[Process, subprocess.Popen[bytes]]:
        """Start a command in the background.

        Returns:
            The command's process, and the process outside the machine that waits for it.
        """
        with log.open("ab") as file:
            launcher = subprocess.Popen(
                self.enter(*command),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**ENVIRONMENT, **environment},
                start_new_session=True,
                cwd="/",
            )
        while launcher.poll() is None:
            found = next((pid for pid in processes.children(launcher.pid) if _runs(pid, command[0])), 0)
            with suppress(ProcessLookupError):
                return Process.of(found), launcher
            time.sleep(0.002)
        raise BedError(f"{self.name}: {command[0]} ended at once with status {launcher.returncode}; see {log}")

    def processes(self) -> list[processes.Row]:
        """All processes of the machine, including its containers'."""
        return processes.inside({processes.namespace(self.held.holder.pid)})


def _runs(pid: int, program: str) -> bool:
    """Whether a forked process has already started the program."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0] == program.encode()
    except OSError:
        return False
