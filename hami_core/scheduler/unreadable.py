"""Live pods whose devices are unknown, and the families that are closed on their nodes because of that.

A running pod takes room on cards even if its annotations can't be read, and then we don't know on which cards. So its
node gives no new pod devices of these families until the annotation can be read or the pod ends.
`hami_core.scheduler.cluster` owns the one instance and writes the reasons to the inventory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_PROBLEM: Final = 200
"""Most characters of a problem that are shown, since it may quote a tenant's text."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """One pod.

    Attributes:
        key: ``namespace/name``.
        node: The node it runs on.
        problems: Common word → why the pod's devices of that family are unknown; never empty.
    """

    key: str
    node: str
    problems: Mapping[str, str]


class UnreadablePods:
    """All unreadable pods, by node and by UID. A pod that can't be decoded has its name in place of the UID."""

    def __init__(self) -> None:
        self._pods: dict[str, UnreadablePod] = {}
        self._on: dict[str, dict[str, UnreadablePod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> UnreadablePod | None:
        """The unreadable pod with this UID; None: there is none."""
        return self._pods.get(uid)

    def put(self, uid: str, pod: UnreadablePod) -> None:
        """Add a pod, or replace its problems."""
        self.drop(uid)
        self._pods[uid] = pod
        self._on.setdefault(pod.node, {})[uid] = pod

    def drop(self, uid: str) -> UnreadablePod | None:
        """Remove a pod and return it; None: there was none."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            here = self._on[pod.node]
            del here[uid]
            if not here:
                del self._on[pod.node]
        return pod

    def uids(self) -> list[str]:
        """UIDs of all unreadable pods."""
        return list(self._pods)

    def nodes(self) -> Iterator[str]:
        """Nodes with unreadable pods."""
        yield from self._on

    def on(self, node: str) -> list[str]:
        """UIDs of the unreadable pods on a node."""
        return list(self._on.get(node, ()))

    def reasons(self, node: str) -> dict[str, str]:
        """Common word → why the node gives no new pod devices of that family; empty: it has no unreadable pod."""
        found: dict[str, list[str]] = {}
        for uid, pod in self._on.get(node, {}).items():
            for word in pod.problems:
                found.setdefault(word, []).append(uid)
        return {word: self._reason(word, uids) for word, uids in found.items()}

    def _reason(self, word: str, uids: list[str]) -> str:
        """Refusals go to users, who may not know the pod. So they have its UID; its own event and the log name it."""
        first = self._pods[uids[0]]
        which = f"pod {uids[0]}" if uids[0] != first.key else "a pod that can't be decoded"
        more = f" and of {len(uids) - 1} more" if len(uids) > 1 else ""
        return (
            f"the node is closed to new {word} pods: the allocation of {which}{more} can't be read"
            f" ({shown(first.problems[word])}); delete that pod or restore its annotation"
        )


def shown(problem: str) -> str:
    """A problem, cut to the length that is shown to people."""
    return problem if len(problem) <= MAX_PROBLEM else problem[:MAX_PROBLEM] + "…"
