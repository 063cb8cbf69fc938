"""What the reconciler asks for outside the node's files: events on pods, deleted pods, and calls to the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import Pod
    from hami_core.model import MigInstance


class Actions(Protocol):
    """`hami_core.agent.pod_actions` implements this. No method may block."""

    def report_refusal(self, pod: Pod, container: str, reason: str) -> None:
        """Tell a pod's owner why a container may not start."""
        ...

    def retry_refused(self, pod: Pod) -> None:
        """The reason for a refusal is gone. Make the kubelet retry at once."""
        ...

    def report_misfit(self, pod: Pod) -> None:
        """Report that a pod does not fit on its cards."""
        ...

    def nudge(self, resource: str) -> None:
        """Make the kubelet write its checkpoint."""
        ...

    def evict(self, pod: Pod, why: str) -> None:
        """Delete a pod and give the reason in an event."""
        ...

    def is_awaited(self, pod: Pod) -> bool:
        """Whether a scheduler waits for this pod before it binds the next one."""
        ...

    def finish_bind(self, pod: Pod, *, well: bool) -> None:
        """Let the scheduler bind the next pod: the kubelet has asked for all containers of this one, or never will.

        Args:
            pod: The pod.
            well: Whether its containers got what its allocation says.
        """
        ...

    def tell_instances(self, pod: Pod, made: Mapping[str, tuple[MigInstance, ...]]) -> None:
        """Write the ids of MIG instances into the pod's annotation, if it lacks them.

        Args:
            pod: The pod.
            made: The instances of each container, by name.
        """
        ...
