"""Checks that the runtime applied a container's CDI spec, by looking for a mount that every spec has.

A runtime with CDI switched off may silently drop CDI names; the container then starts without its devices and limits.
The agent therefore adds one mount to every spec: the empty file ``mark`` of the record. If the agent runs in the
node's process namespace, it finds that mount in the mount tables of the container's processes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hami_core.agent.records import Record
    from hami_core.kube.objects import Pod

_ID: Final = re.compile(r"[0-9a-f]{64}")
_READ_LIMIT: Final = 1 << 20


@dataclass(slots=True)
class CdiCheck:
    """Inspects the processes of running containers until it has a verdict on each container.

    Args:
        proc: The node's ``/proc`` as the agent sees it.
        expected_mount: Returns the end of the host path that a record's container must have mounted; empty: the
            container needs no mount.
        proven: Runtime ids of containers that have their mount, or need none.
        missing: Record ids of containers without their mount, by runtime id.
    """

    proc: Path
    expected_mount: Callable[[Record], str]
    proven: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)

    def find_unlimited(self, running: Iterable[tuple[Record, str]]) -> list[Record]:
        """Check the containers that have no verdict yet.

        Args:
            running: Records and the runtime ids of their running containers. A container has one record for each
                resource. One of them is checked, since the runtime applies all CDI names or none.

        Returns:
            Records of containers without their mount. Containers whose processes the agent can't see are left out.
        """
        wanted = {cid: r for r, cid in running if cid and not r.gone}
        self.proven &= wanted.keys()
        self.missing = {cid: name for cid, name in self.missing.items() if cid in wanted}
        proofs = {
            cid: self.expected_mount(r)
            for cid, r in wanted.items()
            if cid not in self.proven and cid not in self.missing
        }
        self.proven |= {cid for cid, proof in proofs.items() if not proof}
        unsure = {cid: proof for cid, proof in proofs.items() if proof}
        if not unsure:
            return []
        found: list[Record] = []
        for cid, pids in self._pids_of(unsure.keys()).items():
            seen = [self._has_mount(pid, unsure[cid]) for pid in pids]
            if True in seen:
                self.proven.add(cid)
            elif False in seen:
                self.missing[cid] = wanted[cid].id
                found.append(wanted[cid])
        return found

    def _pids_of(self, ids: Iterable[str]) -> dict[str, list[int]]:
        """The pids of each container's processes, found by their control groups."""
        found: dict[str, list[int]] = {cid: [] for cid in ids}
        for entry in self.proc.iterdir():
            if not entry.name.isdigit():
                continue
            for cid in _ID.findall(self._read(int(entry.name), "cgroup")):
                if cid in found:
                    found[cid].append(int(entry.name))
        return found

    def _has_mount(self, pid: int, proof: str) -> bool | None:
        """Whether a process has the mount; None if its mount table is no evidence.

        A table without an entry for ``/`` belongs to a process that changed its root. A table that differs between two
        reads belongs to a process that the runtime is still setting up.
        """
        table = self._read(pid, "mountinfo")
        mounts = [fields for line in table.splitlines() if len(fields := line.split(" ")) > 4]
        if any(fields[3].removesuffix("//deleted").endswith(proof) for fields in mounts):
            return True
        if not any(fields[4] == "/" for fields in mounts) or self._read(pid, "mountinfo") != table:
            return None
        return False

    def _read(self, pid: int, name: str) -> str:
        try:
            with (self.proc / str(pid) / name).open(errors="replace") as file:
                return file.read(_READ_LIMIT)
        except OSError:
            return ""


def container_id(pod: Pod, container: str) -> str:
    """The runtime's id of a running container, without its scheme; empty if the container does not run."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name == container and status.state.running is not None:
            return status.container_id.rpartition("//")[2]
    return ""
