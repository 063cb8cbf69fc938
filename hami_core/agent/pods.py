"""This node's pods by UID, from an informer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from hami_core.kube.port import PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.kube.informer import Informer
    from hami_core.kube.objects import Pod


_REMEMBERED: Final = 1000


class PodIndex:
    """Pods by UID.

    Args:
        informer: An informer of the pods of this node.
        changed: Called after each change.
    """

    def __init__(self, informer: Informer[Pod], changed: Callable[[], None] = lambda: None) -> None:
        if informer.resource is not PODS:
            raise ValueError(f"an informer of {informer.resource.plural}, not of pods")
        self._informer = informer
        self.ended: OrderedDict[str, None] = OrderedDict()
        """UIDs of the last thousand pods that were seen in a terminal phase. Their containers do not run."""
        self._by_uid: dict[str, Pod] = {}
        self._changed = changed
        informer.on_change(self._on_change)

    def _on_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._by_uid.pop(old.uid, None)
        if new is not None:
            self._by_uid[new.uid] = new
        for pod in (old, new):
            if pod is not None and pod.is_terminal:
                self.ended[pod.uid] = None
        while len(self.ended) > _REMEMBERED:
            self.ended.popitem(last=False)
        self._changed()

    @property
    def synced(self) -> bool:
        """Whether the first list is complete: only then does a missing pod mean that it does not exist."""
        return self._informer.synced.is_set()

    def get(self, uid: str) -> Pod | None:
        """A pod of this node, or None."""
        return self._by_uid.get(uid)

    def all(self) -> tuple[Pod, ...]:
        """All pods of this node."""
        return tuple(self._by_uid.values())
