"""That CDI works is proven, not assumed: a container whose spec was applied has the spec's mark mounted.

A runtime with CDI switched off may drop CDI names without a word; the container then starts without its devices and
limits. The agent itself puts a mark into every spec, an empty file of the record, whatever the vendor answers. Where
the processes of a container can be seen (the agent in the node's process namespace), their mount tables tell.
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
    """Looks at the processes of containers that run, until each container is judged.

    Args:
        proc: The node's ``/proc`` as seen from here.
        expected_mount: End of the host path that a record's container must have mounted; empty: none is known.
        proven: Containers that have their mount, or need none, by runtime id.
        missing: Records of containers that lack it, by runtime id.
    """

    proc: Path
    expected_mount: Callable[[Record], str]
    proven: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)

    def find_unlimited(self, running: Iterable[tuple[Record, str]]) -> list[Record]:
        """Check containers not checked yet.

        Args:
            running: Records and the runtime ids of their running containers. A container has one record for each
                resource, and one is looked at: the runtime serves CDI for all of them or for none.

        Returns:
            Records of containers found without their mount. Containers whose processes can't be seen are left out.
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
        """The processes of each container, found by their control groups."""
        found: dict[str, list[int]] = {cid: [] for cid in ids}
        for entry in self.proc.iterdir():
            if not entry.name.isdigit():
                continue
            for cid in _ID.findall(self._read(int(entry.name), "cgroup")):
                if cid in found:
                    found[cid].append(int(entry.name))
        return found

    def _has_mount(self, pid: int, proof: str) -> bool | None:
        """Whether a process sees the mount; None where its mount table says nothing of its container.

        A table is the container's only if it shows what is mounted at ``/``, which one of a process that changed its
        root does not. It changes between two reads while the runtime sets a process up.
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
    """The runtime's id of a running container, without its scheme; empty when it does not run."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name == container and status.state.running is not None:
            return status.container_id.rpartition("//")[2]
    return ""
