"""The agents' availability labels: nodes whose agent is being replaced, or is not registered with the kubelet.

A pod that the kubelet admits while the device plugin is away fails for ever, and the kubelet publishes the plugin's
absence only seconds later. So an agent sets a label before it stops (`hami_core.wire.keys.agent_label`;
``kubectl get nodes -L`` shows it). The label needs no signature: it only keeps pods away and gives nobody a device.
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
"""After this time the reason no longer says that the agent is being replaced."""

_SOON: Final = {
    keys.AGENT_STOPPING: "the node's {} agent is being replaced",
    keys.AGENT_UNREGISTERED: "the node's {} agent is not registered with the kubelet yet",
}
_LATE: Final = {
    keys.AGENT_STOPPING: "the node's {} agent stopped and has not come back",
    keys.AGENT_UNREGISTERED: "the node's {} agent has not registered with the kubelet for minutes",
}


@dataclass(frozen=True, slots=True)
class _Label:
    """The availability label of one vendor's agent on a node, and when we first saw this value."""

    value: str
    since: float


class AgentAvailability:
    """Availability labels of all nodes, by node and vendor. Labels that keep no pods away are left out.

    Args:
        loaded: The vendors.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._words = {vendor.name: tuple(vendor.words) for vendor in loaded.vendors}
        self._keys = {vendor: keys.agent_label(vendor) for vendor in self._words}
        self._by_node: dict[str, dict[str, _Label]] = {}
        self._due: deque[tuple[float, str]] = deque()

    def see(self, node: str, labels: Mapping[str, str], now: float) -> Mapping[str, str]:
        """Take in a node's labels. Unknown values are ignored.

        Returns:
            Common word → why the node gives no devices of that family; empty: all agents are available.
        """
        known = self._by_node.pop(node, {})
        unavailable: dict[str, _Label] = {}
        for vendor, key in self._keys.items():
            value = labels.get(key, "")
            if value in _SOON:
                label = known.get(vendor)
                if label is None or label.value != value:
                    label = _Label(value, now)
                    self._due.append((now + LATE_S, node))
                unavailable[vendor] = label
        if unavailable:
            self._by_node[node] = unavailable
        return self.reasons(node, now)

    def forget(self, node: str) -> None:
        """The node is gone. Idempotent."""
        self._by_node.pop(node, None)

    def reasons(self, node: str, now: float) -> Mapping[str, str]:
        """Common word → why the node gives no devices of that family at this time."""
        return {
            word: (_LATE if now - label.since >= LATE_S else _SOON)[label.value].format(vendor)
            for vendor, label in self._by_node.get(node, {}).items()
            for word in self._words[vendor]
        }

    def late(self, now: float) -> Iterator[str]:
        """Nodes with an agent that passed `LATE_S` since the last call. Some of these agents may be back."""
        while self._due and self._due[0][0] <= now:
            _, node = self._due.popleft()
            yield node
