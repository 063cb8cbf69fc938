"""Kubernetes events about pods and ResourceQuotas, in HAMi's words and bounded in length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.kube.events import EventRecorder, reference
from hami_core.placement.explain import of_nodes
from hami_core.placement.nearest import nearest
from hami_core.placement.quota_spec import Fault
from hami_core.scheduler.misses import miss_of
from hami_core.scheduler.unreadable import shown
from hami_core.wire.reasons import NODE_UNREGISTERED, parse_histogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory import FilterOutcome
    from hami_core.kube.objects import ObjectReference, Pod
    from hami_core.model import PodRequest
    from hami_core.placement.quota_spec import Finding
    from hami_core.scheduler.cluster import Cluster
    from hami_core.scheduler.unreadable import UnreadablePod

SHOWN: Final = 5
"""Most node names that an event lists. HAMi lists all of them."""
EXPLAINED: Final = 3
"""Most nodes for which an event explains in amounts what is missing: the nearest misses."""
_QUOTA_REASONS: Final = {
    Fault.UNREADABLE: "QuotaUnreadable",
    Fault.UNENFORCED: "QuotaNotEnforced",
    Fault.PARTIAL: "QuotaPartlyEnforced",
}


class PodEvents:
    """Records the scheduler's events."""

    def __init__(self, recorder: EventRecorder, cluster: Cluster) -> None:
        self._recorder = recorder
        self._cluster = cluster

    def filter_error(self, pod: Pod, error: Exception) -> None:
        """The pod's request is invalid."""
        self._recorder.record(reference("Pod", pod), "Warning", "FilteringFailed", str(error))

    def nothing_fits(self, pod: Pod, wanted: PodRequest, outcome: FilterOutcome) -> None:
        """No node fits: one event for each reason, and one for the pod as a whole."""
        target = reference("Pod", pod)
        by_reason = outcome.refused.by_reason()
        for word, names in by_word(by_reason).items():
            self._recorder.record(target, "Warning", "FilteringFailed", f"{len(names)} nodes {word}({listed(names)})")
        total = len(outcome.refused)
        message = f"no available node, {total} nodes do not meet"
        nodes = outcome.refused.nearest(EXPLAINED)
        parts = [self._cluster.inventory.explain_text(wanted, name) for name in nodes]
        parts += self._nearest_miss(pod, wanted, nodes[:1])
        if unregistered := by_reason.get(NODE_UNREGISTERED):
            parts.append(of_nodes(unregistered, NODE_UNREGISTERED))
        if parts:
            message += ": " + "; ".join(dict.fromkeys(parts))
        self._recorder.record(target, "Warning", "FilteringFailed", message)

    def _nearest_miss(self, pod: Pod, wanted: PodRequest, nodes: Sequence[str]) -> list[str]:
        """The smallest change of the pod's own amounts with which it fits there; empty: there is none.

        `hami explain` looks for all kinds of changes. This one adds half a millisecond to a Filter, or a few.
        """
        misses = ((name, miss_of(self._cluster, pod, wanted, name)) for name in nodes)
        return [
            f"it would fit on {name} {change.text}"
            for name, miss in misses
            for change in nearest(miss, amounts_only=True)[:1]
        ]

    def fits(self, pod: Pod, outcome: FilterOutcome) -> None:
        """Nodes were found."""
        best = ",".join(f"{name}:{score:.2f}" for name, score in outcome.best[:SHOWN])
        message = (
            f"find fit node({outcome.best[0][0]}), {len(outcome.refused)} nodes not fit, "
            f"{outcome.fitting} nodes fit({best})"
        )
        self._recorder.record(reference("Pod", pod), "Normal", "FilteringSucceed", message)

    def bound(self, pod: Pod, node: str) -> None:
        """The pod is bound."""
        message = f"Successfully binding node [{node}] to {pod.key}"
        self._recorder.record(reference("Pod", pod), "Normal", "BindingSucceed", message)

    def not_bound(self, pod: Pod, problem: str) -> None:
        """The pod was not bound."""
        self._recorder.record(reference("Pod", pod), "Warning", "BindingFailed", problem)

    def invalid_signature(self, pod: Pod, problem: str) -> None:
        """A live pod's allocation has a signature that is not ours."""
        message = f"its allocation is counted, but not signed by this scheduler: annotation {problem}"
        self._recorder.record(reference("Pod", pod), "Warning", "AllocationInDoubt", message)

    def quota_finding(self, quota: ObjectReference, finding: Finding) -> None:
        """An entry of a ResourceQuota is not enforced as written."""
        self._recorder.record(quota, "Warning", _QUOTA_REASONS[finding.fault], str(finding))

    def unreadable_pod(self, pod: Pod, unreadable: UnreadablePod) -> None:
        """A live pod's allocation can't be read."""
        families, problems = sorted(unreadable.problems), dict.fromkeys(unreadable.problems.values())
        message = (
            f"its allocation can't be read: annotation {shown('; '.join(problems))}. Node {unreadable.node} gives new"
            f" pods no {', '.join(families)} devices until this pod ends or its annotation is restored"
        )
        self._recorder.record(reference("Pod", pod), "Warning", "AllocationUnreadable", message)


def by_word(by_reason: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Reason word → the nodes it occurs on. A text about a whole node counts as one word."""
    found: dict[str, list[str]] = {}
    for reason, names in by_reason.items():
        for word in parse_histogram(reason) or (reason,):
            found.setdefault(word, []).extend(names)
    return found


def listed(names: Sequence[str]) -> str:
    """The first few names, sorted, and how many more."""
    shown = sorted(names)[:SHOWN]
    more = len(names) - len(shown)
    return ",".join(shown) + (f" and {more} more" if more else "")
