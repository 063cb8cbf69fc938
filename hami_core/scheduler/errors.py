"""The scheduler's errors: refused pods, and Binds that failed or whose outcome is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.errors import HamiError, KubeError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable


class UnservedError(RequestError):
    """A container asks for a managed resource that no loaded vendor serves.

    Args:
        container: The container's name.
        resource: The resource.
        loaded: Names of the loaded vendors.
        refused: Names of the installed vendors that could not be loaded.
    """

    def __init__(self, container: str, resource: str, loaded: Iterable[str], refused: Iterable[str]) -> None:
        problem = f"no loaded vendor serves it; loaded: {', '.join(loaded) or 'none'}"
        failed = ", ".join(dict.fromkeys(refused))
        problem += f"; failed to load: {failed} (see the scheduler's log)" if failed else ""
        fix = (
            "remove it from the pod, or have the administrator install its vendor's package in the scheduler's image "
            "and name the vendor in --vendors"
        )
        super().__init__(f"container {container}", resource, problem, fix)
        self.reason = f"{resource} is served by no loaded vendor"
        """The reason in Filter's answer. It is short, since every node gets it."""


class BindRefusedError(HamiError):
    """The pod is not bound; the message says why."""


class UnknownOutcomeError(KubeError):
    """It is not known yet whether the write happened. Its booking and locks stay."""

    def __init__(self, problem: str) -> None:
        super().__init__("bind", 0, problem, retryable=True)
