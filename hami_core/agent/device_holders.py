"""Finds the pods whose promises occupy this node's cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from hami_core.agent.judge import Claim
from hami_core.agent.kubelet import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.agent.authority import Authority
    from hami_core.agent.identity import Entry
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import Record

log = structlog.get_logger(__name__)

FORCE_DELETED_HOLD_S: Final = 30.0
"""How long a pod that is missing from the API server still occupies its cards.

After a forced deletion (``kubectl delete --force``) its containers may still run.
"""


class DeviceHolders:
    """The pods that hold devices. Remembers since when a pod with records has been missing.

    Args:
        records: The live mapping of records by name.
        pods: This node's pods.
        authority: Reads and verifies allocations.
        name_of: Returns the fresh name in a checkpoint entry, or None.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        records: Mapping[str, Record],
        pods: PodIndex,
        authority: Authority,
        name_of: Callable[[Entry], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._pods = pods
        self._authority = authority
        self._name_of = name_of
        self._clock = clock
        self._ended: set[str] = set()
        self._absent_since: dict[str, float] = {}
        self._adopted: dict[str, Claim] = {}
        self._reported_unreadable: set[str] = set()

    def update(self, entries: Sequence[Entry]) -> None:
        """Update from the current checkpoint and pods."""
        self._update_ended()
        self._update_adopted(entries)

    @property
    def adopted(self) -> Sequence[Claim]:
        """The claims of pods that another device plugin served before the migration."""
        return tuple(self._adopted.values())

    def claims(self) -> list[Claim]:
        """The claims that occupy cards: those of pods with a record that have not ended, and of adopted pods.

        The checkpoint alone is no evidence: it lists a deleted pod until the kubelet admits another one.
        """
        found = dict(self._adopted)
        for record in self._records.values():
            if self.is_over(record.pod_uid):
                continue
            label = f"{record.namespace}/{record.pod}"
            found[record.pod_uid] = Claim(record.pod_uid, label, record.pod_slices, record.epoch, record.signature)
        return list(found.values())

    def is_over(self, pod_uid: str) -> bool:
        """Whether a pod with records has ended, or has been missing for so long that its containers have, too."""
        now = self._clock()
        return pod_uid in self._ended or now - self._absent_since.get(pod_uid, now) > FORCE_DELETED_HOLD_S

    def _update_ended(self) -> None:
        """Record which pods with records have ended, and since when others have been missing."""
        uids = {record.pod_uid for record in self._records.values()}
        self._ended = {uid for uid in uids if uid in self._ended or uid in self._pods.ended}
        self._absent_since = {uid: since for uid, since in self._absent_since.items() if uid in uids}
        for uid in uids if self._pods.synced else ():
            if self._pods.get(uid) is None:
                self._absent_since.setdefault(uid, self._clock())
            else:
                self._absent_since.pop(uid, None)

    def _update_adopted(self, entries: Sequence[Entry]) -> None:
        """Find the claims of pods that another device plugin served before the migration. They have no records."""
        found: dict[str, Claim] = {}
        for entry in entries:
            pod = self._pods.get(entry.pod_uid)
            if pod is None or pod.is_terminal or pod.uid in found or self._name_of(entry) is not None:
                continue
            if not self._authority.adopted(pod):
                continue
            try:
                found[pod.uid] = self._authority.claim(pod)
            except Refused as refusal:
                if pod.uid not in self._reported_unreadable:
                    log.warning("the allocation of an adopted pod can't be read", pod=pod.key, error=str(refusal))
                self._reported_unreadable.add(pod.uid)
        self._adopted = found
