"""What the agent's core needs done outside the node's files: pods are told, and the kubelet is made to act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod


class Actions(Protocol):
    """Implemented by `hami_core.agent.pod_actions`; no method may block."""

    def report_refusal(self, pod: Pod, container: str, reason: str) -> None:
        """Tell a pod's owner why a container may not start."""
        ...

    def retry_refused(self, pod: Pod) -> None:
        """What a container was refused for is gone: make the kubelet try at once."""
        ...

    def report_misfit(self, pod: Pod) -> None:
        """A pod does not fit on its cards."""
        ...

    def nudge(self, resource: str) -> None:
        """Make the kubelet write its checkpoint."""
        ...

    def evict(self, pod: Pod, why: str) -> None:
        """Delete a pod, telling why."""
        ...

    def is_awaited(self, pod: Pod) -> bool:
        """Whether a scheduler waits for a pod before it binds the next one."""
        ...

    def finish_bind(self, pod: Pod, *, well: bool) -> None:
        """Every container of a pod was given its slots, well or not: nobody need wait for it."""
        ...
