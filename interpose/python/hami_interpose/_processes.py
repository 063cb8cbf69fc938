"""Names of processes that a region knows by the pid they have in their own container."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hami_interpose._region_layout import OWNER_START_BITS
from hami_interpose._show import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hami_interpose.region import ProcessUse

_START_FIELD = 22 - 3  # of /proc/PID/stat, counted from the state


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it is seen from here: `pid` differs from the container's own where that has a pid namespace."""

    pid: int
    name: str


def _stat(folder: Path) -> tuple[str, int] | None:
    """Name and start time of a process; None when it is gone."""
    try:
        text = (folder / "stat").read_text(encoding="ascii", errors="replace")
        before, _, after = text.rpartition(")")
        return printable(before.partition("(")[2]), int(after.split()[_START_FIELD]) & ((1 << OWNER_START_BITS) - 1)
    except (OSError, ValueError, IndexError):
        return None


def _innermost_pid(folder: Path) -> int | None:
    try:
        for line in (folder / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return None


class Names:
    """Finds processes in /proc. Pid and start time must both agree: pid 1 of a container is not pid 1 of the node."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._pids: dict[tuple[int, int], int | None] = {}

    def find(self, wanted: Iterable[ProcessUse]) -> dict[tuple[int, int], Seen]:
        """Those that can be seen from here, by the region's pid and start time."""
        keys = {(process.pid, process.start_time) for process in wanted}
        self._pids = {key: pid for key, pid in self._pids.items() if key in keys}
        found = {}
        for key in keys:
            pid = self._pids.get(key, key[0])
            seen = _stat(self._proc / str(pid)) if pid is not None else None
            if pid is not None and seen is not None and seen[1] == key[1]:
                self._pids[key] = pid
                found[key] = Seen(pid, seen[0])
        missing = keys - found.keys() - {key for key, pid in self._pids.items() if pid is None}
        if missing:
            found |= self._search(missing)
        return found

    def _folders(self) -> Iterator[Path]:
        try:
            yield from (folder for folder in self._proc.iterdir() if folder.name.isdigit())
        except OSError:
            return

    def _search(self, missing: set[tuple[int, int]]) -> dict[tuple[int, int], Seen]:
        """Looks through all processes; a key that is not found is not looked for again."""
        found = {}
        starts = {start for _, start in missing}
        for folder in self._folders():
            seen = _stat(folder)
            if seen is None or seen[1] not in starts:
                continue
            key = (_innermost_pid(folder) or 0, seen[1])
            if key in missing:
                found[key] = Seen(int(folder.name), seen[0])
        self._pids |= {key: found[key].pid if key in found else None for key in missing}
        return found
