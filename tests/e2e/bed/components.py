"""The programs of a bed, by name: started, ended, killed, frozen, and remembered in its state.

Names are those of the programs, with the node's behind a colon where there is one a node: ``etcd``, ``kubelet:node1``.
"""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.e2e.bed import processes
from tests.e2e.bed.errors import BedError, NotInTime
from tests.e2e.bed.machine import Machine
from tests.e2e.bed.state import Component

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.e2e.bed.processes import Process
    from tests.e2e.bed.state import State


class Components:
    """Those of one bed."""

    def __init__(self, work: Path, state: State) -> None:
        self._work = work
        self._state = state
        self._launchers: list[subprocess.Popen[bytes]] = []

    def adopt(self, launcher: subprocess.Popen[bytes]) -> None:
        """Take over the waiting for a process that this program started."""
        self._launchers.append(launcher)

    def reap(self, timeout: float = 0) -> None:
        """Collect those of our own children that have ended; with a timeout, wait for all of them."""
        for launcher in list(self._launchers):
            try:
                launcher.wait(timeout) if timeout else launcher.poll()
            except subprocess.TimeoutExpired:
                continue
            if launcher.returncode is not None:
                self._launchers.remove(launcher)

    def machine(self, name: str) -> Machine:
        """A machine that runs: ``cp`` or a node.

        Raises:
            BedError: There is none of that name.
        """
        held = self._state.machines.get(name)
        if held is None:
            raise BedError(f"no machine {name}; there are {', '.join(self._state.machines)}")
        return Machine(name, held)

    def log(self, name: str) -> Path:
        """The file a component writes to."""
        return self._work / "log" / f"{name.replace(':', '-')}.log"

    def define(
        self, name: str, machine: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Say how a component is started, and start it."""
        self._state.components[name] = Component(machine, list(command), dict(environment or {}))
        self.start(name)

    def get(self, name: str) -> Component:
        """A component.

        Raises:
            BedError: There is none of that name.
        """
        if name not in self._state.components:
            raise BedError(f"no component {name}; there are {', '.join(self._state.components)}")
        return self._state.components[name]

    def running(self, name: str) -> bool:
        """Whether it runs (or is frozen)."""
        process = self.get(name).process
        return process is not None and process.alive()

    def start(self, name: str) -> None:
        """Start it; nothing if it runs."""
        if self.running(name):
            return
        component = self.get(name)
        machine = self.machine(component.machine)
        process, launcher = machine.spawn(component.command, self.log(name), component.environment)
        self.adopt(launcher)
        component.process, component.launcher = process, type(process).of(launcher.pid)
        self._state.save(self._work)

    def stop(self, name: str, timeout: float = 30) -> None:
        """Ask it to end, and wait until it has; nothing if it does not run."""
        self._end(name, signal.SIGTERM, timeout)

    def kill(self, name: str) -> None:
        """End it at once, with SIGKILL, and wait until it is gone; nothing if it does not run."""
        self._end(name, signal.SIGKILL, 10)

    def pause(self, name: str, timeout: float = 10) -> None:
        """Freeze it with SIGSTOP: it keeps its connections and answers nothing."""
        process = self._signal(name, signal.SIGSTOP)
        until = time.monotonic() + timeout
        while not process.frozen():
            if time.monotonic() > until:
                raise NotInTime(f"{name} is not frozen within {timeout:g} s")
            time.sleep(0.002)

    def resume(self, name: str) -> None:
        """Let it go on after `pause`."""
        # nsenter stops itself along with its child, but is not woken with it.
        launcher = self.get(name).launcher
        self._signal(name, signal.SIGCONT)
        if launcher:
            launcher.signal(signal.SIGCONT)

    def _signal(self, name: str, number: int) -> Process:
        process = self.get(name).process
        if process is None or not process.signal(number):
            raise BedError(f"{name} does not run; start it first")
        return process

    def _end(self, name: str, number: int, timeout: float) -> None:
        component = self.get(name)
        if component.process:
            component.process.signal(number)
            # A program looks ended as soon as its first thread is; its sockets are free when the last is, which is when
            # its parent, the launcher, can collect it.
            processes.wait((component.process, component.launcher), timeout)
        component.process = component.launcher = None
        self.reap()
        self._state.save(self._work)

    def tail(self, name: str, lines: int = 15) -> str:
        """The end of a component's log."""
        try:
            text = self.log(name).read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
