"""Writes the host pids of a container's processes into its region, for drivers that know no pid namespaces.

NVML of such a driver reports host pids in every container, so a container's library can't recognise its own processes.
The agent sees both pids, and writes the host pid beside the inner pid. A process is *named* when that is done.

The agent names a process only on two proofs. The kernel says that the process holds the slot's lock in this file, and
/proc says that it has the slot's pid and start time. So it never confuses processes of two containers with equal inner
pids, nor a new process with an old one whose host pid it reuses.
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
"""The initial pid namespace, whose pids the driver reports (PROC_PID_INIT_INO of Linux)."""
SLOTS_PER_LOOK: Final = 256
"""Number of slots of all containers together that one heartbeat examines."""
MIN_SLOTS_PER_REGION: Final = 4
"""Number of slots of one container that a heartbeat examines at least, however many containers there are."""
_FIRST_DELAY_S: Final = 10.0
_LAST_DELAY_S: Final = 80.0
_START_FIELD: Final = 22 - 3  # field starttime of /proc/PID/stat, counted from the field state
_START_MASK: Final = (1 << 40) - 1  # a region stores the low 40 bits
_STATUS_BYTES: Final = 1 << 14  # a process with thousands of groups is not named
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Identity:
    """A process in the host's /proc.

    Attributes:
        pid: Pid on the host.
        inner_pid: Pid in its innermost pid namespace.
        start_time: Clock ticks since the boot, as many bits as a region stores.
    """

    pid: int
    inner_pid: int
    start_time: int


def match(claims: Iterable[Claim], holders: Mapping[int, Identity]) -> list[tuple[Claim, int]]:
    """The proven claims with their host pids. Pure.

    Args:
        claims: Claims to slots, as the region states them.
        holders: The process that holds each slot's lock, by slot.
    """
    proven = []
    for claim in claims:
        who = holders.get(claim.slot)
        if who is not None and (who.inner_pid, who.start_time) == (claim.pid, claim.start_time):
            proven.append((claim, who.pid))
    return proven


def identity(proc: Path, pid: int) -> Identity | None:
    """Read the identity of a process. None: it is gone, can't be seen, or `proc` belongs to another pid namespace."""
    try:
        folder = os.open(proc / str(pid), _FOLDER)  # the descriptor stays with this process even if its pid is reused
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
    """The pids of a process from the outermost namespace to the innermost.

    The first one is repeated, so that a process without inner namespaces also has two.
    """
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
    """What the agent knows of one region's slots. A slot whose content changed counts as a new slot.

    Attributes:
        settled: The slots at the last time when there was nothing to do.
        until: When there is something to do again, if the slots do not change.
        named: Slots whose process is named.
        missed: For each slot without proof, the time of the next attempt and the pause before it.
    """

    settled: list[Shown] = field(default_factory=list)
    until: float = float("inf")
    named: set[Shown] = field(default_factory=set)
    missed: dict[Shown, tuple[float, float]] = field(default_factory=dict)

    def unsettled(self, slots: list[Shown], now: float) -> list[Shown]:
        """The slots to examine now. Slots that are no longer in use are forgotten."""
        if now < self.until and slots == self.settled:
            return []
        self.named.intersection_update(slots)
        self.missed = {slot: self.missed[slot] for slot in slots if slot in self.missed}
        wanted = [s for s in slots if s not in self.named and (s not in self.missed or self.missed[s][0] <= now)]
        if not wanted:
            self.settled, self.until = slots, min((due for due, _ in self.missed.values()), default=float("inf"))
        return wanted

    def miss(self, slot: Shown, now: float) -> None:
        """Schedule the next attempt at a slot, with twice the last pause."""
        pause = min(self.missed[slot][1] * 2, _LAST_DELAY_S) if slot in self.missed else _FIRST_DELAY_S
        self.missed[slot] = (now + pause, pause)


class HostPids:
    """Writes host pids into regions.

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
        """Forget all regions except these."""
        self._regions = {name: state for name, state in self._regions.items() if name in names}

    def named(self, name: str) -> frozenset[int]:
        """The host pids of the named processes of one region."""
        state = self._regions.get(name)
        return frozenset(slot.host_pid for slot in state.named.copy()) if state else frozenset()

    def look(self, name: str, fd: int, among: int) -> None:
        """Name the processes of one region that are not named yet.

        Args:
            name: The region's record id.
            fd: The region, open for writing.
            among: Number of regions that are examined now. They share `SLOTS_PER_LOOK`.

        Raises:
            OSError: The region can't be read or written.
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
        """Name the processes of the slots if possible. Returns the slots of named processes as they are now."""
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
                    "containers do not get the host pids of their processes, since the agent has its own pid "
                    "namespace (hostPID is off); only drivers that know no pid namespaces need them",
                    namespace=mine,
                )
        return self._sees_host


def _write(fd: int, claim: Claim, pid: int) -> bool:
    """Write a host pid, unless the slot has another owner by now. If the owner changes meanwhile, erase it again."""
    if region.holder(fd, claim.slot) != pid or region.claim(fd, claim.slot) != claim:
        return False
    offset, data = region.host_pid(claim.slot, pid)
    os.pwrite(fd, data, offset)
    if region.claim(fd, claim.slot) == claim:
        return True
    os.pwrite(fd, region.host_pid(claim.slot, 0)[1], offset)
    return False
