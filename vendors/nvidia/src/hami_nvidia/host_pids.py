"""Telling containers what the host calls their processes, for drivers that know no pid namespaces.

NVML of such a driver tells everybody the host's pids, by which a container's library can't tell its own processes.
The agent sees both, and writes the one beside the other into the region. A process is named only if the kernel says
that it has the slot's lock in that very file, and /proc that it is the one that the slot speaks of. So one of another
container with the same pid inside is not taken for it, nor one that has the pid on the host by now.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose import host_pids as region

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from hami_interpose.host_pids import Claim, Shown

log = structlog.get_logger(__name__)

HOSTS_NAMESPACE: Final = "pid:[4026531836]"
"""The machine's first pid namespace, in which the driver counts (PROC_PID_INIT_INO of Linux)."""
SLOTS_PER_LOOK: Final = 256
"""Slots of all containers together that are looked into at one time."""
MIN_SLOTS_PER_REGION: Final = 4
"""Of one container, however many there are."""
_FIRST_DELAY_S: Final = 10.0
_LAST_DELAY_S: Final = 80.0
_START_FIELD: Final = 22 - 3  # of /proc/PID/stat, counted from the state
_START_MASK: Final = (1 << 40) - 1  # what a region keeps of it
_STATUS_BYTES: Final = 1 << 14  # a process with thousands of groups is not named
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Identity:
    """A process as the host's /proc has it.

    Attributes:
        pid: on the host.
        inner_pid: in the innermost of its pid namespaces.
        start_time: clock ticks since the boot, as far as a region keeps them.
    """

    pid: int
    inner_pid: int
    start_time: int


def match(claims: Iterable[Claim], holders: Mapping[int, Identity]) -> list[tuple[Claim, int]]:
    """Which claims are proven, with the pid on the host. Pure.

    Args:
        claims: Who has a slot, as a region says.
        holders: By slot, the process that holds its lock.
    """
    proven = []
    for claim in claims:
        who = holders.get(claim.slot)
        if who is not None and (who.inner_pid, who.start_time) == (claim.pid, claim.start_time):
            proven.append((claim, who.pid))
    return proven


def identity(proc: Path, pid: int) -> Identity | None:
    """Reads who a process is; None: it is gone, can't be seen, or `proc` is of another pid namespace."""
    try:
        folder = os.open(proc / str(pid), _FOLDER)  # it stays this process's, whoever gets the number next
    except OSError:
        return None
    try:
        outer, *_, inner = _pids(_read(folder, "status"))
        _, _, stat = _read(folder, "stat").rpartition(b")")
        start = int(stat.split()[_START_FIELD]) & _START_MASK
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(folder)
    return Identity(pid, inner, start) if outer == pid else None


def _pids(status: bytes) -> list[int]:
    """From the outermost namespace to the innermost; the first twice, so that there are two at least."""
    _, found, rest = status.partition(b"\nNSpid:")
    line, ended, _ = rest.partition(b"\n")
    pids = [int(pid) for pid in line.split()] if found and ended else []
    return [*pids[:1], *pids]


def _read(folder: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, _STATUS_BYTES)
    finally:
        os.close(fd)


@dataclass(slots=True)
class _RegionState:
    """What is known of one region's slots. A slot that shows something else than it did is a new one.

    Attributes:
        settled: Slots as they were when there was last nothing to do.
        until: When there is something to do if they stay so.
        named: Slots that were found right.
        missed: Slots that could not be proven, with when to try again, and the pause until then.
    """

    settled: list[Shown] = field(default_factory=list)
    until: float = float("inf")
    named: set[Shown] = field(default_factory=set)
    missed: dict[Shown, tuple[float, float]] = field(default_factory=dict)

    def unsettled(self, slots: list[Shown], now: float) -> list[Shown]:
        """Slots to look into now. Those no longer in use are forgotten."""
        if now < self.until and slots == self.settled:
            return []
        self.named.intersection_update(slots)
        self.missed = {slot: self.missed[slot] for slot in slots if slot in self.missed}
        wanted = [s for s in slots if s not in self.named and (s not in self.missed or self.missed[s][0] <= now)]
        if not wanted:
            self.settled, self.until = slots, min((due for due, _ in self.missed.values()), default=float("inf"))
        return wanted

    def miss(self, slot: Shown, now: float) -> None:
        """Wait twice as long as the last time."""
        pause = min(self.missed[slot][1] * 2, _LAST_DELAY_S) if slot in self.missed else _FIRST_DELAY_S
        self.missed[slot] = (now + pause, pause)


class HostPids:
    """Writes the host's pids into regions.

    Args:
        proc: The host's /proc.
        clock: Monotonic seconds.
    """

    def __init__(self, proc: Path, clock: Callable[[], float]) -> None:
        self._proc = proc
        self._clock = clock
        self._sees_host: bool | None = None
        self._regions: dict[str, _RegionState] = {}

    def keep(self, names: Collection[str]) -> None:
        """Forget all other regions."""
        self._regions = {name: state for name, state in self._regions.items() if name in names}

    def named(self, name: str) -> frozenset[int]:
        """What the host calls the processes of one region, as far as they are named."""
        state = self._regions.get(name)
        return frozenset(slot.host_pid for slot in state.named.copy()) if state else frozenset()

    def look(self, name: str, fd: int, among: int) -> None:
        """Name the processes of one region that are not named yet.

        Args:
            name: Its record id.
            fd: The region, open for writing.
            among: How many regions are looked at now; they share what may be done at one time.

        Raises:
            OSError: It can't be read or written.
        """
        if not self._is_on_host():
            return
        state, now = self._regions.setdefault(name, _RegionState()), self._clock()
        wanted = state.unsettled(region.shown(fd), now)[: max(SLOTS_PER_LOOK // max(among, 1), MIN_SLOTS_PER_REGION)]
        if not wanted:
            return
        named = self._name(fd, wanted)
        state.named |= named
        done = {slot.slot for slot in named}
        for slot in wanted:
            if slot.slot not in done:
                state.miss(slot, now)

    def _name(self, fd: int, wanted: Iterable[Shown]) -> set[Shown]:
        """Those that could be named, as they are now."""
        written = {found.slot: found.host_pid for found in wanted}
        claims = [claim for slot in written if (claim := region.claim(fd, slot)) is not None]
        pids = {claim.slot: region.holder(fd, claim.slot) for claim in claims}
        known = {pid: identity(self._proc, pid) for pid in set(pids.values()) if pid is not None}
        holders = {slot: who for slot, pid in pids.items() if pid is not None and (who := known[pid]) is not None}
        return {
            region.Shown(claim.slot, claim.pid, pid)
            for claim, pid in match(claims, holders)
            if written[claim.slot] == pid or _write(fd, claim, pid)
        }

    def _is_on_host(self) -> bool:
        if self._sees_host is None:
            mine = ""
            with contextlib.suppress(OSError):
                mine = str((self._proc / "self/ns/pid").readlink())
            self._sees_host = mine == HOSTS_NAMESPACE
            if not self._sees_host:
                log.info(
                    "containers are not told the host's pids of their processes: the agent has a pid namespace of its "
                    "own (hostPID); only drivers that know no pid namespaces need them",
                    namespace=mine,
                )
        return self._sees_host


def _write(fd: int, claim: Claim, pid: int) -> bool:
    """Write one pid, unless the slot has changed hands; taken back if it does so meanwhile."""
    if region.holder(fd, claim.slot) != pid or region.claim(fd, claim.slot) != claim:
        return False
    offset, data = region.host_pid(claim.slot, pid)
    os.pwrite(fd, data, offset)
    if region.claim(fd, claim.slot) == claim:
        return True
    os.pwrite(fd, region.host_pid(claim.slot, 0)[1], offset)
    return False
