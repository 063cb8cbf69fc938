"""Which pods' promises take room on this node's cards."""

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
"""How long a pod deleted by force keeps what it holds while the kubelet still lists it: its containers may run yet."""


class DeviceHolders:
    """Pods that hold something, and since when those that are gone have been gone.

    Args:
        records: Records by name, as they are now.
        pods: This node's pods.
        authority: Whose allocations count.
        name_of: The name of ours that a checkpoint entry carries, or None.
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
        """Take in the checkpoint and the pods as they are now."""
        self._update_ended()
        self._update_adopted(entries)

    def claims(self) -> list[Claim]:
        """The claims that hold: of every pod with a record, unless it has ended for good, and of adopted pods.

        The kubelet's checkpoint lists a pod that is gone until some other pod is admitted, so that alone holds nothing.
        """
        found = dict(self._adopted)
        now = self._clock()
        for record in self._records.values():
            if (
                record.pod_uid in self._ended
                or now - self._absent_since.get(record.pod_uid, now) > FORCE_DELETED_HOLD_S
            ):
                continue
            label = f"{record.namespace}/{record.pod}"
            found[record.pod_uid] = Claim(record.pod_uid, label, record.pod_slices, record.epoch, record.signature)
        return list(found.values())

    def _update_ended(self) -> None:
        """Note which pods with records have ended, and since when others are not there any more."""
        uids = {record.pod_uid for record in self._records.values()}
        self._ended = {uid for uid in uids if uid in self._ended or uid in self._pods.ended}
        self._absent_since = {uid: since for uid, since in self._absent_since.items() if uid in uids}
        for uid in uids if self._pods.synced else ():
            if self._pods.get(uid) is None:
                self._absent_since.setdefault(uid, self._clock())
            else:
                self._absent_since.pop(uid, None)

    def _update_adopted(self, entries: Sequence[Entry]) -> None:
        """Note what pods hold that another device plugin served before the migration: they have no records."""
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
                    log.warning("what a pod of before the migration holds is unknown", pod=pod.key, error=str(refusal))
                self._reported_unreadable.add(pod.uid)
        self._adopted = found
