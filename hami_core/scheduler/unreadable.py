"""Live pods of which it is not known what devices they hold, and the families of their nodes that this closes.

What a pod runs with takes room whatever its annotations say. Where they can't be read, nobody knows which cards it
takes room on. So its node gives no new pod devices of the families concerned, until the annotation can be read or the
pod ends. `hami_core.scheduler.cluster` owns the one instance and writes the reasons to the inventory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_PROBLEM: Final = 200
"""Characters of a problem that are shown: it may quote what a tenant wrote."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """One pod.

    Attributes:
        key: ``namespace/name``.
        node: Where it runs.
        problems: Common word → why it is not known what the pod holds of that family; never empty.
    """

    key: str
    node: str
    problems: Mapping[str, str]


class UnreadablePods:
    """All of them, by node and by UID; a pod that can't be decoded stands under its name in place of the UID."""

    def __init__(self) -> None:
        self._pods: dict[str, UnreadablePod] = {}
        self._on: dict[str, dict[str, UnreadablePod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> UnreadablePod | None:
        """The pod with this UID; None: what it holds is known."""
        return self._pods.get(uid)

    def put(self, uid: str, pod: UnreadablePod) -> None:
        """Add a pod, or say anew what is wrong with it."""
        self.drop(uid)
        self._pods[uid] = pod
        self._on.setdefault(pod.node, {})[uid] = pod

    def drop(self, uid: str) -> UnreadablePod | None:
        """Take a pod out and return it; None: it was not in."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            here = self._on[pod.node]
            del here[uid]
            if not here:
                del self._on[pod.node]
        return pod

    def uids(self) -> list[str]:
        """UIDs of all of them."""
        return list(self._pods)

    def nodes(self) -> Iterator[str]:
        """Nodes with such pods."""
        yield from self._on

    def on(self, node: str) -> list[str]:
        """UIDs of such pods on a node."""
        return list(self._on.get(node, ()))

    def reasons(self, node: str) -> dict[str, str]:
        """Common word → why the node gives no new pod devices of that family; empty: no such pod is there."""
        found: dict[str, list[UnreadablePod]] = {}
        for pod in self._on.get(node, {}).values():
            for word in pod.problems:
                found.setdefault(word, []).append(pod)
        return {word: _reason(word, pods) for word, pods in found.items()}


def _reason(word: str, pods: list[UnreadablePod]) -> str:
    first = pods[0]
    more = f" and of {len(pods) - 1} more" if len(pods) > 1 else ""
    return (
        f"the node is closed to new {word} pods: the allocation of {first.key}{more} can't be read"
        f" ({shown(first.problems[word])}); delete that pod or restore its annotation"
    )


def shown(problem: str) -> str:
    """A problem as it is shown to people."""
    return problem if len(problem) <= MAX_PROBLEM else problem[:MAX_PROBLEM] + "…"
