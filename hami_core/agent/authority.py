"""Reads a pod's allocation strictly, and verifies that a scheduler with one of our keys signed it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from hami_core.agent.judge import Claim
from hami_core.agent.kubelet import Refused
from hami_core.errors import WireError
from hami_core.wire import keys
from hami_core.wire.pod import decode_allocation
from hami_core.wire.signature import statement_of, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import Pod
    from hami_core.model import Allocation, Family
    from hami_core.wire.signature import PublicKey


class Mode(StrEnum):
    """What an administrator requires of allocations."""

    REQUIRED = "required"
    """A valid signature."""
    ADOPT = "adopt"
    """A valid signature, or a pod created before a given time (migration from HAMi)."""
    TRUST = "trust"
    """A valid signature, or a pod of a trusted scheduler."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The administrator's choice.

    Attributes:
        mode: What is required.
        adopt_before: In `adopt` mode, pods created before this time need no signature.
        schedulers: In `trust` mode, pods with one of these names as ``schedulerName`` need no signature.
    """

    mode: Mode = Mode.REQUIRED
    adopt_before: datetime | None = None
    schedulers: frozenset[str] = frozenset()


class Authority:
    """Turns a pod into a `Claim`, or says why its allocation is not accepted.

    Args:
        node: This node's name.
        families: Every family that this agent serves, by common word.
        keys_: Public keys that are valid now.
        policy: What is required.
    """

    def __init__(self, node: str, families: Mapping[str, Family], keys_: tuple[PublicKey, ...], policy: Policy) -> None:
        self.policy = policy
        self.keys = keys_
        self._node = node
        self._families = dict(families)

    def claim(self, pod: Pod) -> Claim:
        """What a pod was promised on this node.

        Raises:
            Refused: It has no allocation, or the allocation is malformed, for another node, or not validly signed.
        """
        allocation = self._allocation(pod)
        if allocation.node != self._node:
            raise Refused(f"its allocation is for node {allocation.node}, it runs on {self._node}")
        text = pod.metadata.annotations.get(keys.SIGNATURE, "")
        epoch = self._epoch(pod, text)
        return Claim(pod.uid, pod.key, allocation.containers, epoch, text)

    def _allocation(self, pod: Pod) -> Allocation:
        mine = pod.containers()
        containers, limits = [(c.name, kind) for kind, c in mine], [c.resources.limits for _, c in mine]
        # HAMi leaves containers without devices out of its lists, so its allocations are read leniently.
        strict = not self._is_hamis(pod)
        try:
            found = decode_allocation(
                pod.metadata.annotations, self._families, containers, strict=strict, limits=limits
            )
        except WireError as error:
            raise Refused(f"its allocation is malformed: annotation {error}") from error
        if found is None:
            raise Refused(
                "it has no allocation: it was not placed by the HAMi scheduler"
                f" (schedulerName is {pod.spec.scheduler_name or 'not set'});"
                " delete it and create it with the scheduler that HAMi's webhook sets"
            )
        return found

    def _epoch(self, pod: Pod, text: str) -> int:
        if not text:
            if self.exempt(pod):
                return 0
            raise Refused(f"its allocation is not signed (annotation {keys.SIGNATURE} is missing)")
        try:
            statement = statement_of(pod.uid, pod.metadata.annotations, self._families.values())
            return verify(self.keys, text, statement)
        except WireError as error:
            raise Refused(f"its allocation's signature is not valid: annotation {error}") from error

    def exempt(self, pod: Pod) -> bool:
        """Whether the policy exempts this pod from a signature."""
        if self.policy.mode is Mode.TRUST:
            return pod.spec.scheduler_name in self.policy.schedulers
        if self.policy.mode is Mode.ADOPT:
            created, before = _time(pod.metadata.creation_timestamp or ""), self.policy.adopt_before
            return created is not None and before is not None and created < before
        return False

    def adopted(self, pod: Pod) -> bool:
        """Whether HAMi served the pod before the migration."""
        return self.policy.mode is Mode.ADOPT and self._is_hamis(pod)

    def _is_hamis(self, pod: Pod) -> bool:
        """Whether another scheduler placed the pod, and the policy accepts that."""
        return keys.SIGNATURE not in pod.metadata.annotations and self.exempt(pod)


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
