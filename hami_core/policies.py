"""Placement policies: how nodes are ranked, and which devices of a node are tried first.

A policy is one object in one of the two tables below. Placement, settings, error texts, the chart and the documentation
take its word, rank and help from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Value(Protocol):
    """A number or a NumPy array of numbers. So one expression can rank one device or all devices of the cluster."""

    def __neg__(self) -> Value: ...
    def __abs__(self) -> Value: ...
    def __add__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - NumPy takes more than Python
    def __sub__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - as above
    def __truediv__(self, other: Any, /) -> Value: ...  # noqa: ANN401 - as above


class Rated(Protocol):
    """The values that a device policy may use, of one device or of all devices of the cluster in columns.

    Columns hold 32-bit numbers. So a sum must stay below 2³¹, and arithmetic on ``score`` must be exact in float32.
    """

    @property
    def score(self) -> Value:
        """Device score including this container's request. An idle device has a low score, a full one a high score."""

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
        word: Its name in pods and settings.
        help: Which node comes first; half a sentence for the documentation.
        rank: Node score (0 is idle) → rank. The node with the greatest rank is best. Of equals, the smaller name wins.
            Where the score differs by 1, the rank differs by at most 1: `Family.score_bound` needs that.
    """

    word: str
    help: str
    rank: Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """Which devices of a node are tried first.

    Attributes:
        word: Its name in pods and settings.
        help: Which device comes first; half a sentence for the documentation.
        rank: The device with the greatest rank is tried first. Of equals, the one with the higher NUMA node comes
            first, then the one with the higher index.
        in_chains: Whether it ranks in a chain such as ``numa,binpack`` too.
        idle_only: Whether a device that any pod uses is refused. This applies in a chain too. With
            `PolicyDefaults.keep_idle_only`, later pods are kept off the device.
        lowest_numa_first: Whether a request with NUMA binding starts at the lowest NUMA node instead of the highest.
            Of NUMA nodes that a policy ranks equal, the first in this order is taken.
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
"""Device policies by word. A pod may name several in a comma list."""

DEFAULT_NODE_POLICY: Final = "binpack"
"""Used if neither pod nor settings name a node policy, and in place of an unknown word."""
DEFAULT_DEVICE_POLICY: Final = "spread"
"""Used if neither pod nor settings name a device policy, and in place of an unknown word."""


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """What the administrator says about policies.

    Attributes:
        node_policy: Node policy of pods that name none (HAMi's flag ``--node-scheduler-policy``).
        device_policy: Device policy of pods that name none (HAMi's flag ``--gpu-scheduler-policy``).
        keep_idle_only: Whether a pod that takes idle devices only (`mutex`) also keeps later pods off them.
    """

    node_policy: str = DEFAULT_NODE_POLICY
    device_policy: str = DEFAULT_DEVICE_POLICY
    keep_idle_only: bool = False


def node_policy(word: str) -> NodePolicy:
    """The node policy of a word. An unknown word stands for `DEFAULT_NODE_POLICY`, as in HAMi."""
    return NODE_POLICIES.get(word) or NODE_POLICIES[DEFAULT_NODE_POLICY]
