"""Nodes whose agent says that it gives no devices now: it is being replaced, or not registered with the kubelet.

The kubelet rejects for good a pod that it admits while the device plugin is away, and publishes that it is away seconds
later. So agents say it themselves, before they go, in a label (`hami_core.wire.keys.agent_label`), which `kubectl get
nodes -L` shows. It keeps pods away and gives nobody anything, so whoever may write nodes may set it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.plugins import Loaded

LATE_S: Final = 120.0
"""An agent that is away for so long is not just being replaced: the reason then says so."""

_SOON: Final = {
    keys.AGENT_STOPPING: "the node's {} agent is being replaced",
    keys.AGENT_UNREGISTERED: "the node's {} agent is not registered with the kubelet yet",
}
_LATE: Final = {
    keys.AGENT_STOPPING: "the node's {} agent stopped and has not come back",
    keys.AGENT_UNREGISTERED: "the node's {} agent has not registered with the kubelet for minutes",
}


@dataclass(frozen=True, slots=True)
class _Mark:
    """What one vendor's agent says on a node, and since when we know."""

    value: str
    since: float


class AgentAvailability:
    """Marks of all nodes, by node and vendor.

    Args:
        loaded: The vendors.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._words = {vendor.name: tuple(vendor.words) for vendor in loaded.vendors}
        self._labels = {vendor: keys.agent_label(vendor) for vendor in self._words}
        self._marks: dict[str, dict[str, _Mark]] = {}
        self._due: deque[tuple[float, str]] = deque()

    def see(self, node: str, labels: Mapping[str, str], now: float) -> Mapping[str, str]:
        """Take in a node's labels. Values we do not know mean nothing.

        Returns:
            Common word → why the node gives nothing of that family; empty: all of its agents are there.
        """
        known = self._marks.pop(node, {})
        marks: dict[str, _Mark] = {}
        for vendor, label in self._labels.items():
            value = labels.get(label, "")
            if value in _SOON:
                mark = known.get(vendor)
                if mark is None or mark.value != value:
                    mark = _Mark(value, now)
                    self._due.append((now + LATE_S, node))
                marks[vendor] = mark
        if marks:
            self._marks[node] = marks
        return self.reasons(node, now)

    def forget(self, node: str) -> None:
        """The node is gone. Idempotent."""
        self._marks.pop(node, None)

    def reasons(self, node: str, now: float) -> Mapping[str, str]:
        """Common word → why the node gives nothing of that family at this time."""
        return {
            word: (_LATE if now - mark.since >= LATE_S else _SOON)[mark.value].format(vendor)
            for vendor, mark in self._marks.get(node, {}).items()
            for word in self._words[vendor]
        }

    def late(self, now: float) -> Iterator[str]:
        """Nodes of which an agent has been away for long since the last call; some may be back."""
        while self._due and self._due[0][0] <= now:
            _, node = self._due.popleft()
            yield node
