"""Placement policies: how nodes are ranked, and which devices of a node are tried first.

A policy is one object in one of the two tables below. Placement, the cluster's columns, settings, error texts, the
chart and the documentation take its word, its ranking and its help from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Value(Protocol):
    """A number, or a NumPy array of numbers: one expression ranks one device, and all devices of the cluster."""

    def __neg__(self) -> Value: ...
    def __abs__(self) -> Value: ...
    def __add__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - NumPy takes more than Python
    def __sub__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - as above
    def __truediv__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - as above


class Rated(Protocol):
    """What a device policy may look at: one device, or all devices of the cluster in columns.

    Columns hold 32-bit numbers, so a sum must stay below 2³¹, and arithmetic on ``score`` must be exact in float32.
    """

    @property
    def score(self) -> Value:
        """Device score with this container's share: 0 is idle, more is fuller."""

    @property
    def numa(self) -> Value:
        """NUMA node."""

    @property
    def used_slots(self) -> Value:
        """Slots in use."""

    @property
    def used_memory(self) -> Value:
        """MiB in use."""

    @property
    def used_cores(self) -> Value:
        """Percent in use."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """How nodes that fit are ranked.

    Attributes:
        word: As pods and settings name it.
        help: Which node comes first; half a sentence for the documentation.
        rank: From the node's score (0 is idle) to its rank. The node of greatest rank is best; of equals, the one of
            the smaller name.
    """

    word: str
    help: str
    rank: Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """Which devices of a node are tried first.

    Attributes:
        word: As pods and settings name it.
        help: Which device comes first; half a sentence for the documentation.
        rank: The device of greatest rank is tried first; of equals, the one of the higher NUMA node, then of the
            higher index.
        in_chains: Ranks in a chain such as ``numa,binpack`` too.
        idle_only: A device that any pod uses is refused. Counts in a chain too.
        lowest_numa_first: With NUMA binding, start at the lowest NUMA node instead of the highest.
    """

    word: str
    help: str
    rank: Callable[[Rated], Value]
    in_chains: bool = True
    idle_only: bool = False
    lowest_numa_first: bool = False


NODE_POLICIES: Final = {
    policy.word: policy
    for policy in (
        NodePolicy("binpack", "the greatest score", lambda score: score),
        NodePolicy("spread", "the smallest score", lambda score: -score),
    )
}
"""Node policies by word."""

DEVICE_POLICIES: Final = {
    policy.word: policy
    for policy in (
        DevicePolicy("binpack", "the greatest score", lambda card: card.score, lowest_numa_first=True),
        DevicePolicy("spread", "the smallest score", lambda card: -card.score),
        DevicePolicy("mutex", "idle devices only", lambda card: -card.used_slots, in_chains=False, idle_only=True),
        DevicePolicy(
            "topology-aware",
            "as `spread`, then the vendor chooses the best-linked among all that fit",
            lambda card: -card.score,
            in_chains=False,
        ),
        DevicePolicy("numa", "the highest NUMA node", lambda card: card.numa),
    )
}
"""Device policies by word; several may stand in a comma list."""

DEFAULT_NODE_POLICY: Final = "binpack"
"""Counts where nobody names a node policy, and in place of a word that is none."""
DEFAULT_DEVICE_POLICY: Final = "spread"
"""Counts where nobody names a device policy, and in place of a word that is none."""


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """Policies of pods that name none (HAMi's flags ``--node-scheduler-policy`` and ``--gpu-scheduler-policy``)."""

    node_policy: str = DEFAULT_NODE_POLICY
    device_policy: str = DEFAULT_DEVICE_POLICY


def node_policy(word: str) -> NodePolicy:
    """The node policy of a word; one that is unknown stands for `DEFAULT_NODE_POLICY`, as in HAMi."""
    return NODE_POLICIES.get(word) or NODE_POLICIES[DEFAULT_NODE_POLICY]
