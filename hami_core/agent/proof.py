"""That CDI works is proven, not assumed: a container that was given limits must have them mounted.

A runtime with CDI switched off may drop CDI names without a word; the container then starts without its devices and
limits. Where the processes of a container can be seen (the agent in the node's process namespace), their mount table
tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hami_core.agent.records import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hami_core.agent.records import Record
    from hami_core.kube.objects import Pod

_ID: Final = re.compile(r"[0-9a-f]{64}")
_SCOPE: Final = 1 << 20


@dataclass(slots=True)
class Prover:
    """Looks at the processes of containers that run, once each.

    Args:
        proc: The node's ``/proc`` as seen from here.
        proven: Containers that have their mount, by runtime id.
        missing: Records of containers that lack it, by runtime id.
    """

    proc: Path
    proven: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)

    def look(self, running: Iterable[tuple[Record, str]]) -> list[Record]:
        """Check containers not checked yet.

        Args:
            running: Records and the runtime ids of their running containers.

        Returns:
            Records of containers found without their limits. Containers whose processes can't be seen are left out.
        """
        wanted = {cid: r for r, cid in running if cid and not r.whole and not r.gone}
        self.proven &= wanted.keys()
        self.missing = {cid: name for cid, name in self.missing.items() if cid in wanted}
        unsure = {cid: r for cid, r in wanted.items() if cid not in self.proven and cid not in self.missing}
        if not unsure:
            return []
        found: list[Record] = []
        for cid, pid in self._processes(set(unsure)).items():
            mounts = self._read(pid, "mountinfo")
            if not mounts:
                continue
            record = unsure[cid]
            if _has_mount(mounts, record):
                self.proven.add(cid)
            elif self._read(pid, "mountinfo") == mounts:  # the same process still, not one just being set up
                self.missing[cid] = record.id
                found.append(record)
        return found

    def _processes(self, ids: set[str]) -> dict[str, int]:
        """One process of each container, found by its control group."""
        found: dict[str, int] = {}
        for entry in self.proc.iterdir():
            if not entry.name.isdigit():
                continue
            for cid in _ID.findall(self._read(int(entry.name), "cgroup")):
                if cid in ids:
                    found.setdefault(cid, int(entry.name))
            if len(found) == len(ids):
                break
        return found

    def _read(self, pid: int, name: str) -> str:
        try:
            with (self.proc / str(pid) / name).open() as file:
                return file.read(_SCOPE)
        except OSError:
            return ""


def _has_mount(mountinfo: str, record: Record) -> bool:
    """Whether a mount's root is the record's limits folder (fourth field; a deleted one carries a mark)."""
    folder = f"/{record.name}/{LIMITS}" if record.serial else f"/{record.id}/{LIMITS}"
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[3].removesuffix("//deleted").endswith(folder):
            return True
    return False


def container_id(pod: Pod, container: str) -> str:
    """The runtime's id of a running container, without its scheme; empty when it does not run."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name == container and status.state.running is not None:
            return status.container_id.rpartition("//")[2]
    return ""
