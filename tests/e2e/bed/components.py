"""The components of a bed: start, end, kill and freeze its programs, and record them in its state.

A component has its program's name, such as ``etcd``. On nodes the node's name follows: ``kubelet:node1``.
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
    """The components of one bed."""

    def __init__(self, work: Path, state: State) -> None:
        self._work = work
        self._state = state
        self._launchers: list[subprocess.Popen[bytes]] = []

    def adopt(self, launcher: subprocess.Popen[bytes]) -> None:
        """Take over a child process, to collect it once it ends."""
        self._launchers.append(launcher)

    def reap(self, timeout: float = 0) -> None:
        """Collect our child processes that have ended. With a timeout, wait for all of them."""
        for launcher in list(self._launchers):
            try:
                launcher.wait(timeout) if timeout else launcher.poll()
            except subprocess.TimeoutExpired:
                continue
            if launcher.returncode is not None:
                self._launchers.remove(launcher)

    def machine(self, name: str) -> Machine:
        """A running machine: ``cp`` or a node.

        Raises:
            BedError: There is no machine of this name.
        """
        held = self._state.machines.get(name)
        if held is None:
            raise BedError(f"no machine {name}; there are {', '.join(self._state.machines)}")
        return Machine(name, held)

    def log(self, name: str) -> Path:
        """Log file of a component."""
        return self._work / "log" / f"{name.replace(':', '-')}.log"

    def define(
        self, name: str, machine: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Record a component's command line, and start it."""
        self._state.components[name] = Component(machine, list(command), dict(environment or {}))
        self.start(name)

    def get(self, name: str) -> Component:
        """A component by name.

        Raises:
            BedError: There is no component of this name.
        """
        if name not in self._state.components:
            raise BedError(f"no component {name}; there are {', '.join(self._state.components)}")
        return self._state.components[name]

    def running(self, name: str) -> bool:
        """Whether a component's process exists, running or frozen."""
        process = self.get(name).process
        return process is not None and process.alive()

    def start(self, name: str) -> None:
        """Start a component, unless it runs already."""
        if self.running(name):
            return
        component = self.get(name)
        machine = self.machine(component.machine)
        process, launcher = machine.spawn(component.command, self.log(name), component.environment)
        self.adopt(launcher)
        component.process, component.launcher = process, type(process).of(launcher.pid)
        self._state.save(self._work)

    def stop(self, name: str, timeout: float = 30) -> None:
        """End a component with SIGTERM and wait until it has ended. Do nothing if it does not run."""
        self._end(name, signal.SIGTERM, timeout)

    def kill(self, name: str) -> None:
        """Kill a component with SIGKILL and wait until it has ended. Do nothing if it does not run."""
        self._end(name, signal.SIGKILL, 10)

    def pause(self, name: str, timeout: float = 10) -> None:
        """Freeze a component with SIGSTOP: it keeps its connections and does not answer."""
        process = self._signal(name, signal.SIGSTOP)
        until = time.monotonic() + timeout
        while not process.frozen():
            if time.monotonic() > until:
                raise NotInTime(f"{name} was not frozen within {timeout:g} s")
            time.sleep(0.002)

    def resume(self, name: str) -> None:
        """Undo `pause`."""
        # nsenter stops itself when its child stops, but does not continue with it.
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
            # A program looks ended once its first thread has ended. Its sockets are free only when the last thread has
            # ended. Then its parent, the launcher, can collect it; so wait for the launcher too.
            processes.wait((component.process, component.launcher), timeout)
        component.process = component.launcher = None
        self.reap()
        self._state.save(self._work)

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines of a component's log."""
        try:
            text = self.log(name).read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
