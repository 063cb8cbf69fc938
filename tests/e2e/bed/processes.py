"""Processes identified by pid and start time, so that a reused pid is never mistaken, and a list of all processes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.e2e.bed.errors import NotInTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process: its pid on the host, and the clock tick at which it started."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that now has this pid.

        Raises:
            ProcessLookupError: There is no such process, or it has ended.
        """
        fields = _stat(pid)
        if fields is None or fields[0] in "ZX":
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether the process still runs. A zombie does not."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] not in "ZX" and int(fields[19]) == self.started

    def signal(self, number: int) -> bool:
        """Send a signal. Returns False if the process has ended."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def frozen(self) -> bool:
        """Whether all its threads are stopped."""
        try:
            states = [_stat(int(task.name), self.pid) for task in (PROC / f"{self.pid}/task").iterdir()]
        except OSError:
            return False
        return all(fields is not None and fields[0] in "Tt" for fields in states)


def wait(wanted: Iterable[Process | None], timeout: float = 10) -> None:
    """Wait until all processes have ended.

    Stopped processes get SIGCONT repeatedly. nsenter stops itself some time after its child was stopped. Then it does
    not collect the child, and the pid namespace cannot end.

    Raises:
        NotInTime: Some processes have not ended.
    """
    until = time.monotonic() + timeout
    while left := [process for process in wanted if process and process.signal(signal.SIGCONT)]:
        if time.monotonic() > until:
            names = ", ".join(f"{process.pid} ({name(process.pid)})" for process in left)
            raise NotInTime(f"processes {names} have not ended within {timeout:g} s")
        time.sleep(0.01)


class Row(NamedTuple):
    """One process of `/proc`: pid and parent on the host, name, resident memory in KiB."""

    pid: int
    parent: int
    name: str
    rss: int


def name(pid: int) -> str:
    """The kernel's name of a process; "?" if it has ended."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"


def children(pid: int) -> list[int]:
    """Pids of a process's direct children; empty if it has ended."""
    try:
        return [int(word) for word in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def namespace(pid: int, kind: str = "pid") -> int:
    """Inode of a process's namespace; 0 if it has ended."""
    try:
        return (PROC / f"{pid}/ns/{kind}").stat().st_ino
    except OSError:
        return 0


def table() -> Iterator[Row]:
    """All processes of the host."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            lines = (entry / "status").read_text().splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        rss = int(fields.get("VmRSS", "0").split()[0])
        yield Row(int(entry.name), int(fields["PPid"]), fields["Name"].strip(), rss)


def inside(namespaces: set[int]) -> list[Row]:
    """Processes in one of the pid namespaces (inodes), or in a nested one such as a container's."""
    rows = list(table())
    found = {row.pid for row in rows if namespace(row.pid) in namespaces}
    size = -1
    while size != len(found):
        size = len(found)
        found |= {row.pid for row in rows if row.parent in found}
    return [row for row in rows if row.pid in found]


def _stat(pid: int, group: int = 0) -> list[str] | None:
    """Fields of `/proc/PID/stat` from the state on; with ``group``, those of a thread of that process."""
    try:
        text = (PROC / (f"{group}/task/{pid}" if group else str(pid)) / "stat").read_text()
    except OSError:
        return None
    return text.rsplit(")", 1)[1].split()
