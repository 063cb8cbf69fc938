"""Why a pod is refused, and why a Bind did not happen or may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.errors import HamiError, KubeError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable


class UnservedError(RequestError):
    """A container asks for a managed resource that no loaded vendor serves.

    Args:
        container: The container's name.
        resource: What it asks for.
        loaded: Names of the vendors that are loaded.
        refused: Names of the vendors that are installed and could not be loaded.
    """

    def __init__(self, container: str, resource: str, loaded: Iterable[str], refused: Iterable[str]) -> None:
        problem = f"no loaded vendor serves it; loaded: {', '.join(loaded) or 'none'}"
        failed = ", ".join(dict.fromkeys(refused))
        problem += f"; failed to load: {failed} (see the scheduler's log)" if failed else ""
        fix = (
            "take it out of the pod, or have the administrator install its vendor's package in the scheduler's image "
            "and name the vendor in --vendors"
        )
        super().__init__(f"container {container}", resource, problem, fix)
        self.reason = f"{resource} is served by no loaded vendor"
        """What a node is refused with: short, since there is one for each node."""


class BindRefusedError(HamiError):
    """The pod is not bound; the message says why."""


class UnknownOutcomeError(KubeError):
    """Whether the write happened is not known yet; what was booked and locked for it stays."""

    def __init__(self, problem: str) -> None:
        super().__init__("bind", 0, problem, retryable=True)
