"""Keeps the fresh names that Allocate answered until the checkpoint says which container got each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.agent import cdi

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from hami_core.agent.counters import Counters
    from hami_core.agent.identity import Entry
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.records import Record
    from hami_core.agent.serial import SerialFolders
    from hami_core.agent.vendor import Vendor

NUDGE_AFTER_S: Final = 1.0
"""If the checkpoint lacks a given name for this long, the agent makes the kubelet write it again."""
FORGET_AFTER_S: Final = 120.0
"""After this time a name is given up: the kubelet did not admit the pod."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A given name's resource, when it was given, and when the next nudge is due (monotonic seconds)."""

    resource: str
    at: float
    nudge_due: float


class GivenNames:
    """Names that the checkpoint lacks. Nudges the kubelet for them, and gives up those that no container got.

    Args:
        vendors: Vendor by resource.
        folders: The folders that Allocate mounts in serial mode.
        pods: This node's pods.
        nudge: Makes the kubelet write its checkpoint, by sending the slots of this resource again.
        forgotten: Called with a name that the checkpoint has, or never will have.
        counters: Counts nudges and lost names.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        vendors: Mapping[str, Vendor],
        folders: SerialFolders,
        pods: PodIndex,
        nudge: Callable[[str], None],
        forgotten: Callable[[str], None],
        counters: Counters,
        clock: Callable[[], float],
    ) -> None:
        self._vendors = vendors
        self._folders = folders
        self._pods = pods
        self._nudge = nudge
        self._forgotten = forgotten
        self._counters = counters
        self._clock = clock
        self._given: dict[str, _Given] = {}

    def __bool__(self) -> bool:
        return bool(self._given)

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def give(self, resource: str) -> str:
        """Return a fresh name."""
        name = cdi.fresh_name()
        self._remember(name, resource)
        return name

    def of(self, entry: Entry) -> str | None:
        """The fresh name in a checkpoint entry, from its CDI name or its limits mount; None if it has none."""
        return cdi.own_name(self._vendors[entry.resource].kind, entry.names) or self._folders.name_of(entry)

    def compare(self, named: AbstractSet[str | None], records: Mapping[str, Record], ready: AbstractSet[str]) -> None:
        """Compare given names with the checkpoint. Nudge the kubelet for missing ones, and give up old ones.

        The kubelet may write an older copy of the checkpoint last, so a name can disappear from it again.

        Args:
            named: Names in the checkpoint.
            records: Records by name.
            ready: Names with a spec.
        """
        for name in self._given.keys() & named:
            self._forget(str(name))
        for name in ready - named - self._given.keys():
            record = records.get(name)
            pod = record and self._pods.get(record.pod_uid)
            if record and pod and not pod.is_terminal and not pod.is_deleting:
                self._remember(name, record.resource)
        now = self._clock()
        late = set()
        for name, given in list(self._given.items()):
            if now - given.at > FORGET_AFTER_S:
                self._forget(name)
                self._counters.lost_names += name not in records
            elif now >= given.nudge_due:
                self._given[name] = _Given(given.resource, given.at, now + 2 * (given.nudge_due - given.at))
                late.add(given.resource)
        for resource in late:
            self._counters.nudges += 1
            self._nudge(resource)

    def _remember(self, name: str, resource: str) -> None:
        now = self._clock()
        self._given[name] = _Given(resource, now, now + NUDGE_AFTER_S)

    def _forget(self, name: str) -> None:
        del self._given[name]
        self._forgotten(name)
