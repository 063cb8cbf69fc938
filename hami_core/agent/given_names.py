"""The names that Allocate gave, from then until the kubelet's checkpoint says which container each was given to."""

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
"""A name Allocate gave that the checkpoint lacks for so long: the kubelet is made to write it again."""
FORGET_AFTER_S: Final = 120.0
"""The kubelet did not admit the pod this name was for."""


@dataclass(frozen=True, slots=True)
class _Given:
    """When a name was given, and when the kubelet is nudged next (monotonic seconds)."""

    resource: str
    at: float
    nudge_due: float


class GivenNames:
    """Names that the checkpoint lacks; the kubelet is nudged for them, and those of no container are forgotten.

    Args:
        vendors: Vendor by resource.
        folders: Where limits are mounted from in serial mode.
        pods: This node's pods.
        nudge: Makes the kubelet write its checkpoint, for a resource.
        forgotten: Called with a name that the checkpoint has, or never will have.
        counters: Nudges and lost names are counted here.
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
        """A fresh name."""
        name = cdi.fresh_name()
        self._remember(name, resource)
        return name

    def of(self, entry: Entry) -> str | None:
        """The name a checkpoint entry carries, by CDI or by its limits mount; None: none of ours."""
        return cdi.own_name(self._vendors[entry.resource].kind, entry.names) or self._folders.name_of(entry)

    def compare(self, named: AbstractSet[str | None], records: Mapping[str, Record], ready: AbstractSet[str]) -> None:
        """Take in what the checkpoint names: make the kubelet write it again for names it lacks, later give them up.

        The kubelet may land an older copy last, so a name that was there can be missing again.

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
