"""Keeps why each container may not start yet. A pod gets one event for each new reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core.agent.actions import Actions
    from hami_core.agent.identity import Entry
    from hami_core.agent.records import Record
    from hami_core.kube.objects import Pod

Key = tuple[str, str, str]
"""Pod UID, container name and resource."""


def key_of(of: Entry | Record) -> Key:
    """The key of one container and one resource."""
    return of.pod_uid, of.container, of.resource


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a container may not start yet.

    Attributes:
        text: The reason, for people.
        final: A short wait does not help.
    """

    text: str
    final: bool


PREPARING: Final = Refusal("its devices are being prepared", final=False)


class Refusals:
    """The refusals of this node's containers.

    Args:
        actions: Writes events on pods.
    """

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._of: dict[Key, Refusal] = {}
        self._reported: dict[Key, str] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def of(self, key: Key) -> Refusal | None:
        """Why a container may not start, or None if there is no refusal."""
        return self._of.get(key)

    def set(self, key: Key, refusal: Refusal) -> None:
        """Store a refusal in place of the previous one."""
        self._of[key] = refusal

    def clear(self, key: Key) -> None:
        """Remove the refusal: the container may start."""
        self._of.pop(key, None)

    def replace(self, current: Mapping[Key, Refusal], entries: Iterable[Entry]) -> None:
        """Replace all refusals. What was reported to containers outside ``entries`` is forgotten."""
        self._of = dict(current)
        keys = {key_of(entry) for entry in entries}
        self._reported = {key: text for key, text in self._reported.items() if key in keys}

    def report(self, entry: Entry, pod: Pod) -> None:
        """Report a container's refusal on its pod, unless the same text was reported before."""
        key = key_of(entry)
        refusal = self._of.get(key)
        if refusal is not None and self._reported.get(key) != refusal.text:
            self._reported[key] = refusal.text
            self._actions.report_refusal(pod, entry.container, refusal.text)

    def end(self, entry: Entry, pod: Pod | None) -> None:
        """The container is ready. If a refusal was reported on its pod, make the kubelet retry at once."""
        if self._reported.pop(key_of(entry), None) is not None and pod is not None:
            self._actions.retry_refused(pod)
